//! The lists of one cache in all configurations.
use super::chain::{Buffers, Event, Numbered};
use super::front::{Batch, Common, Touch, BATCH};
use super::lanes::Lane;
use super::pages::Pages;
use super::plan::{groups, ChainPlan, GroupPlan, Node};
use super::rounds::{Round, Rounds};
use super::shapes::Shapes;
use super::stage::{count, Stage};

/// Chains that share their pages' numbers.
struct Group<T> {
    /// Logarithm of the lines' bytes that touches are numbered in.
    shortest: u32,
    /// Lines of that size in a page (logarithm).
    page: u32,
    pages: Pages<T>,
    /// By ascending line size.
    stages: Vec<Stage<T>>,
    numbered: Vec<Numbered<T>>,
    /// Unless there are lists of FIFO.
    rounds: Option<Folds<T>>,
    /// Rounds left out, whose touches are still to be counted: before all stages, and before each.
    shapes: (Shapes, Vec<Shapes>),
    buffers: Buffers<T>,
}

fn buffers<T: Lane>() -> Buffers<T> {
    std::array::from_fn(|_| Box::new([Event::default(); BATCH]))
}

/// Leaves out rounds: before pages are numbered, and before each stage.
struct Folds<T>(Rounds<Touch>, Vec<Rounds<Numbered<T>>>);

impl<T: Lane> Folds<T> {
    fn new(stages: usize) -> Folds<T> {
        Folds(Rounds::default(), (0..stages).map(|_| Rounds::default()).collect())
    }
}

/// Notes rounds that were left out before these stages.
fn note<T: Lane>(shapes: &mut Shapes, stages: &mut [Stage<T>], touches: &[Numbered<T>], rounds: &[Round]) {
    for round in rounds {
        let touches = touches[round.at..][..round.len].iter();
        if let Some(others) = shapes.add(touches.map(|touch| (touch.line, touch.tag)), round.times) {
            count(stages, &others);
        }
    }
}

impl<T: Lane> Group<T> {
    fn new(plan: &GroupPlan, shortest: u32, pages: Pages<T>) -> Group<T> {
        // What a stage leaves out does not come to those behind it either.
        let common = |from: u32| {
            let chains = plan.chains.iter().filter(|chain| chain.line >= from);
            let nodes = chains.flat_map(|chain| &chain.nodes);
            Common::of(&nodes.map(|node| (node.line, node.sets)).collect::<Vec<_>>())
        };
        let of_line = plan.chains.chunk_by(|a, b| a.line == b.line);
        let stages: Vec<Stage<T>> = of_line
            .map(|chains| Stage::new(chains, common(chains[0].line)))
            .collect();
        let longest = common(0).longest;
        Group {
            shortest,
            page: plan.page - shortest,
            pages,
            numbered: Vec::with_capacity(BATCH),
            rounds: plan
                .chains
                .iter()
                .all(ChainPlan::is_lru)
                .then(|| Folds::new(stages.len())),
            shapes: (
                Shapes::new(shortest, longest),
                stages.iter().map(|stage| Shapes::new(stage.line, longest)).collect(),
            ),
            stages,
            buffers: buffers(),
        }
    }

    fn take(&mut self, batch: &Batch) {
        let Group { pages, numbered, .. } = self;
        let all = batch.touches();
        let found = self.rounds.as_mut().and_then(|Folds(rounds, _)| rounds.fold(all));
        let (touches, found) = found.unwrap_or((all, &[]));
        numbered.clear();
        numbered.extend(touches.iter().map(|touch| Numbered {
            line: touch.line,
            page: pages.number(touch.line >> self.page),
            tag: touch.tag,
        }));
        note(&mut self.shapes.0, &mut self.stages, numbered, found);
        let mut line = self.shortest;
        for at in 0..self.stages.len() {
            let stages = &mut self.stages[at..];
            if stages[0].line > line {
                stages[0].sift(numbered, line);
                line = stages[0].line;
                let found = self
                    .rounds
                    .as_mut()
                    .and_then(|Folds(_, rounds)| rounds[at].fold(numbered));
                if let Some((left, found)) = found {
                    note(&mut self.shapes.1[at], stages, left, found);
                    numbered.clear();
                    numbered.extend_from_slice(left);
                }
            }
            stages[0].run(numbered, &mut self.buffers);
            if !batch.parts.is_empty() {
                stages[0].end_batch(&batch.parts, batch.open);
            }
        }
    }

    /// Takes back the numbers of pages that no list knows any more.
    fn collect(&mut self) {
        let stages = &self.stages;
        self.pages
            .collect(|see| stages.iter().for_each(|stage| stage.each_page(see)));
    }

    fn each_result(&mut self, see: &mut dyn FnMut(usize, (u64, u64))) {
        let (first, others) = &mut self.shapes;
        first.drain().for_each(|rounds| count(&mut self.stages, &rounds));
        for (at, shapes) in others.iter_mut().enumerate() {
            shapes.drain().for_each(|rounds| count(&mut self.stages[at..], &rounds));
        }
        self.stages.iter_mut().for_each(|stage| stage.each_result(see));
    }
}

/// A group, in as short numbers as will do.
enum AnyGroup {
    Short(Box<Group<u16>>),
    Long(Box<Group<u32>>),
}

impl AnyGroup {
    fn take(&mut self, batch: &Batch) {
        if let AnyGroup::Short(group) = self {
            if group.pages.room() < BATCH {
                group.collect();
                if group.pages.crowded() {
                    self.widen();
                }
            }
        }
        match self {
            AnyGroup::Short(group) => group.take(batch),
            AnyGroup::Long(group) => {
                if group.pages.room() < BATCH {
                    group.collect();
                    if group.pages.crowded() {
                        group.pages.grow();
                    }
                }
                group.take(batch);
            }
        }
    }

    fn widen(&mut self) {
        if let AnyGroup::Short(group) = self {
            let stages = std::mem::take(&mut group.stages);
            let line = group.shortest;
            *self = AnyGroup::Long(Box::new(Group {
                shortest: group.shortest,
                page: group.page,
                pages: group.pages.widen(),
                numbered: Vec::with_capacity(BATCH),
                rounds: group.rounds.as_ref().map(|_| Folds::new(stages.len())),
                shapes: std::mem::replace(&mut group.shapes, (Shapes::new(line, line), Vec::new())),
                stages: stages.into_iter().map(Stage::widen).collect(),
                buffers: buffers(),
            }));
        }
    }
}

pub struct Forest {
    groups: Vec<AnyGroup>,
}

impl Forest {
    /// Of these lists; `shortest` is the logarithm of the lines that touches are numbered in.
    pub fn new(nodes: &[Node], shortest: u32) -> Forest {
        let group = |plan: &GroupPlan| AnyGroup::Short(Box::new(Group::new(plan, shortest, Pages::new())));
        Forest {
            groups: groups(nodes).iter().map(group).collect(),
        }
    }

    pub fn take(&mut self, batch: &Batch) {
        for group in &mut self.groups {
            group.take(batch);
        }
    }

    /// The misses of each configuration: its number, and (reads, writes).
    pub fn each_result(&mut self, see: &mut dyn FnMut(usize, (u64, u64))) {
        for group in &mut self.groups {
            match group {
                AnyGroup::Short(group) => group.each_result(see),
                AnyGroup::Long(group) => group.each_result(see),
            }
        }
    }
}
