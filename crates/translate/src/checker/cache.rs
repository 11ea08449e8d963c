//! A code cache and a dispatcher as small as can be, in the interpreter's memory.
use super::machine::{Bus, Machine, Memory};
use super::program::{Program, Rng};
use crate::analyze::{analyze, analyze_path, Block, Options};
use crate::emit::{emit, emit_entry, Emitted, Entry, LinkKind, Place, Site};
use crate::layout as at;
use iced_x86::{Code, FlowControl, Instruction, Mnemonic};
use memtrail_plan::Stretch;
use memtrail_ring::record::FIRST_BLOCK;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

/// What `gs` points to in translated code.
pub const AREA: u64 = 0x3200_0000_0000;
const AREA_BYTES: u64 = at::RETURN_TABLE as u64 + 8 * at::TABLE_ENTRIES as u64;
/// Where records go.
pub const BUFFER: u64 = 0x3300_0000_0000;
const BUFFER_WORDS: usize = 1 << 14;
/// The runtime's ways in.
pub const LEAVE: u64 = 0x3000_0000_1000;
pub const INDIRECT_MISS: u64 = 0x3000_0000_2000;
pub const RETURN_MISS: u64 = 0x3000_0000_3000;
/// From hot to cold code.
const COLD_OFFSET: u64 = 0x10_0000;

/// The memory of the original program.
#[derive(Clone)]
pub struct Original<'p> {
    pub program: &'p Program,
    pub memory: Memory,
}

impl Bus for Original<'_> {
    fn load(&mut self, addr: u64, size: usize) -> u64 {
        self.memory.load(addr, size)
    }
    fn store(&mut self, addr: u64, size: usize, value: u64) {
        self.memory.store(addr, size, value);
    }
    fn fetch(&self, pc: u64) -> &[u8] {
        self.program.at(pc)
    }
}

/// A stretch of code at an address.
struct Arena {
    base: u64,
    bytes: Vec<u8>,
}

impl Arena {
    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }
    fn from(&self, pc: u64) -> &[u8] {
        match usize::try_from(pc.wrapping_sub(self.base)) {
            Ok(offset) if offset < self.bytes.len() => &self.bytes[offset..],
            _ => &[],
        }
    }
}

/// The memory of the translated program: the original's, and ours.
pub struct Cache {
    pub memory: Memory,
    /// Cells and tables behind `gs`.
    area: Memory,
    pub buffer: Vec<u64>,
    hot: Arena,
    cold: Arena,
}

impl Cache {
    pub fn new(memory: Memory, base: u64) -> Cache {
        let arena = |base| Arena {
            base,
            bytes: Vec::new(),
        };
        let mut cache = Cache {
            memory,
            area: Memory::new(1, Vec::new()),
            buffer: vec![0; BUFFER_WORDS],
            hot: arena(base),
            cold: arena(base + COLD_OFFSET),
        };
        cache.set_cell(at::LEAVE, LEAVE);
        cache.set_cell(at::INDIRECT_MISS, INDIRECT_MISS);
        cache.set_cell(at::RETURN_MISS, RETURN_MISS);
        cache
    }
    pub fn cell(&self, offset: u32) -> u64 {
        self.area.load(AREA + u64::from(offset), 8)
    }
    pub fn set_cell(&mut self, offset: u32, value: u64) {
        self.area.store(AREA + u64::from(offset), 8, value);
    }
    /// What an empty place in the tables leads to.
    fn miss(addr: u64) -> Option<u64> {
        let table = |start: u32| start as u64..u64::from(start) + 8 * at::TABLE_ENTRIES as u64;
        match addr - AREA {
            offset if table(at::INDIRECT_TABLE).contains(&offset) => Some(INDIRECT_MISS),
            offset if table(at::RETURN_TABLE).contains(&offset) => Some(RETURN_MISS),
            _ => None,
        }
    }
    /// The code from `pc` on, wherever that is.
    fn code(&self, pc: u64) -> &[u8] {
        if pc < self.cold.base {
            self.hot.from(pc)
        } else {
            self.cold.from(pc)
        }
    }
}

impl Bus for Cache {
    fn load(&mut self, addr: u64, size: usize) -> u64 {
        if (AREA..AREA + AREA_BYTES).contains(&addr) {
            return match Cache::miss(addr) {
                Some(miss) if !self.area.written().contains_key(&addr) => miss,
                _ => self.area.load(addr, size),
            };
        }
        match self.cold.from(addr) {
            [] => self.memory.load(addr, size),
            constant => u64::from_le_bytes(constant[..8].try_into().unwrap()),
        }
    }
    fn store(&mut self, addr: u64, size: usize, value: u64) {
        if (AREA..AREA + AREA_BYTES).contains(&addr) {
            self.area.store(addr, size, value);
        } else if (BUFFER..BUFFER + 8 * BUFFER_WORDS as u64).contains(&addr) {
            assert!(
                addr % 8 == 0 && size == 8,
                "{size} bytes stored at {addr:#x} of the buffer"
            );
            self.buffer[(addr - BUFFER) as usize / 8] = value;
        } else {
            self.memory.store(addr, size, value);
        }
    }
    fn fetch(&self, pc: u64) -> &[u8] {
        self.code(pc)
    }
}

/// A piece of translated code.
pub struct Piece {
    hot: std::ops::Range<u64>,
    cold: std::ops::Range<u64>,
    emitted: Emitted,
    /// The block it is the body of; an entry alone is of none.
    pub block: Option<usize>,
}

impl Piece {
    /// The site that covers `pc`, and whether that is in cold code.
    fn site(&self, pc: u64) -> Option<(Option<Site>, bool)> {
        let covers = |range: &std::ops::Range<u64>| {
            let before = self.emitted.sites.iter().filter(|s| s.0 <= pc);
            let found = before.max_by_key(|s| s.0)?;
            // As the runtime looks it up; a site of other code is none.
            assert_eq!(Some(found.1), self.emitted.site(pc));
            range.contains(&found.0).then_some(found.1)
        };
        match pc {
            pc if self.hot.contains(&pc) => Some((covers(&self.hot), false)),
            pc if self.cold.contains(&pc) => Some((covers(&self.cold), true)),
            _ => None,
        }
    }
}

pub struct Translated {
    pub block: Block,
    pub id: u64,
    pub head: u64,
}

/// Translates what is wanted, and remembers it.
pub struct Translator<'p> {
    program: &'p Program,
    pub options: Options,
    pub blocks: Vec<Translated>,
    pieces: Vec<Piece>,
    heads: BTreeMap<u64, usize>,
    pub links: Vec<LinkKind>,
}

impl<'p> Translator<'p> {
    pub fn new(program: &'p Program, options: Options) -> Translator<'p> {
        Translator {
            program,
            options,
            blocks: Vec::new(),
            pieces: Vec::new(),
            heads: BTreeMap::new(),
            links: Vec::new(),
        }
    }

    /// The piece that holds `pc`, the site there, and whether it is in cold code.
    pub fn site(&self, pc: u64) -> Option<(&Piece, Option<Site>, bool)> {
        let of = |p| Piece::site(p, pc).map(|(site, cold)| (p, site, cold));
        self.pieces.iter().find_map(of)
    }

    /// The block that has the id `id`.
    pub fn known(&self, id: u64) -> &Translated {
        let known = self.blocks.iter().rev().find(|b| b.id <= id);
        known.unwrap_or_else(|| panic!("no block has the id {id}"))
    }

    /// Where to go on for the original, which is about to run the code at its program counter;
    /// `None` if there is none.
    pub fn enter(
        &mut self,
        original: &Machine<Original>,
        entry: Entry,
        cache: &mut Cache,
        rng: &mut Rng,
    ) -> Option<u64> {
        let pc = original.state.pc;
        if self.program.at(pc).is_empty() {
            return None;
        }
        let fresh = !self.heads.contains_key(&pc) || rng.once_in(6);
        if fresh {
            self.translate(original, entry, cache, rng)?;
        }
        let b = self.heads[&pc];
        if entry != Entry::Direct && !fresh && rng.once_in(2) {
            let head = self.blocks[b].head;
            let emitted = emit_entry(entry, pc, cache.hot.end(), aligned(&mut cache.cold), head);
            let start = self.install(emitted, None, cache);
            set_table(cache, entry, pc, start);
        }
        Some(self.blocks[b].head)
    }

    fn translate(
        &mut self,
        original: &Machine<Original>,
        entry: Entry,
        cache: &mut Cache,
        rng: &mut Rng,
    ) -> Option<()> {
        let pc = original.state.pc;
        // Blocks begin anywhere.
        for _ in 0..rng.below(8) {
            cache.hot.bytes.push(0xcc);
        }
        let path = if rng.once_in(2) {
            path_ahead(original, 1 + rng.below(40))
        } else {
            Vec::new()
        };
        let code: Vec<u8> = path
            .iter()
            .flat_map(|s| &self.program.at(s.pc)[..s.bytes as usize])
            .copied()
            .collect();
        let (block, code) = match analyze_path(&code, &path, &self.options) {
            Ok(block) => (block, &code[..]),
            Err(_) => (
                analyze(self.program.at(pc), pc, &self.options).ok()?,
                self.program.at(pc),
            ),
        };
        let id = self
            .blocks
            .last()
            .map_or(FIRST_BLOCK, |b| b.id + u64::from(b.block.plan.ids()));
        let place = Place {
            hot: cache.hot.end(),
            cold: aligned(&mut cache.cold),
            id: id as u32,
            link: self.links.len() as u32,
            entry,
            probes: self.options.probes,
            map: true,
        };
        let emitted = emit(&block, &code[..block.plan.bytes as usize], place);
        let head = place.hot + u64::from(emitted.head);
        self.links.extend(&emitted.links);
        let start = self.install(emitted, Some(self.blocks.len()), cache);
        self.heads.insert(pc, self.blocks.len());
        self.blocks.push(Translated { block, id, head });
        if entry != Entry::Direct {
            set_table(cache, entry, pc, start);
        }
        Some(())
    }

    fn install(&mut self, emitted: Emitted, block: Option<usize>, cache: &mut Cache) -> u64 {
        let start = cache.hot.end();
        let cold = cache.cold.end();
        cache.hot.bytes.extend(&emitted.hot);
        cache.cold.bytes.extend(&emitted.cold);
        self.pieces.push(Piece {
            hot: start..cache.hot.end(),
            cold: cold..cache.cold.end(),
            emitted,
            block,
        });
        start
    }

    /// Point link `n` at the block that begins at `pc`.
    pub fn connect(&self, n: usize, pc: u64, cache: &mut Cache) {
        let (LinkKind::Direct { patch, .. }, Some(&b)) = (self.links[n], self.heads.get(&pc)) else {
            return;
        };
        let distance = (self.blocks[b].head.wrapping_sub(patch + 4) as u32).to_le_bytes();
        let arena = if patch < cache.cold.base {
            &mut cache.hot
        } else {
            &mut cache.cold
        };
        let offset = (patch - arena.base) as usize;
        arena.bytes[offset..offset + 4].copy_from_slice(&distance);
    }
}

fn aligned(cold: &mut Arena) -> u64 {
    while cold.end() % 16 != 0 {
        cold.bytes.push(0xcc);
    }
    cold.end()
}

fn set_table(cache: &mut Cache, entry: Entry, pc: u64, start: u64) {
    let table = match entry {
        Entry::Return => at::RETURN_TABLE,
        _ => at::INDIRECT_TABLE,
    };
    cache.set_cell(table + 8 * u32::from(pc as u16), start);
}

/// The stretches of code that the next `n` instructions of the original come from.
fn path_ahead(original: &Machine<Original>, n: usize) -> Vec<Stretch> {
    let mut ahead = original.clone();
    let mut path: Vec<Stretch> = Vec::new();
    for _ in 0..n {
        let Some(insn) = ahead.next() else { break };
        let (pc, bytes) = (insn.ip(), insn.len() as u32);
        match path.last_mut() {
            Some(last) if last.pc + u64::from(last.bytes) == pc => last.bytes += bytes,
            _ => path.push(Stretch { pc, bytes }),
        }
        let endless = (0..100).all(|_| ahead.step() == super::machine::Step::Element);
        if ends_path(&insn) || endless {
            break;
        }
    }
    path
}

fn ends_path(insn: &Instruction) -> bool {
    match insn.flow_control() {
        FlowControl::Next | FlowControl::UnconditionalBranch => false,
        FlowControl::ConditionalBranch => !insn.is_jcc_short_or_near(),
        FlowControl::Return => insn.code() != Code::Retnq,
        FlowControl::IndirectBranch | FlowControl::IndirectCall => false,
        FlowControl::Call => insn.mnemonic() == Mnemonic::Syscall,
        _ => true,
    }
}
