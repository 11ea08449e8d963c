//! The code cache: arenas near the target's code, blocks, links.
//!
//! **Arenas.** Translated code keeps its instruction-pointer-relative operands, so it must lie
//! within 2 GB of the original. An arena is a stretch of memory near some code, with a part for hot
//! code and a part for stubs and constants. When one is full another is made: the cache grows
//! without limit.
//!
//! **Death.** A block whose code changed is not freed: its head is patched (8 bytes, one atomic
//! store) with a jump to its stale stub, and the map forgets it. Threads inside run on to its end;
//! nobody enters it again. Links into it need no bookkeeping.
pub mod heads;
pub mod paths;
mod stops;

use crate::heap;
use crate::hooks::Hook;
use crate::lock::{rank, Lock};
use crate::maps;
use crate::process;
use crate::space;
use crate::sys;
use crate::thread::{set_table, unset_table};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use heads::Heads;
use memtrail_ring::Probes;
use memtrail_translate::{
    emit, emit_entry, emit_with, layout, Block, Code, EmitScratch, Emitted, Entry, Error, LinkKind, Options, Place,
    Scratch, Stretch,
};
use paths::Paths;
use stops::Stop;

const ARENA_BYTES: u64 = 32 << 20;
/// Where the part for stubs and constants begins.
const COLD_OFFSET: u64 = ARENA_BYTES / 8 * 5;
/// Room kept free in both parts: no block is larger.
const MARGIN: u64 = 64 << 10;
/// AddressSanitizer's shadow begins at 0x7fff_8000: arenas of programs below it end before.
const LOW_MEMORY_END: u64 = 0x7fe0_0000;
/// Farthest an arena's end may be from the code it serves.
const REACH: u64 = 0x7800_0000;

pub struct BlockInfo {
    pub pc: u64,
    pub code: u64,
    pub code_len: u32,
    /// Where the code stands, if the block is a path.
    stretches: Vec<Stretch>,
    pub id: u32,
    pub first_link: u32,
    pub entry: Entry,
    pub hot: u64,
    pub cold: u64,
    pub head: u64,
    /// Entry addresses for the two tables; 0 if none yet.
    pub indirect: u64,
    pub ret: u64,
    pub alive: bool,
    /// Translated to run once, one instruction long.
    one_shot: bool,
    stop: Option<Stop>,
    /// Entered only from the stop in front of it.
    is_behind: bool,
    /// Can be part of a path.
    joins: bool,
    /// A path can go on behind its end.
    onward: bool,
    /// In which round of looking for paths the next one may begin here, and how often that led to
    /// nothing new.
    rests_until: u32,
    rests: u8,
    /// The block whose place it took.
    before: Option<u32>,
}

struct Arena {
    start: u64,
    end: u64,
    hot: u64,
    cold: u64,
    /// `(start address, block number, what)`, ascending.
    hot_index: Vec<(u64, u32, Piece)>,
    cold_index: Vec<(u64, u32, Piece)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    Body,
    Entry(Entry),
    Stale,
}

/// Where a link leads.
#[derive(Clone, Copy)]
pub enum Way {
    Link(LinkKind),
    /// Into the runtime first: this block is a stop.
    Stop(u32),
}

pub struct Cache {
    arenas: Vec<Arena>,
    pub blocks: Vec<BlockInfo>,
    links: Vec<Way>,
    heads: Heads,
    /// Blocks with code on a page, by page number.
    by_page: BTreeMap<u64, Vec<u32>>,
    /// Executable ranges known from the last look at the maps.
    pub exec: Vec<maps::Range>,
    /// Pages we made read-only because code was translated from them while they were writable.
    pub guarded: BTreeSet<u64>,
    /// Pages that were guarded and are no more.
    given_up: BTreeSet<u64>,
    /// Blocks that run a single instruction once, to be used again while its code is the same.
    shots: BTreeMap<u64, u32>,
    /// Functions at whose entry there is a stop.
    hooks: BTreeMap<u64, Hook>,
    /// Addresses that hooked functions return to.
    returns: BTreeSet<u64>,
    pub options: Options,
    paths: Paths,
    scratch: Option<(Scratch, EmitScratch)>,
    /// Code bytes being translated.
    bytes: Vec<u8>,
    /// Where copies of the blocks' code go.
    code_at: u64,
    code_end: u64,
}

pub static CACHE: Lock<Cache, { rank::CACHE }> = Lock::new(Cache {
    arenas: Vec::new(),
    blocks: Vec::new(),
    links: Vec::new(),
    heads: Heads::EMPTY,
    by_page: BTreeMap::new(),
    exec: Vec::new(),
    guarded: BTreeSet::new(),
    given_up: BTreeSet::new(),
    shots: BTreeMap::new(),
    hooks: BTreeMap::new(),
    returns: BTreeSet::new(),
    options: Options {
        probes: Probes::Loop,
        max_block: 64,
    },
    paths: Paths::EMPTY,
    scratch: None,
    bytes: Vec::new(),
    code_at: 0,
    code_end: 0,
});

/// Whether a page was ever guarded.
pub static ANY_GUARDED: AtomicBool = AtomicBool::new(false);

/// Counts pages that were guarded and are no more.
pub static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

/// Why no block could be had: what the target would have met natively.
#[derive(Clone, Copy, Debug)]
pub enum NoCode {
    Unmapped,
    NotExecutable,
    Unknown,
}

/// Replace code that other threads may be running. All of it lies within one aligned 8-byte word,
/// so that one store does it and no processor sees half of it.
///
/// # Safety
/// The word belongs to an arena; the caller holds the cache's lock.
unsafe fn patch_code(at: u64, new: &[u8]) {
    let (word, shift) = (at & !7, (at & 7) as usize);
    assert!(shift + new.len() <= 8, "patched code straddles a word");
    // SAFETY: an aligned word of ours.
    unsafe {
        let cell = &*(word as *const AtomicU64);
        let mut bytes = cell.load(Relaxed).to_le_bytes();
        bytes[shift..shift + new.len()].copy_from_slice(new);
        cell.store(u64::from_le_bytes(bytes), Release);
    }
}

impl BlockInfo {
    /// The block's row in [`Heads`], without its address.
    fn row(&self, number: u32) -> [u64; 3] {
        // 0, no entry: also for one too far away, which is then found the slow way.
        let distance = |entry: u64| match i32::try_from(entry.wrapping_sub(self.head) as i64) {
            Ok(d) if entry != 0 => d as u32 as u64,
            _ => 0,
        };
        [
            self.head,
            distance(self.indirect) | distance(self.ret) << 32,
            number as u64 + 1,
        ]
    }

    /// Begin and end of each stretch of the code.
    fn each_stretch(&self, mut f: impl FnMut(u64, u64)) {
        if self.stretches.is_empty() {
            f(self.pc, self.pc + self.code_len as u64);
        }
        for s in &self.stretches {
            f(s.pc, s.pc + s.bytes as u64);
        }
    }

    /// Whether it has code in `start..end`.
    fn touches(&self, start: u64, end: u64) -> bool {
        let mut any = false;
        self.each_stretch(|pc, to| any |= pc < end && to > start);
        any
    }
}

impl Cache {
    fn find(&self, pc: u64) -> Option<u32> {
        self.heads.find(pc)
    }

    /// Make room for a large program at once. It costs address space only, and saves copying the
    /// lists as they grow.
    pub fn reserve(&mut self) {
        self.blocks.reserve(1 << 18);
        self.links.reserve(1 << 20);
    }

    /// The range of executable memory that holds `pc`, looked up afresh if it is not known.
    fn executable(&mut self, pc: u64) -> Result<maps::Range, NoCode> {
        if let Some(i) = self.exec.iter().position(|r| (r.start..r.end).contains(&pc)) {
            // The busiest ranges end up in front.
            self.exec.swap(i, i / 2);
            return Ok(self.exec[i / 2]);
        }
        let mut found = Err(NoCode::Unmapped);
        let (exec, guarded) = (&mut self.exec, &self.guarded);
        let mut new = false;
        exec.clear();
        let known = maps::each(&mut |mut r, path| {
            // What we made read-only counts as writable still: it will be again.
            r.write |= guarded.range(r.start..r.end).next().is_some();
            if r.exec {
                exec.push(r);
                new |= process::note_module(&r, path);
            }
            if (r.start..r.end).contains(&pc) {
                found = if r.exec && r.read {
                    Ok(r)
                } else {
                    Err(NoCode::NotExecutable)
                };
            }
        });
        if !known {
            return self.believed_executable(pc);
        }
        if new {
            process::ask_for_hooks(|address, function, id| self.hook(address, Hook { function, id }));
        }
        found
    }

    /// The maps cannot be read: a page that can be read is believed to be executable and constant.
    fn believed_executable(&mut self, pc: u64) -> Result<maps::Range, NoCode> {
        if heap::read_target::<u8>(pc).is_none() {
            return Err(NoCode::Unmapped);
        }
        let start = pc & !4095;
        let range = maps::Range {
            start,
            end: start + 4096,
            read: true,
            write: false,
            exec: true,
            offset: 0,
        };
        self.exec.push(range);
        Ok(range)
    }

    /// The block at `pc`, translated if need be, or a stop in front of it.
    pub fn block(&mut self, pc: u64, entry: Entry, one_shot: bool) -> Result<u32, NoCode> {
        if !one_shot {
            if let Some(b) = self.find(pc) {
                return Ok(b);
            }
        }
        let range = self.executable(pc)?;
        let (hook, returns) = (self.hooks.get(&pc).copied(), self.returns.contains(&pc));
        if !one_shot && (hook.is_some() || returns) {
            return Ok(self.install_stop(pc, hook, returns));
        }
        self.translate(pc, entry, one_shot, false, range)
    }

    fn translate(
        &mut self,
        pc: u64,
        entry: Entry,
        one_shot: bool,
        is_behind: bool,
        range: maps::Range,
    ) -> Result<u32, NoCode> {
        // No block runs on into a hooked function.
        let hooked = self.hooks.range(pc + 1..).next().map_or(u64::MAX, |h| *h.0);
        // Few blocks are longer than the first helping. An instruction that reaches into such a
        // function is taken whole.
        for (most, end) in [(192, hooked), (1024, hooked), (1024, u64::MAX)] {
            let mut bytes = core::mem::take(&mut self.bytes);
            bytes.resize(1024, 0);
            let room = most.min((end - pc) as usize);
            let have = self.fetch(pc, range.end, &mut bytes[..room]);
            if have == 0 {
                return Err(NoCode::Unmapped);
            }
            let mut options = self.options;
            if one_shot {
                options.max_block = 1;
                if let Some(b) = self
                    .shots
                    .get(&pc)
                    .copied()
                    .filter(|&b| bytes.starts_with(self.code_of(b)))
                {
                    return Ok(b);
                }
            } else if range.write {
                self.guard(pc, &mut bytes[..have]);
            }
            let (mut scratch, mut emit_scratch) = self.scratch.take().unwrap_or_default();
            let block = scratch.analyze(&bytes[..have], pc, &options);
            let done = match block {
                Ok(block) if block.starved && have == most && most < 1024 => {
                    scratch.recycle(block);
                    None
                }
                Ok(block) => {
                    let number = self.install(&block, &bytes, &[], (entry, one_shot, is_behind), &mut emit_scratch);
                    scratch.recycle(block);
                    Some(Ok(number))
                }
                Err(Error::Truncated { .. }) if room < most && have == room => None,
                Err(Error::Truncated { .. }) => Some(Err(NoCode::Unmapped)),
                Err(Error::Unknown { .. }) => Some(Err(NoCode::Unknown)),
            };
            self.bytes = bytes;
            self.scratch = Some((scratch, emit_scratch));
            if let Some(done) = done {
                return done;
            }
        }
        Err(NoCode::Unknown)
    }

    /// Read code at `pc` from executable memory that goes on to `end` at least. Returns the bytes
    /// read.
    fn fetch(&mut self, pc: u64, mut end: u64, to: &mut [u8]) -> usize {
        let mut have = 0;
        loop {
            let n = (to.len() - have).min((end - pc) as usize - have);
            if n == 0 || !heap::copy_in_target(to[have..].as_mut_ptr() as u64, pc + have as u64, n) {
                return have;
            }
            have += n;
            if have == to.len() {
                return have;
            }
            // Contiguous executable ranges count as one, so that a block may cross from one to the
            // next.
            match self.executable(end) {
                Ok(r) => end = r.end,
                Err(_) => return have,
            }
        }
    }

    /// Code on a writable page: make the page read-only, so that we learn of changes. The bytes are
    /// read again afterwards.
    fn guard(&mut self, pc: u64, bytes: &mut [u8]) {
        let mut page = pc & !4095;
        while page < pc + bytes.len() as u64 {
            if !self.guarded.contains(&page) && self.exec.iter().any(|r| r.write && (r.start..r.end).contains(&page)) {
                if !sys::protect(page, 4096, sys::PROT_READ | sys::PROT_EXEC) {
                    break;
                }
                self.guarded.insert(page);
                self.given_up.remove(&page);
                ANY_GUARDED.store(true, Relaxed);
            }
            page += 4096;
        }
        heap::copy_in_target(bytes.as_mut_ptr() as u64, pc, bytes.len());
    }

    fn arena(&mut self, pc: u64) -> usize {
        for (i, a) in self.arenas.iter().enumerate().rev() {
            let far = a.start.abs_diff(pc).max(a.end.abs_diff(pc));
            if far <= REACH && a.start + COLD_OFFSET - a.hot > MARGIN && a.end - a.cold > MARGIN {
                return i;
            }
        }
        // Well away from where the target's heap and mappings grow, if there is room.
        let want = if pc > 0x8000_0000 {
            pc - 0x5000_0000
        } else {
            (pc + 0x5000_0000).min(LOW_MEMORY_END - ARENA_BYTES)
        } & !0x1f_ffff;
        let rwx = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
        let start = maps::hole(pc, want, ARENA_BYTES, REACH).and_then(|at| space::map_at(at, ARENA_BYTES, rwx));
        // The maps cannot be read, or another thread was faster: try one place after the other.
        let reached = |at: &u64| at.abs_diff(pc).max((at + ARENA_BYTES).abs_diff(pc)) <= REACH;
        let steps = (0..REACH).step_by(ARENA_BYTES as usize);
        let mut others = steps.flat_map(|d| [want.saturating_sub(d), want + d]).filter(reached);
        let start = start.or_else(|| others.find_map(|at| space::map_at(at, ARENA_BYTES, rwx)));
        let start = start.unwrap_or_else(|| space::region(ARENA_BYTES as usize, rwx));
        let end = start + ARENA_BYTES;
        let cold = start + COLD_OFFSET;
        // Huge pages, if the kernel has any: fewer faults while the cache fills, fewer TLB misses
        // afterwards. SAFETY: advice on our own memory.
        unsafe { sys::call(sys::MADVISE, [start as usize, ARENA_BYTES as usize, 14, 0, 0, 0]) };
        let index = || Vec::with_capacity(1 << 17);
        self.arenas.push(Arena {
            start,
            end,
            hot: start,
            cold,
            hot_index: index(),
            cold_index: index(),
        });
        self.arenas.len() - 1
    }

    fn install(
        &mut self,
        block: &Block,
        code: &[u8],
        stretches: &[Stretch],
        (entry, one_shot, is_behind): (Entry, bool, bool),
        scratch: &mut EmitScratch,
    ) -> u32 {
        let code = &code[..block.plan.bytes as usize];
        let ids = block.plan.ids();
        let id = process::define_block(ids, block.pc, stretches, code);
        let number = self.blocks.len() as u32;
        self.paths.learn(id, number, &block.plan);
        let a = self.arena(block.pc);
        let arena = &self.arenas[a];
        let place = Place {
            hot: arena.hot,
            cold: arena.cold,
            id,
            link: self.links.len() as u32,
            entry,
            probes: self.options.probes,
            map: false,
        };
        let out = emit_with(scratch, block, code, place);
        self.write(a, &out, &place, number, Piece::Body);
        self.links.extend(out.links.iter().map(|&kind| Way::Link(kind)));
        let copy = self.keep(code);
        let head = place.hot + out.head as u64;
        self.blocks.push(BlockInfo {
            pc: block.pc,
            code: copy,
            code_len: block.plan.bytes,
            stretches: stretches.to_vec(),
            id,
            first_link: place.link,
            entry,
            hot: place.hot,
            cold: place.cold,
            head,
            indirect: if entry == Entry::Indirect { place.hot } else { 0 },
            ret: if entry == Entry::Return { place.hot } else { 0 },
            alive: !one_shot,
            one_shot,
            stop: None,
            is_behind,
            joins: !one_shot && paths::can_join(&block.plan),
            onward: paths::goes_onward(block.exit),
            rests_until: 0,
            rests: 0,
            before: None,
        });
        scratch.recycle(out);
        if one_shot {
            self.shots.insert(block.pc, number);
        } else {
            self.enter(number);
            // Ways on to blocks that exist need not wait until they are taken.
            for n in place.link..self.links.len() as u32 {
                if let Way::Link(LinkKind::Direct { target, .. }) = self.links[n as usize] {
                    if let Some(b) = self.find(target) {
                        self.connect(n, b);
                    }
                }
            }
        }
        number
    }

    /// Make a block known by its address and its pages.
    fn enter(&mut self, number: u32) {
        let info = &self.blocks[number as usize];
        if !info.is_behind {
            self.heads.set(info.pc, info.row(number));
        }
        let by_page = &mut self.by_page;
        info.each_stretch(|pc, end| {
            for page in pc >> 12..=(end - 1) >> 12 {
                let there = by_page.entry(page).or_default();
                if there.last() != Some(&number) {
                    there.push(number);
                }
            }
        });
    }

    /// Code at `base` that leaves through link number `link`, and its head, which can be patched.
    fn leaving(base: u64, link: u32) -> (Code, u64) {
        let mut code = Code::at(base);
        code.align_for_patch(0, 5);
        let head = code.here();
        code.store_gs_imm(layout::LINK, link);
        code.jump_gs(layout::LEAVE);
        (code, head)
    }

    /// Keep a copy of `code` for ever.
    fn keep(&mut self, code: &[u8]) -> u64 {
        const CHUNK: u64 = 1 << 18;
        if self.code_at + code.len() as u64 > self.code_end {
            self.code_at = space::region(CHUNK as usize, sys::PROT_READ | sys::PROT_WRITE);
            self.code_end = self.code_at + CHUNK;
        }
        let at = self.code_at;
        // SAFETY: the chunk is ours and has room.
        unsafe { core::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
        self.code_at += code.len() as u64;
        at
    }

    fn write(&mut self, a: usize, out: &Emitted, place: &Place, number: u32, piece: Piece) {
        let arena = &mut self.arenas[a];
        // SAFETY: both pieces lie in the free part of an arena we own; nobody runs there yet.
        unsafe {
            core::ptr::copy_nonoverlapping(out.hot.as_ptr(), place.hot as *mut u8, out.hot.len());
            core::ptr::copy_nonoverlapping(out.cold.as_ptr(), place.cold as *mut u8, out.cold.len());
        }
        arena.hot_index.push((place.hot, number, piece));
        arena.cold_index.push((place.cold, number, piece));
        arena.hot = place.hot + out.hot.len() as u64;
        arena.cold = place.cold + out.cold.len() as u64;
    }

    /// The address to jump to for an indirect entry to block `b`, made if need be, and entered in
    /// the table.
    pub fn table_entry(&mut self, b: u32, entry: Entry) {
        let (have, pc, head) = {
            let info = &self.blocks[b as usize];
            (
                if entry == Entry::Return {
                    info.ret
                } else {
                    info.indirect
                },
                info.pc,
                info.head,
            )
        };
        let code = if have != 0 {
            have
        } else {
            let a = self.arena(pc);
            let hot = self.arenas[a].hot;
            let cold = self.arenas[a].cold;
            let out = emit_entry(entry, pc, hot, cold, head);
            let place = Place {
                hot,
                cold,
                id: 0,
                link: 0,
                entry,
                probes: Probes::None,
                map: false,
            };
            self.write(a, &out, &place, b, Piece::Entry(entry));
            let info = &mut self.blocks[b as usize];
            if entry == Entry::Return {
                info.ret = hot;
            } else {
                info.indirect = hot;
            }
            let row = info.row(b);
            self.heads.set(pc, row);
            hot
        };
        set_table(entry == Entry::Return, pc, code);
    }

    pub fn way(&self, n: u32) -> Way {
        self.links[n as usize]
    }

    /// Instructions in the block that link `n` leaves.
    pub fn instructions_of_link(&self, n: u32) -> u64 {
        let b = self.blocks.partition_point(|b| b.first_link <= n).saturating_sub(1);
        self.again(b as u32).map_or(1, |(block, _)| block.insns.len() as u64)
    }

    /// Point link `n` at block `b`, if it can be reached.
    pub fn connect(&mut self, n: u32, b: u32) {
        let Way::Link(LinkKind::Direct { patch, .. }) = self.links[n as usize] else {
            return;
        };
        let info = &self.blocks[b as usize];
        let distance = info.head.wrapping_sub(patch + 4) as i64;
        if !info.alive || i32::try_from(distance).is_err() {
            return;
        }
        // A block placed right behind, with nothing but padding in between: fall into it instead.
        // SAFETY: code of our own arenas, laid out so that what is patched lies in one aligned
        // word.
        unsafe {
            const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];
            let opcode = ((patch - 1) as *const u8).read();
            if opcode == NOP[0] {
                // Another thread came through the same link and was faster.
            } else if (0..8).contains(&distance) && opcode == 0xe9 {
                patch_code(patch - 1, &NOP);
            } else {
                patch_code(patch, &(distance as u32).to_le_bytes());
            }
        }
    }

    /// What lies at code cache address `pc`: block number and piece.
    pub fn at(&self, pc: u64) -> Option<(u32, Piece)> {
        let a = self.arenas.iter().find(|a| (a.start..a.end).contains(&pc))?;
        let index = if pc < a.start + COLD_OFFSET {
            &a.hot_index
        } else {
            &a.cold_index
        };
        let i = index.partition_point(|e| e.0 <= pc);
        i.checked_sub(1).map(|i| (index[i].1, index[i].2))
    }

    pub fn contains(&self, pc: u64) -> bool {
        self.arenas.iter().any(|a| (a.start..a.end).contains(&pc))
    }

    /// The code block `b` was made from.
    fn code_of(&self, b: u32) -> &'static [u8] {
        let info = &self.blocks[b as usize];
        // SAFETY: the copy of the code was leaked at installation and never changes.
        unsafe { core::slice::from_raw_parts(info.code as *const u8, info.code_len as usize) }
    }

    /// Analyse and emit block `b` again, with the map of sites.
    pub fn again(&self, b: u32) -> Option<(Block, Emitted)> {
        let info = &self.blocks[b as usize];
        let code = self.code_of(b);
        let block = paths::analyze_again(&mut Scratch::default(), info, code, &self.options).ok()?;
        let place = Place {
            hot: info.hot,
            cold: info.cold,
            id: info.id,
            link: info.first_link,
            entry: info.entry,
            probes: self.options.probes,
            map: true,
        };
        let out = emit(&block, code, place);
        Some((block, out))
    }

    /// Blocks with code in `start..end` die.
    pub fn kill(&mut self, start: u64, end: u64) {
        let mut dying: Vec<u32> = Vec::new();
        for (_, list) in self.by_page.range(start >> 12..(end + 4095) >> 12) {
            dying.extend_from_slice(list);
        }
        for b in dying {
            let info = &self.blocks[b as usize];
            if info.alive && info.touches(start, end) {
                self.kill_block(b as usize);
            }
        }
        // Pages wholly inside hold no living block any more.
        let (first, last) = ((start + 4095) >> 12, end >> 12);
        if first < last {
            let gone: Vec<u64> = self.by_page.range(first..last).map(|e| *e.0).collect();
            for page in gone {
                self.by_page.remove(&page);
            }
        }
    }

    fn kill_block(&mut self, i: usize) {
        let (pc, head, indirect, ret) = {
            let info = &mut self.blocks[i];
            info.alive = false;
            (info.pc, info.head, info.indirect, info.ret)
        };
        if !self.blocks[i].is_behind {
            self.heads.set(pc, [0; 3]);
        }
        if indirect != 0 {
            unset_table(false, pc, indirect);
        }
        if ret != 0 {
            unset_table(true, pc, ret);
        }
        // A stub that leaves with "go on at pc", never linked.
        let a = self.arena(head);
        let link = self.links.len() as u32;
        self.links.push(Way::Link(LinkKind::Direct { target: pc, patch: 0 }));
        let arena = &mut self.arenas[a];
        let at = arena.cold;
        let (code, _) = Self::leaving(at, link);
        // SAFETY: free space of an arena we own.
        unsafe { core::ptr::copy_nonoverlapping(code.bytes.as_ptr(), at as *mut u8, code.bytes.len()) };
        arena.cold = at + code.bytes.len() as u64;
        arena.cold_index.push((at, i as u32, Piece::Stale));
        self.redirect(head, at);
    }

    /// Whoever comes to the block whose head this is goes on at `to`.
    fn redirect(&self, head: u64, to: u64) {
        let d = (to.wrapping_sub(head + 5) as u32).to_le_bytes();
        // SAFETY: our own code; heads are aligned for this.
        unsafe { patch_code(head, &[0xe9, d[0], d[1], d[2], d[3]]) };
    }

    /// A page we guard was written to: its blocks die and it becomes writable. False if the page is
    /// not ours.
    pub fn unguard(&mut self, addr: u64) -> bool {
        let page = addr & !4095;
        if !self.guarded.remove(&page) {
            return false;
        }
        self.given_up.insert(page);
        self.kill(page, page + 4096);
        sys::protect(page, 4096, sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC);
        GIVEN_UP.fetch_add(1, Release);
        true
    }

    /// A write to `addr` faulted, though we guard nothing there: did another thread's write to the
    /// same page come first, so that this one need only be done again?
    pub fn writable_by_now(&self, addr: u64) -> bool {
        if !self.given_up.contains(&(addr & !4095)) {
            return false;
        }
        let mut writable = false;
        maps::each(&mut |r, _| writable |= r.write && (r.start..r.end).contains(&addr));
        writable
    }

    /// As [`Cache::unguard`] for every page that has a byte in `start..end`. False if there is
    /// none.
    pub fn unguard_range(&mut self, start: u64, end: u64) -> bool {
        let mut any = false;
        while let Some(&page) = self.guarded.range(start & !4095..end.max(start)).next() {
            any |= self.unguard(page);
        }
        any
    }

    /// The target changed mappings in `start..end`.
    pub fn invalidate(&mut self, start: u64, end: u64) {
        self.exec.retain(|r| r.end <= start || r.start >= end);
        while let Some((&pc, _)) = self.hooks.range(start..end.max(start)).next() {
            self.hooks.remove(&pc);
        }
        while let Some(&pc) = self.returns.range(start..end.max(start)).next() {
            self.returns.remove(&pc);
        }
        for pages in [&mut self.guarded, &mut self.given_up] {
            while let Some(&page) = pages.range(start & !4095..end.max(start)).next() {
                pages.remove(&page);
            }
        }
        self.kill(start, end);
    }
}
