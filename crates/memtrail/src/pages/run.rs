//! Replays through TLBs and caches: as the program is, and as it would be with some objects in huge
//! pages.
use crate::info::Recording;
use crate::sim::choose::Chosen;
use crate::tables::args::TableArgs;
use crate::tables::run::{through, Measured};
use memtrail_model::{Access, AccessSink, Event, Reply, Wants};
use memtrail_paging::{
    data_point, Footprint, Latencies, Mmu, MmuOptions, PagePlan, PagingConfig, TranslationCounts, WalkTotals,
};
use memtrail_report::Dimension;
use memtrail_simulate::{Hierarchy, LevelCounts, Options, Simulator};
use memtrail_trace::Known;

/// What stays the same in all replays.
pub struct Machine {
    pub caches: Hierarchy,
    /// Where the caches are from, and the TLBs.
    pub source: String,
    pub tlb_source: String,
    pub tlbs: PagingConfig,
    pub physical: bool,
    pub latencies: Latencies,
}

/// What one of the simulations of a replay counted, by composite.
pub struct Outcome {
    translations: Vec<TranslationCounts>,
    levels: Vec<LevelCounts>,
}

/// Sums over composites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub translations: TranslationCounts,
    pub walks: WalkTotals,
    /// Time in TLB levels behind the first.
    pub tlb_cycles: u64,
    /// Time that the program's own accesses took.
    pub data_cycles: u64,
}

impl Cost {
    /// What translation took in all.
    pub fn cycles(&self) -> u64 {
        self.walks.cycles + self.tlb_cycles
    }

    pub fn add(&mut self, other: &Cost) {
        self.translations += other.translations;
        self.walks += &other.walks;
        self.tlb_cycles += other.tlb_cycles;
        self.data_cycles += other.data_cycles;
    }
}

impl Outcome {
    /// Of one composite.
    pub fn cost(&self, machine: &Machine, composite: u32) -> Cost {
        let translations = self.translations.get(composite as usize).copied().unwrap_or_default();
        let (latencies, caches) = (&machine.latencies, &machine.caches);
        Cost {
            translations,
            walks: latencies.walks(caches, &self.levels, composite),
            tlb_cycles: latencies.tlb_cycles(&translations, machine.tlbs.depth()),
            data_cycles: latencies.served(caches, &self.levels, data_point(composite)).cycles,
        }
    }

    /// By row, of composites that belong to rows.
    pub fn by_row(&self, machine: &Machine, row_of: &[u32], rows: usize) -> Vec<Cost> {
        let mut costs = vec![Cost::default(); rows];
        for (composite, &row) in row_of.iter().enumerate() {
            costs[row as usize].add(&self.cost(machine, composite as u32));
        }
        costs
    }

    /// Of all composites.
    pub fn total(&self, machine: &Machine, composites: usize) -> Cost {
        let mut total = Cost::default();
        (0..composites as u32).for_each(|composite| total.add(&self.cost(machine, composite)));
        total
    }
}

/// Several simulations of one replay.
struct Several {
    footprint: Option<Footprint>,
    mmus: Vec<Mmu<Simulator>>,
}

impl AccessSink for Several {
    fn accesses(&mut self, batch: &[Access]) {
        self.footprint
            .iter_mut()
            .for_each(|footprint| footprint.accesses(batch));
        self.mmus.iter_mut().for_each(|mmu| mmu.accesses(batch));
    }

    fn wants(&self) -> Wants {
        Wants {
            notes: true,
            ..Wants::default()
        }
    }

    fn event(&mut self, event: Event<'_>) -> Reply {
        self.footprint.iter_mut().for_each(|footprint| {
            footprint.event(event);
        });
        self.mmus.iter_mut().for_each(|mmu| {
            mmu.event(event);
        });
        Reply::NOTHING
    }
}

/// A recording that is replayed again and again.
pub struct Replays<'r> {
    pub args: TableArgs,
    pub by: Vec<Dimension>,
    pub machine: Machine,
    pub reader: &'r mut Recording,
    pub known: &'r Known,
    /// How often it was replayed, and how many simulations that were.
    pub replays: u32,
    pub simulations: u32,
}

impl Replays<'_> {
    /// One replay, with a simulation for each plan.
    fn replay(
        &mut self,
        plans: Vec<PagePlan>,
        footprint: Option<Footprint>,
    ) -> anyhow::Result<(Measured, Vec<Outcome>, Option<Footprint>)> {
        let mut several = Several {
            footprint,
            mmus: Vec::new(),
        };
        let physical = self.machine.physical;
        for plan in plans {
            let simulator = Simulator::new(&self.machine.caches, Options::default())?;
            let options = MmuOptions { physical, plan };
            several.mmus.push(Mmu::new(&self.machine.tlbs, options, simulator)?);
        }
        self.replays += 1;
        self.simulations += several.mmus.len() as u32;
        let chosen = Chosen {
            hierarchy: self.machine.caches.clone(),
            source: self.machine.source.clone(),
        };
        let measured = through(
            &self.args,
            &self.by,
            chosen,
            None,
            &mut several,
            self.reader,
            self.known,
        )?;
        let outcome = |mut mmu: Mmu<Simulator>| Outcome {
            levels: mmu.sink().counts(),
            translations: mmu.counts().to_vec(),
        };
        Ok((
            measured,
            several.mmus.into_iter().map(outcome).collect(),
            several.footprint,
        ))
    }

    /// The program as it is.
    pub fn base(&mut self, window: u64) -> anyhow::Result<(Measured, Outcome, Footprint)> {
        let (measured, outcomes, footprint) = self.replay(vec![PagePlan::default()], Some(Footprint::new(window)))?;
        let base = outcomes.into_iter().next();
        let base = base.unwrap_or(Outcome {
            translations: Vec::new(),
            levels: Vec::new(),
        });
        Ok((measured, base, footprint.unwrap_or_else(|| Footprint::new(window))))
    }

    /// As it would be with each of these plans.
    pub fn with(&mut self, plans: Vec<PagePlan>) -> anyhow::Result<Vec<Outcome>> {
        match plans.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(self.replay(plans, None)?.1),
        }
    }
}
