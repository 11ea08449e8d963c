//! The lists of one cache in all configurations.
use super::chain::{Buffers, Chain, Event, Numbered};
use super::front::{Batch, Touch, BATCH};
use super::lanes::Lane;
use super::pages::Pages;
use super::plan::{groups, ChainPlan, GroupPlan, Node};
use super::rounds::Rounds;

/// Chains that share their pages' numbers.
struct Group<T> {
    /// Lines of the shortest size in a page (logarithm).
    page: u32,
    pages: Pages<T>,
    chains: Vec<Chain<T>>,
    numbered: Vec<Numbered<T>>,
    /// Unless there are lists of FIFO.
    rounds: Option<Rounds>,
    buffers: Buffers<T>,
}

fn buffers<T: Lane>() -> Buffers<T> {
    let empty = Event {
        set: 0,
        page: T::default(),
        tag: 0,
        weight: 0,
    };
    std::array::from_fn(|_| Box::new([empty; BATCH]))
}

impl<T: Lane> Group<T> {
    fn new(plan: &GroupPlan, shortest: u32, pages: Pages<T>) -> Group<T> {
        Group {
            page: plan.page - shortest,
            pages,
            chains: plan.chains.iter().map(|chain| Chain::new(chain, shortest)).collect(),
            numbered: Vec::with_capacity(BATCH),
            rounds: plan.chains.iter().all(ChainPlan::is_lru).then(Rounds::default),
            buffers: buffers(),
        }
    }

    fn number(&mut self, touches: &[Touch]) {
        let Group {
            page, pages, numbered, ..
        } = self;
        numbered.clear();
        numbered.extend(touches.iter().map(|touch| Numbered {
            line: touch.line,
            page: pages.number(touch.line >> *page),
            tag: touch.tag,
            weight: 1,
        }));
        if let Some(rounds) = &mut self.rounds {
            let left = rounds.fold(&mut self.numbered);
            self.numbered.truncate(left);
        }
    }

    fn take(&mut self, batch: &Batch) {
        self.number(batch.touches());
        for chain in &mut self.chains {
            chain.run(&self.numbered, &mut self.buffers);
            if !batch.parts.is_empty() {
                chain.end_batch(&batch.parts, batch.open);
            }
        }
    }

    /// Takes back the numbers of pages that no list knows any more.
    fn collect(&mut self) {
        let chains = &self.chains;
        self.pages
            .collect(|see| chains.iter().for_each(|chain| chain.each_page(see)));
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
            let chains = std::mem::take(&mut group.chains);
            *self = AnyGroup::Long(Box::new(Group {
                page: group.page,
                pages: group.pages.widen(),
                chains: chains.into_iter().map(Chain::widen).collect(),
                numbered: Vec::with_capacity(BATCH),
                rounds: group.rounds.take(),
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
                AnyGroup::Short(group) => group.chains.iter_mut().for_each(|chain| chain.each_result(see)),
                AnyGroup::Long(group) => group.chains.iter_mut().for_each(|chain| chain.each_result(see)),
            }
        }
    }
}
