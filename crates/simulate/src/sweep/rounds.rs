//! Rounds of touches that repeat each other.
//!
//! A loop that goes through a few arrays touches the same few lines in the same order, until one of them ends. The lines may share a set, and then no
//! touch is of the most recent one.
//!
//! **The third of three equal rounds can be left out, and the second counted twice.** Let k touches come three times in a row. Under LRU the distance of a touch is the number of different lines of its set that were
//! touched since the line was touched last. In the second round and the third, that is at most k touches ago, and what came since is the same: so the distances are equal, in every list. And after each round the lines are in the same
//! order: that of their last touches in it, then all others as they were. Whole rounds only: within a round the order is another.
//!
//! FIFO forgets by other rules; lists of FIFO get what there is.
use super::front::PART;

/// The longest round, and the shortest: a touch of the line before has been left out already.
const LONGEST: usize = 6;
const SHORTEST: usize = 2;
/// Searching is worth its while if one event in so many is left out.
const WORTH: usize = 4;
/// Batches in which it was not, after which only one in so many is searched.
const SELDOM: u32 = 16;

#[derive(Default)]
pub struct Rounds {
    /// Batches since searching one was worth its while.
    since: u32,
}

impl Rounds {
    /// Leaves out rounds of the events; returns how many are left.
    pub fn fold<W: Weighed>(&mut self, events: &mut [W]) -> usize {
        self.since += 1;
        if self.since > 2 && self.since % SELDOM != 0 {
            return events.len();
        }
        let left = fold(events);
        if left < events.len() - events.len() / WORTH {
            self.since = 0;
        }
        left
    }
}

/// A touch that may count more than once.
pub trait Weighed: Copy {
    /// Whether it is of the same line and kind as another.
    fn is_like(&self, other: &Self) -> bool;
    fn tag(&self) -> u16;
    fn weight(&mut self) -> &mut u16;
}

/// Parts of an access count together: they are like nothing else.
#[inline(always)]
fn alike<W: Weighed>(a: &W, b: &W) -> bool {
    a.is_like(b) & (a.tag() == b.tag()) & (a.tag() < PART)
}

fn fold<W: Weighed>(events: &mut [W]) -> usize {
    let mut n = 0;
    // The length that rounds seem to have, and how many events in a row were what came that long before.
    let (mut k, mut run) = (SHORTEST, 0);
    for at in 0..events.len() {
        let event = events[at];
        if n >= k && alike(&event, &events[n - k]) {
            run += 1;
        } else {
            let back = |&k: &usize| n >= k && alike(&event, &events[n - k]);
            let found = (SHORTEST..=LONGEST).find(back);
            (k, run) = (found.unwrap_or(k), usize::from(found.is_some()));
        }
        events[n] = event;
        n += 1;
        if run == 2 * k {
            n -= k;
            for i in n - k..n {
                let again = *events[i + k].weight();
                *events[i].weight() += again;
            }
            run = k;
        }
    }
    n
}

#[cfg(test)]
mod tests {
    use super::super::chain::Event;
    use super::*;

    fn folded(lines: &str) -> Vec<(char, u16)> {
        let event = |line: char| Event {
            set: 0,
            page: line as u16,
            tag: if line.is_uppercase() { PART } else { 0 },
            weight: 1,
        };
        let mut events: Vec<Event<u16>> = lines.chars().map(event).collect();
        let n = fold(&mut events);
        let line = |page: u16| char::from_u32(page.into()).unwrap();
        events[..n]
            .iter()
            .map(|event| (line(event.page), event.weight))
            .collect()
    }

    #[test]
    fn the_third_round_is_counted_with_the_second() {
        let once = |lines: &str| lines.chars().map(|line| (line, 1)).collect::<Vec<_>>();
        assert_eq!(folded("abcabc"), once("abcabc"));
        assert_eq!(folded("abcabcab"), once("abcabcab"));
        assert_eq!(
            folded("abcabcabc"),
            [once("abc"), vec![('a', 2), ('b', 2), ('c', 2)]].concat()
        );
        let many = [once("abc"), vec![('a', 4), ('b', 4), ('c', 4)], once("abx")].concat();
        assert_eq!(folded("abcabcabcabcabcabx"), many);
        // Two lengths, one after the other.
        let both = [
            once("ab"),
            vec![('a', 2), ('b', 2)],
            once("c"),
            vec![('a', 2), ('b', 2), ('c', 2)],
            once("ab"),
        ]
        .concat();
        assert_eq!(folded("abababcabcabcab"), both);
        assert_eq!(folded("ABABABAB"), once("ABABABAB"));
    }
}
