//! What was found, in rows: costs, pages, what if, and what to do.
use super::args::PagesArgs;
use super::run::{Cost, Machine, Outcome, Replays};
use crate::tables::results::{grouped, Grouped};
use crate::tables::run::Measured;
use memtrail_paging::{best_set, Budget, Choice, Footprint, Gain, PagePlan, PageSize, Region};
use memtrail_report::{Dimension, Entry, Object};
use std::collections::{BTreeMap, HashMap};

/// An area as large as a huge page, by address space and number.
type Area = (u32, u64);

/// An object in huge pages.
#[derive(Clone, Debug)]
pub struct Huge {
    /// The object's own.
    pub own: Cost,
    pub all: Cost,
    /// What all save, which may be less than nothing.
    pub saved: i64,
    pub pages: u64,
    pub wasted: u64,
}

/// A row.
pub struct Row {
    pub label: Vec<String>,
    pub kind: Option<String>,
    pub reads: u64,
    pub writes: u64,
    pub cost: Cost,
    /// Small pages touched; only of objects.
    pub pages: u64,
    pub huge: Option<Huge>,
}

/// One object of the best set.
pub struct Step {
    pub row: usize,
    pub choice: Choice,
    pub cost: Cost,
    pub wasted: u64,
}

pub struct Found {
    pub machine: Machine,
    pub accesses: u64,
    pub page_size: PageSize,
    pub by: Vec<Dimension>,
    /// Costliest first.
    pub rows: Vec<Row>,
    pub total: Cost,
    /// Small pages touched.
    pub pages: u64,
    /// By stretch of `window` accesses.
    pub windows: Vec<u64>,
    pub window: u64,
    pub best: Vec<Step>,
    /// Everything that could be in huge pages is.
    pub everything: Option<Huge>,
    pub budget: Option<u64>,
    /// Objects that the question was asked for.
    pub asked: usize,
    pub reasons: Vec<String>,
    pub simulations: u32,
}

/// The regions that each row touches, in huge pages of the size that is asked about.
struct Areas {
    by_row: Vec<BTreeMap<Area, Region>>,
    /// Of all rows.
    all: HashMap<Area, u64>,
    size: PageSize,
}

impl Areas {
    fn new(footprint: &Footprint, grouped: &Grouped, size: PageSize) -> Areas {
        let mut by_row = vec![BTreeMap::<Area, Region>::new(); grouped.keys.len()];
        let mut whole: BTreeMap<Area, Region> = BTreeMap::new();
        for (composite, region) in footprint.regions() {
            let at = (region.space, region.number);
            let row = &mut by_row[grouped.row_of[composite as usize] as usize];
            for known in [row, &mut whole] {
                known
                    .entry(at)
                    .or_insert(Region {
                        touched: [0; 8],
                        ..region
                    })
                    .merge(&region);
            }
        }
        let mut all = HashMap::new();
        for region in whole.values() {
            for (area, pages) in areas_of(region, size) {
                *all.entry(area).or_default() += pages;
            }
        }
        Areas { by_row, all, size }
    }

    /// Small pages that a row touches.
    fn pages(&self, row: usize) -> u64 {
        self.by_row[row].values().map(Region::touched_pages).sum()
    }

    /// The huge pages that these rows need.
    fn needed(&self, rows: impl Iterator<Item = usize>) -> Vec<Area> {
        let regions = rows.flat_map(|row| self.by_row[row].values());
        let mut areas: Vec<Area> = regions
            .flat_map(|region| areas_of(region, self.size))
            .map(|(area, _)| area)
            .collect();
        areas.sort_unstable();
        areas.dedup();
        areas
    }

    fn plan(&self, areas: &[Area]) -> PagePlan {
        let mut plan = PagePlan::default();
        areas
            .iter()
            .for_each(|&(space, number)| plan.add(space, number, self.size));
        plan
    }

    /// Bytes of them that nobody touches.
    fn wasted(&self, areas: &[Area]) -> u64 {
        let touched = |area| self.all.get(area).copied().unwrap_or(0) * PageSize::SMALL.bytes();
        areas
            .iter()
            .map(|area| self.size.bytes().saturating_sub(touched(area)))
            .sum()
    }
}

/// The areas of a size that a region of 2M touches, and how many small pages of each.
fn areas_of(region: &Region, size: PageSize) -> Vec<(Area, u64)> {
    let first = region.number << PageSize::HUGE.shift();
    let mut areas: Vec<(Area, u64)> = Vec::new();
    for page in 0..512u64 {
        if region.touched[(page / 64) as usize] >> (page % 64) & 1 == 0 {
            continue;
        }
        let area = (region.space, size.page(first + page * PageSize::SMALL.bytes()));
        match areas.last_mut() {
            Some((last, pages)) if *last == area => *pages += 1,
            _ => areas.push((area, 1)),
        }
    }
    areas
}

/// Whether memory of this kind can be asked for in huge pages.
fn can_be_huge(object: &Object) -> bool {
    matches!(
        object.kind.as_str(),
        "heap" | "anonymous" | "static" | "named" | "allocator"
    )
}

/// What an entry is called in a row.
pub fn label(entry: &Entry) -> String {
    let none = || "-".to_string();
    match entry {
        Entry::Object(object) => object.name.clone(),
        Entry::Ref(reference) => match &reference.source {
            Some(source) => format!("{source} ({})", reference.place()),
            None => reference.place(),
        },
        Entry::Callpath(path) => path.calls.join(" > "),
        Entry::Line(line) => line.as_ref().map_or_else(none, ToString::to_string),
        Entry::Function(function) => function.name.clone(),
        Entry::Loop(one) => one.as_ref().map_or_else(none, |one| one.address.clone()),
        Entry::Module(name) => name.clone(),
        Entry::Thread(number) => format!("thread {number}"),
        Entry::Rank(rank) => rank.map_or_else(none, |rank| format!("rank {rank}")),
        Entry::Phase(number) => format!("phase {number}"),
        Entry::Process(process) => format!("{} {}", process.serial, process.name).trim().to_string(),
        Entry::Block(_) | Entry::Field(_) => none(),
    }
}

fn rows(measured: &Measured, grouped: &Grouped, by: &[Dimension], base: &Outcome, machine: &Machine) -> Vec<Row> {
    let costs = base.by_row(machine, &grouped.row_of, grouped.keys.len());
    let at = |dimension: &Dimension| grouped.dimensions.iter().position(|known| known == dimension);
    let mut rows: Vec<Row> = grouped
        .keys
        .iter()
        .zip(costs)
        .map(|(ids, cost)| {
            let entries = by
                .iter()
                .filter_map(at)
                .map(|at| &grouped.entries[at][ids[at] as usize]);
            let kind = entries.clone().find_map(|entry| match entry {
                Entry::Object(object) => Some(object.kind.clone()),
                _ => None,
            });
            Row {
                label: entries.map(label).collect(),
                kind,
                reads: 0,
                writes: 0,
                cost,
                pages: 0,
                huge: None,
            }
        })
        .collect();
    tell_apart(&mut rows, grouped, by);
    for (tally, &row) in measured.tallies.iter().zip(&grouped.row_of) {
        rows[row as usize].reads += tally.reads;
        rows[row as usize].writes += tally.writes;
    }
    rows
}

/// Objects with the same name get the calls that tell them apart.
fn tell_apart(rows: &mut [Row], grouped: &Grouped, by: &[Dimension]) {
    let Some(column) = by.iter().position(|by| *by == Dimension::Object) else {
        return;
    };
    let Some(at) = grouped.dimensions.iter().position(|known| *known == Dimension::Object) else {
        return;
    };
    let mut paths: HashMap<&str, BTreeMap<u32, &[String]>> = HashMap::new();
    for (id, entry) in (0..).zip(&grouped.entries[at]) {
        if let Entry::Object(object) = entry {
            paths.entry(&object.name).or_default().insert(id, &object.path.calls);
        }
    }
    for (row, ids) in rows.iter_mut().zip(&grouped.keys) {
        let Some(same) = paths.get(row.label[column].as_str()).filter(|same| same.len() > 1) else {
            continue;
        };
        let mine = same.get(&ids[at]).copied().unwrap_or_default();
        // From the innermost call outwards, the first in which they differ.
        let differs = |back: &usize| {
            same.values()
                .any(|other| nth_back(other, *back) != nth_back(mine, *back))
        };
        if let Some(call) = (0..mine.len()).find(differs).and_then(|back| nth_back(mine, back)) {
            row.label[column] = format!("{} by {call}", row.label[column]);
        }
    }
}

fn nth_back(calls: &[String], back: usize) -> Option<&String> {
    calls.iter().rev().nth(back)
}

fn signed(before: u64, after: u64) -> i64 {
    before as i64 - after as i64
}

/// Simulates, and what follows from it.
pub fn find(args: &PagesArgs, mut replays: Replays<'_>, window: u64) -> anyhow::Result<Found> {
    let (measured, base, footprint) = replays.base(window)?;
    let composites = measured.keys.len();
    let total = base.total(&replays.machine, composites);
    let by = args.by();
    let objects = grouped(&measured, &[Dimension::Object]);
    let areas = Areas::new(&footprint, &objects, args.page_size);
    let mut by_object = rows(&measured, &objects, &[Dimension::Object], &base, &replays.machine);
    by_object
        .iter_mut()
        .enumerate()
        .for_each(|(row, of)| of.pages = areas.pages(row));
    let asked = candidates(&by_object, &objects, args.what_if);
    let mut what_if = WhatIf {
        areas: &areas,
        candidates: &asked,
        replays: &mut replays,
        objects: &objects,
        composites,
        known: HashMap::new(),
    };
    let mut singles: Vec<Vec<usize>> = (0..asked.len()).map(|one| vec![one]).collect();
    if asked.len() > 1 {
        singles.push((0..asked.len()).collect());
    }
    what_if.simulate(&singles)?;
    let budget = Budget {
        pages: args.huge_pages.unwrap_or(u64::MAX),
        least: 10,
    };
    let needed = |set: &[usize]| areas.needed(set.iter().map(|&one| asked[one])).len() as u64;
    let choices = best_set(asked.len(), total.cycles(), budget, needed, |sets| {
        what_if.simulate(sets)
    })?;
    let huge = |set: &[usize], row: Option<usize>| -> Option<Huge> {
        let (all, own) = what_if.known.get(&sorted(set))?;
        let areas_of = areas.needed(set.iter().map(|&one| asked[one]));
        Some(Huge {
            own: row.map_or_else(Cost::default, |row| own[row].clone()),
            all: all.clone(),
            saved: signed(total.cycles(), all.cycles()),
            pages: areas_of.len() as u64,
            wasted: areas.wasted(&areas_of),
        })
    };
    for (one, &row) in asked.iter().enumerate() {
        by_object[row].huge = huge(&[one], Some(row));
    }
    let mut chosen: Vec<usize> = Vec::new();
    let mut best = Vec::new();
    for choice in choices {
        chosen.push(choice.candidate);
        if let Some(huge) = huge(&chosen, None) {
            best.push(Step {
                row: asked[choice.candidate],
                choice,
                cost: huge.all,
                wasted: huge.wasted,
            });
        }
    }
    let everything = (asked.len() > 1).then(|| huge(&(0..asked.len()).collect::<Vec<_>>(), None));
    let everything = everything.flatten();
    let mut shown = match by == [Dimension::Object] {
        true => by_object,
        false => {
            let other = grouped(&measured, &by);
            let mut rows = rows(&measured, &other, &by, &base, &replays.machine);
            let areas = Areas::new(&footprint, &other, args.page_size);
            rows.iter_mut()
                .enumerate()
                .for_each(|(row, of)| of.pages = areas.pages(row));
            best.clear();
            rows
        }
    };
    let mut order: Vec<usize> = (0..shown.len()).collect();
    order.sort_by_key(|&row| {
        let cost = &shown[row].cost;
        let counts = cost.translations;
        std::cmp::Reverse((cost.cycles(), counts.walks, counts.misses[0], shown[row].pages))
    });
    let place: HashMap<usize, usize> = order.iter().enumerate().map(|(at, &row)| (row, at)).collect();
    best.iter_mut().for_each(|step| step.row = place[&step.row]);
    let mut slots: Vec<Option<Row>> = shown.drain(..).map(Some).collect();
    let rows = order.into_iter().filter_map(|row| slots[row].take()).collect();
    Ok(Found {
        accesses: measured.accesses,
        page_size: args.page_size,
        by,
        rows,
        total,
        pages: footprint.pages(),
        windows: footprint.windows().to_vec(),
        window,
        best,
        everything,
        budget: args.huge_pages,
        asked: asked.len(),
        reasons: measured.reasons(),
        simulations: replays.simulations,
        machine: replays.machine,
    })
}

/// The rows whose walks cost most, of memory that can be in huge pages.
fn candidates(rows: &[Row], objects: &Grouped, most: usize) -> Vec<usize> {
    let possible = |row: &usize| match &objects.entries[0][objects.keys[*row][0] as usize] {
        Entry::Object(object) => can_be_huge(object) && rows[*row].cost.translations.misses[0] > 0,
        _ => false,
    };
    let mut rows_asked: Vec<usize> = (0..rows.len()).filter(possible).collect();
    rows_asked.sort_by_key(|&row| std::cmp::Reverse((rows[row].cost.cycles(), rows[row].cost.translations.misses[0])));
    rows_asked.truncate(most);
    rows_asked
}

fn sorted(set: &[usize]) -> Vec<usize> {
    let mut set = set.to_vec();
    set.sort_unstable();
    set
}

/// Simulations of sets of candidates, each once.
struct WhatIf<'w, 'r> {
    areas: &'w Areas,
    /// Their rows.
    candidates: &'w [usize],
    replays: &'w mut Replays<'r>,
    objects: &'w Grouped,
    composites: usize,
    /// By set: what all cost then, and each object.
    known: HashMap<Vec<usize>, (Cost, Vec<Cost>)>,
}

impl WhatIf<'_, '_> {
    fn simulate(&mut self, sets: &[Vec<usize>]) -> anyhow::Result<Vec<Gain>> {
        let mut new: Vec<Vec<usize>> = sets.iter().map(|set| sorted(set)).collect();
        new.sort_unstable();
        new.dedup();
        new.retain(|set| !self.known.contains_key(set));
        let plan = |set: &Vec<usize>| {
            let rows = set.iter().map(|&one| self.candidates[one]);
            self.areas.plan(&self.areas.needed(rows))
        };
        let plans = new.iter().map(plan).collect();
        let outcomes = self.replays.with(plans)?;
        for (set, outcome) in new.into_iter().zip(outcomes) {
            let machine = &self.replays.machine;
            let total = outcome.total(machine, self.composites);
            let rows = outcome.by_row(machine, &self.objects.row_of, self.objects.keys.len());
            self.known.insert(set, (total, rows));
        }
        let gain = |set: &Vec<usize>| Gain {
            cycles: self.known[&sorted(set)].0.cycles(),
        };
        Ok(sets.iter().map(gain).collect())
    }
}
