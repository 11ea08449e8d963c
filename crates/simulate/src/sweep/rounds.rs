//! Rounds of touches that repeat each other.
//!
//! A loop that goes through a few arrays touches the same few lines in the same order, until one of
//! them ends. The lines may share a set, and then no touch is of the most recent one.
//!
//! **The second of two equal rounds can be left out.** Let k touches come twice in a row. Under LRU
//! the lines are after the first round in the order of their last touches in it, then all others as
//! they were; after the second they are so again. It changes nothing.
//!
//! **What it counts follows from the round alone.** Under LRU the distance of a touch is the number
//! of different lines of its set that were touched since its line was touched last. In the second
//! round that is at most k touches ago: what came since is known, and who shares a set as well. No
//! list has to be looked at.
//!
//! So rounds are only looked for here, and counted in `shapes.rs`.
//!
//! FIFO forgets by other rules; lists of FIFO get what there is.
use super::chain::Numbered;
use super::front::{Touch, PART};
use super::lanes::Lane;
use safe_arch::m128i;

/// The longest round, and the shortest: a touch of the line before has been left out already.
pub const LONGEST: usize = 6;
const SHORTEST: usize = 2;
/// Their lanes, two bits each, if what came k before is in lane k - 1.
const LANES: u32 = (1 << (2 * LONGEST)) - (1 << (2 * (SHORTEST - 1)));
/// Searching is worth its while if one event in this number is left out.
const WORTH: usize = 4;
/// Batches in which it was not, after which only one in this number is searched.
const SELDOM: u32 = 16;

/// A touch that may be like another.
pub trait Alike: Copy {
    fn line(&self) -> u64;
    fn tag(&self) -> u16;

    /// Whether it is of the same line and kind. Parts of an access count together: they are like
    /// nothing else.
    #[inline(always)]
    fn is_like(&self, other: &Self) -> bool {
        (self.line() == other.line()) & (self.tag() == other.tag()) & (self.tag() < PART)
    }

    /// The same of touches that are alike, and seldom of others.
    #[inline(always)]
    fn bits(&self) -> u16 {
        (self.line() ^ self.line() >> 16) as u16
    }
}

impl Alike for Touch {
    #[inline(always)]
    fn line(&self) -> u64 {
        self.line
    }
    #[inline(always)]
    fn tag(&self) -> u16 {
        self.tag
    }
}

impl<T: Lane> Alike for Numbered<T> {
    #[inline(always)]
    fn line(&self) -> u64 {
        self.line
    }
    #[inline(always)]
    fn tag(&self) -> u16 {
        self.tag
    }
}

/// Rounds that were left out: so many, each equal to the `len` events that were left from `at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    pub at: usize,
    pub len: usize,
    pub times: u64,
}

/// Looks for rounds in batches.
pub struct Rounds<E> {
    /// Batches since searching one was worth its while.
    since: u32,
    left: Vec<E>,
    rounds: Vec<Round>,
}

impl<E> Default for Rounds<E> {
    fn default() -> Rounds<E> {
        Rounds {
            since: 0,
            left: Vec::new(),
            rounds: Vec::new(),
        }
    }
}

impl<E: Alike> Rounds<E> {
    /// Leaves out rounds of the events; returns what is left, and what was left out, if anything
    /// was.
    pub fn fold(&mut self, events: &[E]) -> Option<(&[E], &[Round])> {
        self.since += 1;
        if self.since > 2 && self.since % SELDOM != 0 {
            return None;
        }
        self.left.clear();
        self.rounds.clear();
        fold(events, &mut self.left, &mut self.rounds);
        if self.left.len() < events.len() - events.len() / WORTH {
            self.since = 0;
        }
        (!self.rounds.is_empty()).then_some((&self.left, &self.rounds))
    }
}

fn fold<E: Alike>(events: &[E], left: &mut Vec<E>, rounds: &mut Vec<Round>) {
    let mut rest = events;
    // Of the last eight that are left, the latest first: a few bits of the line.
    let mut last = m128i::default();
    // The length that rounds seem to have.
    let mut k = SHORTEST;
    while let Some(event) = rest.first() {
        // Lane k - 1: what came k before.
        let lanes = u16::equal(last, event.bits().splat()) & LANES;
        if lanes == 0 {
            last = event.bits().shift_in(last);
            left.push(*event);
            rest = &rest[1..];
            continue;
        }
        if lanes >> (2 * (k - 1)) & 1 == 0 {
            k = lanes.trailing_zeros() as usize / 2 + 1;
        }
        // Bits that are equal by chance, or because there is nothing yet, make no round.
        let at = left.len().saturating_sub(k);
        let mut same = likes(rest, &left[at..]);
        if same == k {
            let more = likes(&rest[k..], rest);
            // There are few more rounds, mostly none: a division would take longer.
            let mut times = 1;
            same = more;
            while same >= k {
                same -= k;
                times += 1;
            }
            rounds.push(Round { at, len: k, times });
            rest = &rest[k + more - same..];
        } else {
            same = same.max(1);
        }
        last = rest[..same]
            .iter()
            .fold(last, |last, event| event.bits().shift_in(last));
        left.extend_from_slice(&rest[..same]);
        rest = &rest[same..];
    }
}

/// How many events in a row are like the others.
#[inline(always)]
fn likes<E: Alike>(events: &[E], others: &[E]) -> usize {
    let both = events.iter().zip(others);
    both.take_while(|(event, other)| event.is_like(other)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left, and of each round that was left out: its lines, and how often.
    fn folded(lines: &str) -> (String, Vec<(String, u64)>) {
        let touch = |line: char| Touch {
            line: line.into(),
            point: 0,
            tag: if line.is_uppercase() { PART } else { 0 },
        };
        let touches: Vec<Touch> = lines.chars().map(touch).collect();
        let (mut left, mut rounds) = (Vec::new(), Vec::new());
        fold(&touches, &mut left, &mut rounds);
        let lines = |touches: &[Touch]| touches.iter().map(|touch| touch.line as u8 as char).collect::<String>();
        let round = |round: &Round| (lines(&left[round.at..][..round.len]), round.times);
        (lines(&left), rounds.iter().map(round).collect())
    }

    #[test]
    fn the_second_round_is_left_out() {
        let expect = |left: &str, rounds: &[(&str, u64)]| {
            let rounds = rounds.iter().map(|&(lines, times)| (lines.to_string(), times));
            (left.to_string(), rounds.collect::<Vec<_>>())
        };
        assert_eq!(folded("abcab"), expect("abcab", &[]));
        assert_eq!(folded("abcabc"), expect("abc", &[("abc", 1)]));
        assert_eq!(folded("abcabcabcabcabcabx"), expect("abcabx", &[("abc", 4)]));
        // Two lengths, one after the other.
        assert_eq!(folded("ababcabcab"), expect("abcab", &[("ab", 1), ("abc", 1)]));
        // Longer than it may be; within it, lines that come twice.
        assert_eq!(folded("abcdefgabcdefg"), expect("abcdefgabcdefg", &[]));
        assert_eq!(folded("xabaabax"), expect("xabax", &[("aba", 1)]));
        assert_eq!(folded("ABABABAB"), expect("ABABABAB", &[]));
    }
}
