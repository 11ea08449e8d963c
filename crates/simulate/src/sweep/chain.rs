//! Lists whose numbers of sets divide each other, one after the other.
//!
//! The numbers of sets of a chain are *m·2^k* for one odd *m*, ascending: each divides the next.
//! **A line that is most recent in its set under S sets is so under every multiple of S**: the
//! other lines of its finer set are lines of its coarser set, and none of those was touched since.
//! So what a list finds at distance 0 ends there, and for FIFO it is a hit that changes nothing.
//!
//! Touches go through in batches, list by list: those that are left of a list are gathered, without
//! a branch, and are the next list's input. A list's state depends only on the touches that reach
//! it and on their order, so it makes no difference that other lists are ahead or behind.
//!
//! *Labels.* A set's number serves only to tell sets apart. By the Chinese remainder theorem *line*
//! mod *m·2^k* and the pair (*line* mod *m*, *line* mod *2^k*) determine each other, so the pair is
//! the label, *(line mod m)·2^k + line mod 2^k*, and the one for fewer sets follows from the one
//! for most by cutting bits out: one division serves the whole chain, and none if *m* = 1.
use super::deep::Deep;
use super::front::BATCH;
use super::full::Full;
use super::lanes::Lane;
use super::packed::Packed;
use super::plan::{ChainPlan, Node};
use super::shapes::Distances;
use super::tally::Tally;

/// A touch of a line of a chain.
#[derive(Clone, Copy, Default)]
pub struct Event<T> {
    /// Label under the most sets.
    pub set: u32,
    pub page: T,
    pub tag: u16,
}

/// A touch whose page has been numbered.
#[derive(Clone, Copy, Default)]
pub struct Numbered<T> {
    /// Of the chain's line size.
    pub line: u64,
    pub page: T,
    pub tag: u16,
}

/// Makes labels under some number of sets from those under the most.
#[derive(Clone, Copy)]
pub struct Label {
    odd: u64,
    /// k of the most, and of this.
    finest: u32,
    k: u32,
}

impl Label {
    fn of(sets: u64, finest: u64) -> Label {
        Label {
            odd: sets >> sets.trailing_zeros(),
            finest: finest.trailing_zeros(),
            k: sets.trailing_zeros(),
        }
    }

    /// Whether a mask will not do.
    pub fn is_odd(self) -> bool {
        self.odd != 1
    }

    #[inline(always)]
    pub fn odd(self, set: u32) -> usize {
        let low = set as usize & ((1 << self.k) - 1);
        (set as usize >> self.finest << self.k) | low
    }

    /// The label under the most sets.
    #[inline(always)]
    fn finest<const ODD: bool>(self, line: u64) -> u32 {
        let low = line & ((1 << self.finest) - 1);
        let high = if ODD { (line % self.odd) << self.finest } else { 0 };
        (high | low) as u32
    }
}

/// Lists that are passed through together: they all have so many vectors.
pub enum Lists<T> {
    One(Vec<Packed<T, 1>>),
    Two(Vec<Packed<T, 2>>),
    Four(Vec<Packed<T, 4>>),
    Deep(Deep<T>),
    Full(Full),
}

/// Lists of one vector go together in so many.
const TOGETHER: usize = 3;

macro_rules! each_list {
    ($lists:expr, $one:ident => $do:expr) => {
        match $lists {
            Lists::One(all) => {
                for $one in all {
                    $do
                }
            }
            Lists::Two(all) => {
                for $one in all {
                    $do
                }
            }
            Lists::Four(all) => {
                for $one in all {
                    $do
                }
            }
            Lists::Deep($one) => $do,
            Lists::Full($one) => $do,
        }
    };
}

impl<T: Lane> Lists<T> {
    fn new(node: Node, label: Label) -> Lists<T> {
        match (node.ways as usize).div_ceil(T::LANES) {
            1 => Lists::One(vec![Packed::new(node, label)]),
            2 => Lists::Two(vec![Packed::new(node, label)]),
            3 | 4 if T::LANES == 4 => Lists::Four(vec![Packed::new(node, label)]),
            _ if Full::suits(&node) => Lists::Full(Full::new(node)),
            _ => Lists::Deep(Deep::new(node, label)),
        }
    }

    /// Takes the other's lists too, if they can go together.
    fn join(&mut self, other: Lists<T>) -> Option<Lists<T>> {
        match (self, other) {
            (Lists::One(all), Lists::One(more)) if all.len() < TOGETHER => all.extend(more),
            (Lists::Two(all), Lists::Two(more)) if all.len() < TOGETHER => all.extend(more),
            (_, other) => return Some(other),
        }
        None
    }

    fn run(&mut self, events: &[Event<T>], left: &mut [Event<T>; BATCH]) -> usize {
        match self {
            Lists::One(all) => Packed::run(all, events, left),
            Lists::Two(all) => Packed::run(all, events, left),
            Lists::Four(all) => Packed::run(all, events, left),
            Lists::Deep(deep) => deep.run(events, left),
            Lists::Full(full) => full.run(events, left),
        }
    }

    fn each_page(&self, see: &mut dyn FnMut(T)) {
        each_list!(self, one => one.each_page(see));
    }

    fn each_tally(&mut self, see: &mut dyn FnMut(&mut Tally)) {
        each_list!(self, one => see(one.tally()));
    }

    fn each_result(&mut self, see: &mut dyn FnMut(usize, (u64, u64))) {
        each_list!(self, one => {
            for (config, ways) in one.node().wanted.clone() {
                see(config, one.tally().from(ways as usize));
            }
        });
    }
}

impl Lists<u16> {
    fn widen(self) -> Lists<u32> {
        match self {
            Lists::One(all) => Lists::Two(all.into_iter().map(Packed::widen).collect()),
            Lists::Two(all) => Lists::Four(all.into_iter().map(Packed::widen).collect()),
            Lists::Four(_) => unreachable!("lists of short numbers have one or two vectors"),
            Lists::Deep(deep) => Lists::Deep(deep.widen()),
            Lists::Full(full) => Lists::Full(full),
        }
    }
}

enum Step<T> {
    /// LRU: what is most recent ends here.
    Lru(Lists<T>),
    /// FIFO: all goes on.
    Fifo(Lists<T>),
}

impl<T> Step<T> {
    fn lists(&mut self) -> &mut Lists<T> {
        match self {
            Step::Lru(lists) | Step::Fifo(lists) => lists,
        }
    }
}

pub struct Chain<T> {
    /// Of the fewest sets.
    label: Label,
    /// The most recent line of each of the fewest sets: most touches end here.
    recent: Vec<T>,
    steps: Vec<Step<T>>,
}

/// Two buffers for what is left.
pub type Buffers<T> = [Box<[Event<T>; BATCH]>; 2];

impl<T: Lane> Chain<T> {
    pub fn new(plan: &ChainPlan) -> Chain<T> {
        let fewest = plan.nodes[0].sets;
        let most = plan.nodes[plan.nodes.len() - 1].sets;
        let mut steps: Vec<Step<T>> = Vec::new();
        for node in &plan.nodes {
            let lists = Lists::new(node.clone(), Label::of(node.sets, most));
            if node.fifo {
                steps.push(Step::Fifo(lists));
                continue;
            }
            // What a FIFO list gets too much does no harm, so LRU lists on both sides of it can go
            // together.
            let before = steps.iter().rposition(|step| matches!(step, Step::Lru(_)));
            let alone = match before.map(|at| steps.remove(at)) {
                Some(Step::Lru(mut together)) => {
                    let alone = together.join(lists);
                    let at = if alone.is_some() {
                        before.unwrap_or(0)
                    } else {
                        steps.len()
                    };
                    steps.insert(at, Step::Lru(together));
                    alone
                }
                _ => Some(lists),
            };
            steps.extend(alone.map(Step::Lru));
        }
        Chain {
            label: Label::of(fewest, most),
            recent: vec![T::default(); fewest as usize],
            steps,
        }
    }

    /// Gathers the touches of lines that are not most recent under the fewest sets.
    #[inline(always)]
    fn begin<const ODD: bool>(&mut self, touches: &[Numbered<T>], left: &mut [Event<T>; BATCH]) -> usize {
        let recent = &mut self.recent[..];
        let label = self.label;
        let mut n = 0;
        for touch in touches {
            let set = label.finest::<ODD>(touch.line);
            let at = if ODD {
                label.odd(set)
            } else {
                set as usize & (recent.len() - 1)
            };
            let before = std::mem::replace(&mut recent[at], touch.page);
            left[n & (BATCH - 1)] = Event {
                set,
                page: touch.page,
                tag: touch.tag,
            };
            n += usize::from(before != touch.page);
        }
        n
    }

    pub fn run(&mut self, touches: &[Numbered<T>], [events, left]: &mut Buffers<T>) {
        let mut n = if self.label.is_odd() {
            self.begin::<true>(touches, events)
        } else {
            self.begin::<false>(touches, events)
        };
        for step in &mut self.steps {
            match step {
                Step::Lru(lists) => {
                    n = lists.run(&events[..n], left);
                    std::mem::swap(events, left);
                }
                Step::Fifo(lists) => {
                    lists.run(&events[..n], left);
                }
            }
        }
    }

    /// Counts touches that did not come by.
    pub fn count(&mut self, touches: &Distances) {
        for step in &mut self.steps {
            each_list!(step.lists(), one => {
                let sets = one.node().sets;
                touches.each(sets, |tag, distance, times| one.tally().add(tag, distance, times));
            });
        }
    }

    pub fn end_batch(&mut self, parts: &[u16], open: bool) {
        for step in &mut self.steps {
            step.lists().each_tally(&mut |tally| tally.end_batch(parts, open));
        }
    }

    /// Every page a list holds. The most recent lines are among them: they are in all lists.
    pub fn each_page(&self, see: &mut dyn FnMut(T)) {
        for step in &self.steps {
            let (Step::Lru(lists) | Step::Fifo(lists)) = step;
            lists.each_page(see);
        }
    }

    /// The misses of each configuration: its number, and (reads, writes).
    pub fn each_result(&mut self, see: &mut dyn FnMut(usize, (u64, u64))) {
        for step in &mut self.steps {
            step.lists().each_result(see);
        }
    }
}

impl Chain<u16> {
    pub fn widen(self) -> Chain<u32> {
        let widen = |step| match step {
            Step::Lru(lists) => Step::Lru(lists.widen()),
            Step::Fifo(lists) => Step::Fifo(lists.widen()),
        };
        Chain {
            label: self.label,
            recent: self.recent.into_iter().map(u32::from).collect(),
            steps: self.steps.into_iter().map(widen).collect(),
        }
    }
}
