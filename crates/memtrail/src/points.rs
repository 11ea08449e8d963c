//! `points`: how many probes a program's memory instructions need (paper 000, Table 7).
//!
//! The code is cut into blocks: at functions, at targets of direct branches, and where the
//! translator ends a block. It goes on past a few forward branches; so do these blocks. Then, per
//! block:
//! - **memory instructions**: those that read, write or prefetch; naively each has a probe.
//! - **after chaining**: instructions whose addresses differ by a constant share one probe, as long
//!   as no register of the address is written in between. Constant addresses need none.
//! - **after delaying**: what is captured in the middle of a block. Values taken at its start
//!   belong to the one record per block that there is anyway, as in the paper.
//! - **after loops**: the same, counting in loops only what is captured in every iteration: nothing
//!   in affine loops, which have a record per entry, and only the values without a regular step in
//!   partly affine ones.
use crate::args::PointsArgs;
use crate::elf::{Code, Elf};
use anyhow::Context;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Register};
use memtrail_plan::LoopPlan;
use memtrail_report::format::thousands;
use memtrail_ring::Probes;
use memtrail_translate::{analyze, Block, Capture, Options};
use serde_json::json;
use std::collections::{BTreeSet, HashMap, HashSet};

const MAX_BLOCK: u32 = 64;

/// Static counts over a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Points {
    blocks: u64,
    instructions: u64,
    memory_instructions: u64,
    chaining: u64,
    delaying: u64,
    loops: u64,
    /// Values in the records of all blocks, and those of them that are stored anew in every
    /// iteration of loops.
    values: u64,
    values_after_loops: u64,
    affine_loops: u64,
    partly_affine_loops: u64,
}

pub fn command(args: &PointsArgs) -> anyhow::Result<u8> {
    let name = || args.program.display().to_string();
    let file = std::fs::read(&args.program).with_context(name)?;
    let elf = Elf::parse(&file).with_context(name)?;
    let points = count(&elf);
    if args.json {
        print_json(&points);
    } else {
        print(&name(), &points);
    }
    Ok(0)
}

fn count(elf: &Elf) -> Points {
    let mut points = Points::default();
    for code in &elf.code {
        let leaders = leaders(code, &elf.functions);
        let mut at = code.addr;
        let end = code.addr + code.bytes.len() as u64;
        while at < end {
            let next_leader = leaders.range(at + 1..).next().copied().unwrap_or(end);
            let bytes = &code.bytes[(at - code.addr) as usize..(next_leader.min(end) - code.addr) as usize];
            at += block(&mut points, bytes, at).max(1);
        }
    }
    points
}

/// Addresses where a block begins: functions, and targets of direct branches of a linear sweep.
fn leaders(code: &Code, functions: &[u64]) -> BTreeSet<u64> {
    let end = code.addr + code.bytes.len() as u64;
    let inside = |&a: &u64| a >= code.addr && a < end;
    let mut leaders: BTreeSet<u64> = functions.iter().copied().filter(inside).collect();
    let mut insn = Instruction::default();
    let mut decoder = Decoder::with_ip(64, code.bytes, code.addr, DecoderOptions::NONE);
    while decoder.can_decode() {
        decoder.decode_out(&mut insn);
        let direct = matches!(
            insn.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::Call
        );
        let target = insn.near_branch_target();
        if direct && inside(&target) {
            leaders.insert(target);
        }
    }
    leaders
}

/// Counts the block at the start of `bytes`; returns its length, or 0 if there is none.
fn block(points: &mut Points, bytes: &[u8], pc: u64) -> u64 {
    let options = |probes| Options {
        probes,
        max_block: MAX_BLOCK,
    };
    let (Ok(delayed), Ok(looped)) = (
        analyze(bytes, pc, &options(Probes::Block)),
        analyze(bytes, pc, &options(Probes::Loop)),
    ) else {
        return 0;
    };
    let plan = &delayed.plan;
    let with_memory: HashSet<u16> = plan.accesses.iter().map(|a| a.insn).collect();
    points.blocks += 1;
    points.instructions += plan.insn_offsets.len() as u64;
    points.memory_instructions += with_memory.len() as u64;
    points.chaining += chains(&delayed, &with_memory);
    points.delaying += in_the_middle(&delayed);
    points.values += u64::from(plan.words.saturating_sub(1));
    match &looped.plan.looping {
        Some(LoopPlan::Affine { .. }) => points.affine_loops += 1,
        Some(LoopPlan::Partly { free, .. }) => {
            points.partly_affine_loops += 1;
            let each_time = |c: &&Capture| c.pos > 0 && free.contains(&c.slot);
            points.loops += looped.captures.iter().filter(each_time).count() as u64;
            points.values_after_loops += free.len() as u64;
        }
        None => {
            points.loops += in_the_middle(&looped);
            points.values_after_loops += u64::from(looped.plan.words.saturating_sub(1));
        }
    }
    plan.bytes.into()
}

fn in_the_middle(block: &Block) -> u64 {
    block.captures.iter().filter(|c| c.pos > 0).count() as u64
}

/// Chains of memory operands at static distances; each needs one probe.
fn chains(block: &Block, with_memory: &HashSet<u16>) -> u64 {
    let mut factory = InstructionInfoFactory::new();
    let mut written: HashMap<Register, u32> = HashMap::new();
    let mut chains = HashSet::new();
    for (i, insn) in block.insns.iter().enumerate() {
        let info = factory.info(insn);
        for m in info.used_memory() {
            let version = |r: Register| written.get(&r.full_register()).copied().unwrap_or(0);
            let (base, index) = (m.base(), m.index());
            let constant = index == Register::None && matches!(base, Register::None | Register::RIP);
            if with_memory.contains(&(i as u16)) && !constant {
                let index = (index, m.scale(), version(index));
                chains.insert((base, version(base), index, m.segment()));
            }
        }
        for r in info.used_registers() {
            let writes = !matches!(
                r.access(),
                iced_x86::OpAccess::None
                    | iced_x86::OpAccess::Read
                    | iced_x86::OpAccess::CondRead
                    | iced_x86::OpAccess::NoMemAccess
            );
            if writes {
                *written.entry(r.register().full_register()).or_default() += 1;
            }
        }
    }
    chains.len() as u64
}

fn reduction(points: u64, of: u64) -> f64 {
    if of == 0 {
        return 0.0;
    }
    100.0 * (1.0 - points as f64 / of as f64)
}

fn print(name: &str, p: &Points) {
    println!(
        "{name}: {} instructions in {} blocks",
        thousands(p.instructions),
        thousands(p.blocks)
    );
    println!("memory instructions  after chaining  after delaying  after loops  reduction");
    println!(
        "{:>19}  {:>14}  {:>14}  {:>11}  {:>8.1}%",
        thousands(p.memory_instructions),
        thousands(p.chaining),
        thousands(p.delaying),
        thousands(p.loops),
        reduction(p.loops, p.memory_instructions)
    );
    println!(
        "{} values captured, {} after loops ({} affine, {} partly affine)",
        thousands(p.values),
        thousands(p.values_after_loops),
        thousands(p.affine_loops),
        thousands(p.partly_affine_loops)
    );
}

fn print_json(p: &Points) {
    let value = json!({
        "blocks": p.blocks,
        "instructions": p.instructions,
        "memory_instructions": p.memory_instructions,
        "after_chaining": p.chaining,
        "after_delaying": p.delaying,
        "after_loops": p.loops,
        "reduction_percent": reduction(p.loops, p.memory_instructions),
        "values": p.values,
        "values_after_loops": p.values_after_loops,
        "affine_loops": p.affine_loops,
        "partly_affine_loops": p.partly_affine_loops,
    });
    println!("{value:#}");
}
