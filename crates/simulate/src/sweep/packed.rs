//! Lists of up to sixteen ways: one for each set, in registers.
use super::chain::{Event, Label};
use super::front::{BATCH, PART};
use super::lanes::{table, touch, Lane, Moves};
use super::plan::Node;
use super::tally::{part, Tally};
use safe_arch::m128i;

/// The lists of all sets of one number of sets.
pub struct Packed<T, const V: usize> {
    node: Node,
    label: Label,
    lists: Vec<[m128i; V]>,
    moves: Box<Moves<V>>,
    tally: Tally,
    width: std::marker::PhantomData<T>,
}

impl<T: Lane, const V: usize> Packed<T, V> {
    const DEPTH: usize = V * T::LANES;

    pub fn new(node: Node, label: Label) -> Packed<T, V> {
        let ways = node.ways as usize;
        let moves = if node.fifo {
            table::<T, V>(|found| if found < ways { 0 } else { Self::DEPTH })
        } else {
            table::<T, V>(|found| (found + 1).min(Self::DEPTH))
        };
        Packed {
            lists: vec![[m128i::default(); V]; node.sets as usize],
            node,
            label,
            moves,
            tally: Tally::short(),
            width: std::marker::PhantomData,
        }
    }

    /// Deals with the events in up to three of these, one after the other, and leaves in `left`
    /// those that are not most recent under the last; returns how many. One pass for several
    /// numbers of sets: what one has to wait for, the others do not.
    #[inline(always)]
    fn pass<const K: usize, const ODD: bool>(
        all: &mut [Packed<T, V>; K],
        events: &[Event<T>],
        left: &mut [Event<T>; BATCH],
    ) -> usize {
        let mut n = 0;
        let mut parts: [_; K] = all.each_mut().map(|one| {
            let (counts, worst) = one.tally.parts();
            (&mut one.lists[..], one.label, &*one.moves, counts, worst)
        });
        for event in events {
            let mut lane = 0;
            for (lists, label, moves, counts, worst) in &mut parts {
                let at = if ODD {
                    label.odd(event.set)
                } else {
                    event.set as usize & (lists.len() - 1)
                };
                lane = touch::<T, V>(&mut lists[at], event.page, moves);
                if event.tag < PART {
                    counts[(usize::from(event.tag) + lane) & (counts.len() - 1)] += 1;
                } else {
                    part(worst, event.tag, lane);
                }
            }
            left[n & (BATCH - 1)] = *event;
            n += usize::from(lane != 0);
        }
        n
    }

    #[inline(never)]
    fn passes<const K: usize>(all: &mut [Packed<T, V>], events: &[Event<T>], left: &mut [Event<T>; BATCH]) -> usize {
        let all: &mut [Packed<T, V>; K] = all.try_into().expect("as many as there are");
        if all[0].label.is_odd() {
            Self::pass::<K, true>(all, events, left)
        } else {
            Self::pass::<K, false>(all, events, left)
        }
    }

    pub fn run(all: &mut [Packed<T, V>], events: &[Event<T>], left: &mut [Event<T>; BATCH]) -> usize {
        match all.len() {
            1 => Self::passes::<1>(all, events, left),
            2 => Self::passes::<2>(all, events, left),
            _ => Self::passes::<3>(all, events, left),
        }
    }

    pub fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    pub fn each_page(&self, see: &mut dyn FnMut(T)) {
        self.lists
            .iter()
            .flatten()
            .flat_map(|&lanes| T::lanes(lanes))
            .for_each(see);
    }
}

impl<const V: usize> Packed<u16, V> {
    /// The same in longer numbers.
    pub fn widen<const W: usize>(self) -> Packed<u32, W> {
        let mut wide = Packed::new(self.node, self.label);
        for (wide, list) in wide.lists.iter_mut().zip(&self.lists) {
            let mut pages = list.iter().flat_map(|&lanes| u16::lanes(lanes)).map(u32::from);
            *wide = std::array::from_fn(|_| m128i::from([(); 4].map(|()| pages.next().unwrap_or(0))));
        }
        wide.tally = self.tally;
        wide
    }
}
