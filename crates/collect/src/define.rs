//! Blocks as targets define them: code bytes, from which the plan follows once more.
use memtrail_decode::{DecodeError, Table, NO_REGISTER};
use memtrail_plan::{LoopPlan, Stretch, FIRST, RSP};
use memtrail_translate::{analyze, analyze_path, Atom, Block, Error, Options};

/// The number of rsp among the general registers.
const STACK_POINTER: u8 = 4;

/// Adds a block to a table from its code.
pub fn define(table: &mut Table, options: &Options, id: u32, pc: u64, code: &[u8]) -> Result<(), DecodeError> {
    insert(table, id, pc, analyze(code, pc, options))
}

/// Adds a path to a table from its code.
pub fn define_path(
    table: &mut Table,
    options: &Options,
    id: u32,
    stretches: &[Stretch],
    code: &[u8],
) -> Result<(), DecodeError> {
    let pc = stretches.first().map_or(0, |s| s.pc);
    insert(table, id, pc, analyze_path(code, stretches, options))
}

fn insert(table: &mut Table, id: u32, pc: u64, block: Result<Block, Error>) -> Result<(), DecodeError> {
    let block = block.map_err(|e| DecodeError::BadCode {
        id,
        pc,
        why: format!("{e:?}"),
    })?;
    let sources = sources(&block);
    table.insert_with(id, block.plan, sources)
}

/// The registers a block's record words were captured from.
fn sources(block: &Block) -> Box<[u8]> {
    let mut sources = vec![NO_REGISTER; (block.plan.words as usize).saturating_sub(1)];
    for capture in &block.captures {
        if let (Atom::Gpr { reg, .. }, Some(word)) = (capture.atom, sources.get_mut((capture.slot - FIRST) as usize)) {
            *word = reg;
        }
    }
    if let (Some(LoopPlan::Affine { counter, .. }), Some(last)) = (&block.plan.looping, sources.len().checked_sub(1)) {
        sources[last] = match counter.slot {
            RSP => STACK_POINTER,
            slot => sources.get((slot - FIRST) as usize).copied().unwrap_or(NO_REGISTER),
        };
    }
    sources.into()
}
