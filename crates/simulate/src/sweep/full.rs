//! One set of very many ways: a fully associative cache.
//!
//! With one set, pages are lines. LRU keeps them in a [`Timeline`], which says how many are newer
//! than one in steps that do not grow with their number, and forgets the oldest when there are more
//! than ways. FIFO keeps a queue; a line's place there is not needed, only whether it has one.
use super::chain::Event;
use super::deep::one_by_one;
use super::front::BATCH;
use super::lanes::Lane;
use super::plan::Node;
use super::tally::Tally;
use crate::reuse::Timeline;
use std::collections::VecDeque;

/// Of a page that is not there.
const NOWHERE: u32 = u32::MAX;
/// Up to this number of ways, going through them is as fast.
const FEW: u32 = 64;

pub struct Full {
    node: Node,
    /// By page number.
    places: Vec<u32>,
    /// LRU.
    timeline: Timeline,
    /// FIFO.
    queue: VecDeque<u32>,
    tally: Tally,
}

impl Full {
    /// Whether this is the way to deal with a node.
    pub fn suits(node: &Node) -> bool {
        node.sets == 1 && node.ways > FEW
    }

    pub fn new(node: Node) -> Full {
        Full {
            places: Vec::new(),
            timeline: Timeline::new(),
            queue: VecDeque::new(),
            tally: Tally::long(&node.wanted),
            node,
        }
    }

    /// Returns the distance; of FIFO only whether it is less than the ways.
    fn touch(&mut self, page: u32) -> usize {
        let ways = self.node.ways as usize;
        let at = page as usize;
        if self.places.len() <= at {
            self.places.resize((at + 1).next_power_of_two(), NOWHERE);
        }
        let place = self.places[at];
        if self.node.fifo {
            if place != NOWHERE {
                return 0;
            }
            if self.queue.len() == ways {
                let oldest = self.queue.pop_front().map(|page| page as usize);
                oldest.into_iter().for_each(|oldest| self.places[oldest] = NOWHERE);
            }
            self.queue.push_back(page);
            self.places[at] = 0;
            return ways;
        }
        let distance = if place == NOWHERE {
            if self.timeline.len() == ways {
                let oldest = self.timeline.remove_oldest();
                self.places[oldest as usize] = NOWHERE;
            }
            ways
        } else {
            self.timeline.remove(place) as usize
        };
        if self.timeline.full() {
            let places = &mut self.places;
            self.timeline.compact(|page, place| places[page as usize] = place);
        }
        self.places[at] = self.timeline.push(page);
        distance
    }

    pub fn run<T: Lane>(&mut self, events: &[Event<T>], left: &mut [Event<T>; BATCH]) -> usize {
        one_by_one(events, left, |event| {
            let distance = self.touch(event.page.number());
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

    pub fn each_page<T: Lane>(&self, see: &mut dyn FnMut(T)) {
        let there = |&(_, &place): &(usize, &u32)| place != NOWHERE;
        let pages = self.places.iter().enumerate().filter(there);
        pages.for_each(|(page, _)| see(T::new(page as u32)));
    }
}
