//! Lists of many ways. One set of very many has a file of its own: `full.rs`.
//!
//! LRU: a list per set in memory, most recent first; a look-up goes through it from there and moves
//! what it passes up by one, so it costs as much as the distance. FIFO: a ring per set; a look-up
//! goes through all of it.
use super::chain::{Event, Label};
use super::front::BATCH;
use super::lanes::Lane;
use super::plan::Node;
use super::tally::Tally;

/// Deals with each event; leaves those that are not at distance 0.
pub fn one_by_one<T: Lane>(
    events: &[Event<T>],
    left: &mut [Event<T>; BATCH],
    mut touch: impl FnMut(&Event<T>) -> usize,
) -> usize {
    let mut n = 0;
    for event in events {
        left[n & (BATCH - 1)] = *event;
        n += usize::from(touch(event) != 0);
    }
    n
}

pub struct Deep<T> {
    node: Node,
    label: Label,
    pages: Vec<T>,
    /// Of FIFO: where each set's next line goes.
    next: Vec<u32>,
    tally: Tally,
}

impl<T: Lane> Deep<T> {
    pub fn new(node: Node, label: Label) -> Deep<T> {
        let sets = node.sets as usize;
        Deep {
            pages: vec![T::default(); sets * node.ways as usize],
            next: vec![0; if node.fifo { sets } else { 0 }],
            tally: Tally::long(&node.wanted),
            node,
            label,
        }
    }

    /// Returns the distance; of FIFO only whether it is less than the ways.
    fn touch(&mut self, set: u32, page: T) -> usize {
        let set = self.label.odd(set);
        let ways = self.node.ways as usize;
        let list = &mut self.pages[set * ways..][..ways];
        if self.node.fifo {
            if list.contains(&page) {
                return 0;
            }
            let next = &mut self.next[set];
            list[*next as usize] = page;
            *next = if *next + 1 == self.node.ways { 0 } else { *next + 1 };
            return ways;
        }
        let mut incoming = page;
        for (distance, place) in list.iter_mut().enumerate() {
            std::mem::swap(place, &mut incoming);
            if incoming == page {
                return distance;
            }
        }
        ways
    }

    pub fn run(&mut self, events: &[Event<T>], left: &mut [Event<T>; BATCH]) -> usize {
        one_by_one(events, left, |event| {
            let distance = self.touch(event.set, event.page);
            self.tally.add(event.tag, distance, 1);
            distance
        })
    }

    pub fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    pub fn each_page(&self, see: &mut dyn FnMut(T)) {
        self.pages.iter().copied().for_each(see);
    }
}

impl Deep<u16> {
    /// The same in longer numbers.
    pub fn widen(self) -> Deep<u32> {
        Deep {
            node: self.node,
            label: self.label,
            pages: self.pages.into_iter().map(u32::from).collect(),
            next: self.next,
            tally: self.tally,
        }
    }
}
