//! Paths: blocks that usually follow each other become one.
//!
//! **Problem.** What a recording costs is a matter of records, and irregular code writes one for
//! every few instructions.
//!
//! **Idea.** Which blocks follow each other stands in the thread's own records. Whenever a buffer
//! is full, and before it is handed on, its first records are looked through: each block votes for
//! how it was left and what came next, and where one way has a clear majority the blocks along it
//! are translated again as a path, which takes the place of the first of them. So code that runs
//! pays nothing for being watched, and what is joined follows from the records alone. A path is a
//! block like any other: it can be joined with others later, cut where it is usually left, and left
//! where control goes elsewhere.
//!
//! **Limits.** Loops that have a record of their own, stops, and what goes to the runtime end a
//! path. So do branches that can go either way.
use super::{BlockInfo, Cache, Entry};
use alloc::vec::Vec;
use iced_x86::FlowControl;
use memtrail_plan::{LoopPlan, Plan, Via};
use memtrail_ring::{self as ring, record};
use memtrail_translate::{Error, Exit, Options, Scratch, Stretch};

/// Records looked at in a buffer.
const SAMPLE: u32 = 4096;
/// The first buffers of a thread are not looked at: what ends soon gains nothing, and its recording
/// stays small.
const NONE_OF_FIRST: u64 = 4;
/// Then as many are, and after that one in this number.
const ALL_OF_NEXT: u64 = 64;
const ONE_IN: u64 = 8;
/// Nothing is joined where one record in this number, or more, stands for a whole loop: such
/// programs write few records.
const LOOPS: usize = 4;
/// A path begins at blocks with at least this number of records in a sample.
const HOT: u32 = 16;
/// Blocks along a path have at least this number.
const WARM: u32 = 4;
/// A block goes on as it usually does if that has at least so many more votes than all others
/// together, in sixteenths.
const MAJORITY: u32 = 4;
/// A path ends where fewer than this number, of a thousand executions that began it, arrive.
const REACH: u32 = 120;
/// Most blocks in a path.
const MOST_BLOCKS: usize = 64;
/// The logarithm of the most rounds that pass until a block is tried again.
const LONGEST_REST: u8 = 6;
/// Rounds in which what was joined may be joined again at once.
const EARLY: u32 = 64;
/// How often a block may come in a path.
const MOST_TIMES: usize = 3;
/// Distance from the first instruction to any other.
const FARTHEST: u64 = 0x7000_0000;
/// Ids above are not looked up.
const MOST_IDS: usize = 1 << 22;

/// What followed a block.
#[derive(Clone, Copy, Default)]
struct Seen {
    round: u32,
    count: u32,
    votes: u32,
    /// How it was left, and the block that came next: the candidate that the votes are for.
    exit: Option<u16>,
    next: u32,
}

#[derive(Clone, Copy, Default)]
struct Length {
    /// Block number + 1, 0 if there is none.
    block: u32,
    words: u16,
    /// The instruction through which the block was left before its end.
    exit: Option<u16>,
    /// It stands for all iterations of a loop.
    is_loop: bool,
}

pub(super) struct Paths {
    round: u32,
    /// By block id.
    lengths: Vec<Length>,
    /// By block number.
    seen: Vec<Seen>,
    /// Blocks of this round, in order of their first record.
    met: Vec<u32>,
}

impl Paths {
    pub const EMPTY: Paths = Paths {
        round: 0,
        lengths: Vec::new(),
        seen: Vec::new(),
        met: Vec::new(),
    };

    /// Block `number` has the ids from `id` on.
    pub fn learn(&mut self, id: u32, number: u32, plan: &Plan) {
        let end = (id + plan.ids()) as usize;
        if end > MOST_IDS {
            return;
        }
        if self.lengths.len() < end {
            self.lengths.resize(end, Length::default());
        }
        for (n, length) in self.lengths[id as usize..end].iter_mut().enumerate() {
            let record = plan.record(n as u32);
            *length = Length {
                block: number + 1,
                words: record.words,
                exit: record.side.map(|s| plan.sides[usize::from(s)].insn),
                is_loop: matches!(plan.looping, Some(LoopPlan::Affine { .. })),
            };
        }
    }

    fn vote(&mut self, block: u32, exit: Option<u16>, next: u32) {
        let seen = &mut self.seen[block as usize];
        if seen.round != self.round {
            *seen = Seen {
                round: self.round,
                ..Seen::default()
            };
            self.met.push(block);
        }
        seen.count += 1;
        if seen.votes == 0 {
            (seen.exit, seen.next) = (exit, next);
        }
        if (seen.exit, seen.next) == (exit, next) {
            seen.votes += 1;
        } else {
            seen.votes -= 1;
        }
    }

    /// Goes through the records that `words` begins with. Returns whether there are enough that
    /// stand for one execution.
    fn look(&mut self, words: &[u64]) -> bool {
        let mut at = 0;
        let mut last = None;
        let (mut records, mut loops) = (0, 0);
        for _ in 0..SAMPLE {
            let Some(&head) = words.get(at) else { break };
            if let Some(&found) = self.lengths.get(head as usize).filter(|l| l.block != 0) {
                let Length { block, words, exit, .. } = found;
                records += 1;
                loops += usize::from(found.is_loop);
                if let Some((last, exit)) = last {
                    self.vote(last, exit, block - 1);
                }
                last = Some((block - 1, exit));
                at += usize::from(words);
            } else {
                let Some(length) = record::special_words(head) else {
                    break;
                };
                last = None;
                at += length;
            }
        }
        loops * LOOPS < records
    }

    fn of(&self, block: u32) -> Option<&Seen> {
        self.seen.get(block as usize).filter(|s| s.round == self.round)
    }
}

/// The code of a path in the making.
#[derive(Default)]
struct Line {
    code: Vec<u8>,
    stretches: Vec<Stretch>,
    /// Where the calls return to that it has made and not come back from.
    calls: Vec<u64>,
    /// Blocks so far.
    joined: usize,
    /// The first of them goes another way now.
    corrected: bool,
}

impl Line {
    /// Adds the first bytes of a block's code.
    fn add(&mut self, info: &BlockInfo, code: &[u8]) {
        let mut left = code.len() as u64;
        info.each_stretch(|pc, end| {
            let bytes = left.min(end - pc);
            left -= bytes;
            let bytes = bytes as u32;
            match self.stretches.last_mut() {
                Some(last) if last.pc + u64::from(last.bytes) == pc => last.bytes += bytes,
                _ if bytes > 0 => self.stretches.push(Stretch { pc, bytes }),
                _ => {}
            }
        });
        self.code.extend_from_slice(code);
        self.joined += 1;
    }
}

/// Whether the buffer that is the `n`th of its thread is to be looked at.
pub fn is_due(n: u64) -> bool {
    n >= NONE_OF_FIRST && (n < NONE_OF_FIRST + ALL_OF_NEXT || n % ONE_IN == 0)
}

impl BlockInfo {
    /// Looking for what could follow costs as much as translating it: every time that it leads to
    /// nothing, or to something else than before, it is twice as long until the next.
    fn rest(&mut self, round: u32) {
        self.rests = (self.rests + 1).min(LONGEST_REST);
        self.rests_until = round.saturating_add(1 << self.rests);
    }

    /// Whether control may come to the block from the one before in a path.
    fn can_follow(&self) -> bool {
        self.alive && self.joins && !self.is_behind
    }
}

impl Cache {
    /// A thread's buffer is full: joins what its first records show to belong together.
    pub fn join(&mut self, words: &[u64], manner: ring::Paths) {
        let (hot, warm) = match manner {
            ring::Paths::Eager => (1, 1),
            _ => (HOT, WARM),
        };
        self.paths.round += 1;
        self.paths.met.clear();
        let blocks = self.blocks.len();
        self.paths.seen.resize(blocks, Seen::default());
        if !self.paths.look(words) && manner != ring::Paths::Eager {
            return;
        }
        let mut met = core::mem::take(&mut self.paths.met);
        met.retain(|&b| self.paths.of(b).is_some_and(|s| s.count >= hot));
        met.sort_by_key(|&b| self.paths.of(b).map(|s| (core::cmp::Reverse(s.count), b)));
        for &b in &met {
            self.join_from(b, warm);
        }
        self.paths.met = met;
    }

    /// Makes a path of what usually follows block `first`, if anything does.
    fn join_from(&mut self, first: u32, warm: u32) {
        let info = &self.blocks[first as usize];
        if !info.can_follow() || self.paths.round < info.rests_until {
            return;
        }
        let (mut scratch, mut emit_scratch) = self.scratch.take().unwrap_or_default();
        let line = self.line_from(first, warm, &mut scratch);
        let made = line.filter(|l| l.joined > 1).and_then(|mut line| {
            let block = scratch.analyze_path(&line.code, &line.stretches, &self.options).ok()?;
            trim(&mut line.stretches, block.plan.bytes);
            let longer = line.corrected || block.plan.bytes > self.blocks[first as usize].code_len;
            let number = longer.then(|| {
                let how = (Entry::Direct, false, false);
                self.install(&block, &line.code, &line.stretches, how, &mut emit_scratch)
            });
            scratch.recycle(block);
            number
        });
        self.scratch = Some((scratch, emit_scratch));
        match made {
            Some(new) => self.supersede(first, new),
            None => self.blocks[first as usize].rest(self.paths.round),
        }
    }

    /// The code from block `first` on, along the way that control usually takes.
    fn line_from(&self, first: u32, warm: u32, scratch: &mut Scratch) -> Option<Line> {
        let pc = self.blocks[first as usize].pc;
        let mut line = Line::default();
        let mut along = Vec::new();
        let (mut last, mut reach) = (first, 1000);
        loop {
            along.push(last);
            let fits = |number: u32| {
                let info = &self.blocks[number as usize];
                let often = along.iter().filter(|&&b| b == number).count();
                let near = info.pc.abs_diff(pc) <= FARTHEST;
                info.can_follow() && near && number != first && often < MOST_TIMES && along.len() < MOST_BLOCKS
            };
            // Another may have taken the place of the one that came next.
            let seen = self.paths.of(last).filter(|s| s.count >= warm);
            let usual = seen.and_then(|seen| {
                reach = reach * (seen.count + seen.votes) / (2 * seen.count);
                let clear = seen.votes * 16 >= seen.count * MAJORITY && reach >= REACH;
                let onward = seen.exit.is_some() || self.blocks[last as usize].onward;
                let next = self.find(self.blocks[seen.next as usize].pc)?;
                (clear && onward && fits(next)).then_some((seen.exit, next))
            });
            let back = self.extend(&mut line, last, usual.and_then(|u| u.0), scratch)?;
            last = match (back, usual) {
                (Some(back), _) => match self.find(back).filter(|&next| fits(next)) {
                    Some(next) => next,
                    None => return Some(line),
                },
                (None, Some((exit, next))) => {
                    line.corrected |= line.joined == 1 && exit.is_some();
                    next
                }
                (None, None) => return Some(line),
            };
        }
    }

    /// Adds the code of block `b`, up to the way out at instruction `exit` or whole. If it comes to
    /// the return of a call that the line has made the line ends there, whatever followed this
    /// return elsewhere; the result is where it goes on then.
    fn extend(&self, line: &mut Line, b: u32, exit: Option<u16>, scratch: &mut Scratch) -> Option<Option<u64>> {
        let info = &self.blocks[b as usize];
        let code = self.code_of(b);
        let block = analyze_again(scratch, info, code, &self.options).ok()?;
        let mut end = exit.map_or(block.insns.len(), |e| usize::from(e) + 1);
        let mut back = None;
        for piece in &block.plan.pieces {
            let from = usize::from(piece.insn) - 1;
            if from + 1 >= end {
                break;
            }
            match piece.via {
                Via::Call => line.calls.push(block.insns[from].next_ip()),
                Via::Return => back = line.calls.pop().filter(|&to| to != piece.pc),
                Via::Jump => {}
            }
            if back.is_some() {
                end = from + 1;
                break;
            }
        }
        if back.is_none() {
            let last = &block.insns[end - 1];
            match last.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => line.calls.push(last.next_ip()),
                FlowControl::Return => back = line.calls.pop(),
                _ => {}
            }
        }
        let bytes = block.plan.insn_offsets.get(end).map_or(block.plan.bytes, |&o| o.into());
        scratch.recycle(block);
        line.add(info, &code[..bytes as usize]);
        Some(back)
    }

    /// Block `new` takes the place of `old`. Whoever has a way to that, or to one whose place it
    /// took, is sent on from there.
    fn supersede(&mut self, old: u32, new: u32) {
        let info = &mut self.blocks[old as usize];
        info.alive = false;
        let (indirect, ret, rests) = (info.indirect, info.ret, info.rests);
        let info = &mut self.blocks[new as usize];
        (info.rests, info.before) = (rests, Some(old));
        if self.paths.round > EARLY {
            info.rest(self.paths.round);
        }
        let to = info.head;
        if indirect != 0 {
            self.table_entry(new, Entry::Indirect);
        }
        if ret != 0 {
            self.table_entry(new, Entry::Return);
        }
        let mut before = Some(old);
        while let Some(b) = before {
            let info = &self.blocks[b as usize];
            before = info.before;
            self.redirect(info.head, to);
        }
    }
}

/// Analyses a block's code as it was.
pub(super) fn analyze_again(
    scratch: &mut Scratch,
    info: &BlockInfo,
    code: &[u8],
    options: &Options,
) -> Result<memtrail_translate::Block, Error> {
    let mut options = *options;
    if info.one_shot {
        options.max_block = 1;
    }
    if info.stretches.is_empty() {
        scratch.analyze(code, info.pc, &options)
    } else {
        scratch.analyze_path(code, &info.stretches, &options)
    }
}

/// Leaves the first `bytes` bytes of `stretches`.
fn trim(stretches: &mut Vec<Stretch>, bytes: u32) {
    let mut left = bytes;
    for s in stretches.iter_mut() {
        s.bytes = s.bytes.min(left);
        left -= s.bytes;
    }
    stretches.retain(|s| s.bytes > 0);
}

/// Whether a block can be part of a path: it is no loop that has a record of its own, and how many
/// accesses it makes does not depend on values. Records are counted by their ids alone if that is
/// so.
pub(super) fn can_join(plan: &Plan) -> bool {
    plan.looping.is_none() && plan.accesses.iter().all(|a| a.shape.fixed_size().is_some())
}

/// Whether a path can go on behind a block that ends like this.
pub(super) fn goes_onward(exit: Exit) -> bool {
    matches!(
        exit,
        Exit::Fall
            | Exit::Jump { .. }
            | Exit::Branch { .. }
            | Exit::Call { .. }
            | Exit::JumpIndirect
            | Exit::CallIndirect
            | Exit::Return
    )
}
