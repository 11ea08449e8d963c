//! `dump --tree`: the loops over blocks that a recording consists of.
//!
//! ```text
//! loop 300
//!   loop 300
//!     mm+0x15a8 x149: rax=0x10, rcx=0x555f60 [+0, +2400], rdx=0x4a62e0 [+2400, +0], until=0x960
//! ```
//! A line is a loop, with its trip count, or a block, with the registers its accesses follow from:
//! the value in the first iteration and, in brackets, how far it moves with each loop around it,
//! the outermost first. A trip count that changes has the same. `x150` is a block that repeats
//! itself so often in the first iteration, and `until` what its counter then is. A path is named by
//! its first and its last instruction, `mm+0x15a8..+0x1204 (3 pieces)`.
use super::{output, written};
use crate::args::DumpArgs;
use crate::info::Recording;
use memtrail_decode::Block;
use memtrail_descriptor::{Definition, Events};
use memtrail_plan::{LoopPlan, Plan, FIRST};
use memtrail_trace::{stream, Known, LeafName};
use std::fmt::Write as _;
use std::io::{self, Write};

const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
];

/// A parameter in a nest: its first value, and how far it moves in each loop, the outermost first.
/// Strides may move as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Moving {
    first: u64,
    strides: Vec<Moving>,
}

impl Moving {
    fn fixed(value: u64) -> Moving {
        Moving {
            first: value,
            strides: Vec::new(),
        }
    }
    fn is_zero(&self) -> bool {
        self.first == 0 && self.strides.iter().all(Moving::is_zero)
    }
    /// A stride, with how it moves itself behind it.
    fn stride(&self) -> String {
        let mut text = format!("{:+}", self.first as i64);
        text.push_str(&self.movement());
        text
    }
    /// How it moves, if it does.
    fn movement(&self) -> String {
        if self.strides.iter().all(Moving::is_zero) {
            return String::new();
        }
        let strides: Vec<String> = self.strides.iter().map(Moving::stride).collect();
        format!(" [{}]", strides.join(", "))
    }
}

/// The parameters of a loop's body, given those of the loop: `rest` is the first values and then
/// their strides.
fn inside(rest: &[Moving]) -> Vec<Moving> {
    let (first, strides) = rest.split_at(rest.len() / 2);
    let moving = |(first, stride): (&Moving, &Moving)| {
        let mut all = first.clone();
        all.strides.push(stride.clone());
        all
    };
    first.iter().zip(strides).map(moving).collect()
}

struct Tree<'k, W> {
    known: &'k Known,
    out: W,
    left: u64,
}

impl<W: Write> Tree<'_, W> {
    fn line(&mut self, depth: usize, text: &str) -> io::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        writeln!(self.out, "{:1$}{text}", "", 2 * depth)
    }

    fn event(&mut self, events: &Events, kind: u32, parameters: &[Moving], depth: usize) -> io::Result<()> {
        match events.dictionary.definition(kind) {
            Definition::Leaf(key) => {
                let text = self.leaf(*key, parameters);
                self.line(depth, &text)
            }
            Definition::Loop(body) => {
                let Some((trips, rest)) = parameters.split_first() else {
                    return Ok(());
                };
                self.line(depth, &format!("loop {}{}", trips.first, trips.movement()))?;
                let inner = inside(rest);
                let mut inner = inner.as_slice();
                for &kind in body {
                    let (own, others) = inner.split_at(events.dictionary.arity(kind).min(inner.len()));
                    self.event(events, kind, own, depth + 1)?;
                    inner = others;
                }
                Ok(())
            }
        }
    }

    /// Where a block begins; of a path also the last instruction, without its module if that is the
    /// same.
    fn name(&self, block: &Block) -> String {
        let plan = &block.plan;
        let mut text = self.place(block, 0);
        if !plan.pieces.is_empty() {
            let last = self.place(block, plan.insn_offsets.len().saturating_sub(1) as u16);
            let last = match (text.rsplit_once('+'), last.rsplit_once('+')) {
                (Some((module, _)), Some((same, offset))) if module == same => format!("+{offset}"),
                _ => last,
            };
            text = format!("{text}..{last} ({} pieces)", plan.pieces.len() + 1);
        }
        text
    }

    /// Where an instruction comes from.
    fn place(&self, block: &Block, insn: u16) -> String {
        self.known.table.images().place(block.code_address(insn)).to_string()
    }

    fn leaf(&self, key: u32, parameters: &[Moving]) -> String {
        let name = LeafName::of(key);
        let found = match name {
            LeafName::Block { head, .. } => self.known.table.find(head.into()),
            LeafName::Special(text) => {
                let values: Vec<String> = parameters
                    .iter()
                    .map(|p| format!("{:#x}{}", p.first, p.movement()))
                    .collect();
                return format!("{text} {}", values.join(", ")).trim_end().to_string();
            }
        };
        let Some(found) = found else {
            return format!("{name:?}");
        };
        let block = found.block;
        let mut text = self.name(block);
        if found.steady {
            text.push_str(" again");
        }
        // Writing to a string cannot fail.
        if let Some(trips) = trips(block, parameters) {
            let _ = write!(text, " x{trips}");
        }
        if let Some(side) = found.side {
            let insn = block.plan.sides[side].insn;
            let (pc, _) = block.plan.instruction(insn);
            let _ = match block.plan.pieces.is_empty() {
                true => write!(text, " left at +{:#x}", pc.wrapping_sub(block.plan.pc)),
                false => write!(text, " left at {}", self.place(block, insn)),
            };
        }
        for (i, parameter) in parameters.iter().enumerate() {
            let slot = match &block.plan.looping {
                Some(LoopPlan::Partly { free, .. }) if found.steady => free.get(i).map_or(0, |s| s.wrapping_sub(FIRST)),
                _ => i as u16,
            };
            let register = block
                .sources
                .get(slot as usize)
                .and_then(|&r| REGISTERS.get(r as usize));
            let ends = matches!(block.plan.looping, Some(LoopPlan::Affine { .. })) && i + 1 == parameters.len();
            let name = match register {
                _ if ends => "until".to_string(),
                Some(register) => register.to_string(),
                None => format!("v{slot}"),
            };
            let _ = write!(
                text,
                "{} {name}={:#x}{}",
                if i == 0 { ":" } else { "," },
                parameter.first,
                parameter.movement()
            );
        }
        text
    }
}

/// How often an affine loop's block runs, in the first iteration.
fn trips(block: &Block, parameters: &[Moving]) -> Option<u64> {
    let Some(LoopPlan::Affine { counter, .. }) = &block.plan.looping else {
        return None;
    };
    let slot = counter.slot.checked_sub(FIRST)? as usize;
    let (entry, exit) = (parameters.get(slot)?.first, parameters.last()?.first);
    (counter.by != 0).then(|| Plan::trips(counter, entry, exit))
}

pub fn print(reader: &mut Recording, known: &Known, args: &DumpArgs) -> anyhow::Result<u8> {
    let mut tree = Tree {
        known,
        out: output(),
        left: args.limit.unwrap_or(u64::MAX),
    };
    let mut print = || {
        let wanted = |thread: u32| args.part.thread.is_none_or(|t| t == thread);
        for chunk in known.streams.iter().filter(|c| wanted(c.head.stream.thread)) {
            let head = chunk.head.stream;
            let (first, end) = (head.first, head.first.saturating_add(head.accesses));
            let text = format!(
                "thread {}, process {}, accesses {first} to {end}",
                head.thread, head.process
            );
            if let Err(error) = tree.line(0, &text) {
                return Ok(Some(error));
            }
            if tree.left == 0 {
                break;
            }
            let stream = stream(reader, known, chunk)?;
            let events = &stream.events;
            for i in 0..events.len() {
                let parameters: Vec<Moving> = events.parameters(i).iter().map(|&v| Moving::fixed(v)).collect();
                if let Err(error) = tree.event(events, events.kind(i), &parameters, 1) {
                    return Ok(Some(error));
                }
                if tree.left == 0 {
                    break;
                }
            }
        }
        Ok::<_, memtrail_trace::Error>(None)
    };
    let failed = print()?;
    written(failed.or(tree.out.flush().err()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_move_with_every_loop_around_them() {
        let fixed = |values: &[u64]| values.iter().map(|&v| Moving::fixed(v)).collect::<Vec<_>>();
        // A loop over a loop over one parameter: its inner loop has 3 parameters (trips, first,
        // stride).
        let outer = fixed(&[5, 0x1000, 8, 1, 100, u64::MAX]);
        let inner = inside(&outer);
        assert_eq!(inner[0].first, 5);
        assert_eq!(inner[0].movement(), " [+1]");
        let leaf = inside(&inner[1..]);
        assert_eq!(leaf[0].first, 0x1000);
        assert_eq!(leaf[0].movement(), " [+100, +8 [-1]]");
        assert_eq!(inside(&inside(&fixed(&[5, 7, 0, 0, 0, 0]))[1..])[0].movement(), "");
    }
}
