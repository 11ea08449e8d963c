//! Blocks as targets define them: code bytes, from which the plan follows once more.
use memtrail_decode::{DecodeError, Definition, ImageId, Table, NO_REGISTER};
use memtrail_plan::{LoopPlan, Stretch, FIRST, RSP};
use memtrail_translate::{analyze, analyze_path, Atom, Block, Error, Options};

/// The number of rsp among the general registers.
const STACK_POINTER: u8 = 4;

/// Adds a block to a table from its code; where that comes from is not known.
pub fn define(table: &mut Table, options: &Options, id: u32, pc: u64, code: &[u8]) -> Result<(), DecodeError> {
    define_in(table, options, ImageId::UNKNOWN, id, pc, code)
}

/// Adds a block to a table from its code, which lies in `image`.
pub fn define_in(
    table: &mut Table,
    options: &Options,
    image: ImageId,
    id: u32,
    pc: u64,
    code: &[u8],
) -> Result<(), DecodeError> {
    insert(table, id, pc, analyze(code, pc, options), code, &mut |_| image)
}

/// Adds a path to a table from its code; `image` gives the image of an address.
pub fn define_path(
    table: &mut Table,
    options: &Options,
    id: u32,
    stretches: &[Stretch],
    code: &[u8],
    image: &mut dyn FnMut(u64) -> ImageId,
) -> Result<(), DecodeError> {
    let pc = stretches.first().map_or(0, |s| s.pc);
    insert(table, id, pc, analyze_path(code, stretches, options), code, image)
}

fn insert(
    table: &mut Table,
    id: u32,
    pc: u64,
    block: Result<Block, Error>,
    code: &[u8],
    image: &mut dyn FnMut(u64) -> ImageId,
) -> Result<(), DecodeError> {
    let block = block.map_err(|e| DecodeError::BadCode {
        id,
        pc,
        why: format!("{e:?}"),
    })?;
    let sources = sources(&block);
    let plan = block.plan;
    // A block may end before the code that was looked at.
    let code = &code[..code.len().min(plan.bytes as usize)];
    let pcs = [plan.pc].into_iter().chain(plan.pieces.iter().map(|piece| piece.pc));
    table.insert_definition(Definition {
        id,
        images: pcs.map(image).collect(),
        sources,
        code: Some(code.into()),
        plan,
    })
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
