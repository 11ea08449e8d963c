//! Which references load what the addresses of others are made of.
//!
//! Recordings have addresses, not values, so that is found in the code: of each block in which a reference of interest stands, along its instructions, from the block's beginning.
//! The code is that of the module's file; of code that is in no file, nothing is known.
use super::names::Names;
use memtrail_analyze::patterns::Feeders;
use memtrail_model::{Kind, Point};
use memtrail_plan::Plan;
use memtrail_symbols::loads::Registers;
use memtrail_trace::Known;
use std::collections::{HashMap, HashSet};

/// The feeders of the given points. A reference may stand in several blocks, some of which begin between it and a load: what all blocks agree on that know of any load counts.
pub fn feeders(names: &Names, known: &Known, of: HashSet<Point>) -> Feeders {
    let info = known.table.points();
    let pc = |point: &Point| info.get(point.index()).map(|info| info.pc);
    let wanted: HashSet<u64> = of.iter().filter_map(pc).collect();
    let mut loads: HashMap<u64, Vec<u64>> = HashMap::new();
    for block in known.table.blocks() {
        let plan = &block.plan;
        let is_wanted = |insn: u16| wanted.contains(&plan.instruction(insn).0);
        if plan.accesses.iter().any(|access| is_wanted(access.insn)) {
            loads_in(names, plan, &wanted, &mut loads);
        }
    }
    let mut readers: HashMap<u64, Vec<Point>> = HashMap::new();
    for (number, info) in info.iter().enumerate().filter(|(_, info)| info.kind == Kind::Read) {
        readers.entry(info.pc).or_default().push(Point(number as u32));
    }
    let found = |point: Point| {
        let loads = loads.get(&pc(&point)?)?;
        let points = loads.iter().filter_map(|pc| readers.get(pc)).flatten();
        Some((point, points.copied().collect()))
    };
    of.into_iter().filter_map(found).collect()
}

/// Adds the loads that the addresses of the wanted instructions of a block come from.
fn loads_in(names: &Names, plan: &Plan, wanted: &HashSet<u64>, loads: &mut HashMap<u64, Vec<u64>>) {
    let mut registers = Registers::default();
    for insn in 0..plan.insn_offsets.len() as u16 {
        let (pc, bytes) = plan.instruction(insn);
        let Some(code) = names.bytes(pc, bytes.into()) else {
            registers = Registers::default();
            continue;
        };
        let behind = registers.run(code, pc);
        if wanted.contains(&pc) && !behind.is_empty() {
            let agreed = loads.entry(pc).or_insert_with(|| behind.clone());
            agreed.retain(|load| behind.contains(load));
        }
    }
}
