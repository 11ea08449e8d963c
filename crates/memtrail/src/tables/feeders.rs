//! Which references load what the addresses of others are made of.
//!
//! Recordings have addresses, not values, so that is found in the code: of each block in which a
//! reference of interest stands, along its instructions, from the block's beginning. Imported
//! traces have no code: of these, nothing is known.
use memtrail_analyze::patterns::Feeders;
use memtrail_decode::Block;
use memtrail_model::{Kind, Point};
use memtrail_symbols::loads::Registers;
use memtrail_trace::Known;
use std::collections::{HashMap, HashSet};

/// The feeders of the given points. A reference may stand in several blocks, some of which begin
/// between it and a load: what all blocks agree on that know of any load counts.
pub fn feeders(known: &Known, of: HashSet<Point>) -> Feeders {
    let info = known.table.points();
    let code = |point: &Point| info.get(point.index()).map(|info| info.code);
    let wanted: HashSet<u64> = of.iter().filter_map(code).collect();
    let mut loads: HashMap<u64, Vec<u64>> = HashMap::new();
    for block in known.table.blocks() {
        let is_wanted = |insn: u16| wanted.contains(&block.code_address(insn));
        if block.plan.accesses.iter().any(|access| is_wanted(access.insn)) {
            loads_in(block, &wanted, &mut loads);
        }
    }
    let mut readers: HashMap<u64, Vec<Point>> = HashMap::new();
    for (number, info) in info.iter().enumerate().filter(|(_, info)| info.kind == Kind::Read) {
        readers.entry(info.code).or_default().push(Point(number as u32));
    }
    let found = |point: Point| {
        let loads = loads.get(&code(&point)?)?;
        let points = loads.iter().filter_map(|code| readers.get(code)).flatten();
        Some((point, points.copied().collect()))
    };
    of.into_iter().filter_map(found).collect()
}

/// Adds the loads that the addresses of the wanted instructions of a block come from.
fn loads_in(block: &Block, wanted: &HashSet<u64>, loads: &mut HashMap<u64, Vec<u64>>) {
    let Some(code) = block.code() else { return };
    let mut registers = Registers::default();
    for (insn, &begin) in (0..).zip(&block.plan.insn_offsets) {
        let (_, bytes) = block.plan.instruction(insn);
        let (at, begin) = (block.code_address(insn), usize::from(begin));
        let behind = registers.run(&code[begin..begin + bytes as usize], at);
        if wanted.contains(&at) && !behind.is_empty() {
            let agreed = loads.entry(at).or_insert_with(|| behind.clone());
            agreed.retain(|load| behind.contains(load));
        }
    }
}
