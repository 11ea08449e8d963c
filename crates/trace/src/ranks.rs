//! The ranks of a parallel job, and which processes and threads are whose.
use serde::{Deserialize, Serialize};

/// Consecutive ranks with as many processes and threads each: first rank, number of ranks, processes
/// of each, threads of each. Their serials follow each other.
type Span = (u32, u32, u32, u32);

/// All ranks of a recording, those with the lowest serials first. Ranks that are alike take one entry,
/// however many they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranks(Vec<Span>);

/// What is a rank's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankInfo {
    pub rank: u32,
    /// The serial of its first process, and how many it has.
    pub first_process: u32,
    pub processes: u32,
    pub first_thread: u32,
    pub threads: u32,
}

impl Ranks {
    /// Everything in the recording is one rank's: how much that is, is not known when it begins.
    pub fn one(rank: u32) -> Ranks {
        Ranks(vec![(rank, 1, 0, 0)])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of ranks.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|s| u64::from(s.1)).sum()
    }

    /// Adds a rank behind the others.
    pub fn push(&mut self, rank: u32, processes: u32, threads: u32) {
        match self.0.last_mut() {
            Some(span) if (span.0.wrapping_add(span.1), span.2, span.3) == (rank, processes, threads) => span.1 += 1,
            _ => self.0.push((rank, 1, processes, threads)),
        }
    }

    /// All of them, in order of their serials. A rank that has everything has as many as there can
    /// be. At most `most` are given: a header may say anything.
    pub fn iter(&self, most: usize) -> impl Iterator<Item = RankInfo> + '_ {
        let ranks = self.0.iter().flat_map(|&(first, count, processes, threads)| {
            (0..count).map(move |i| (first.wrapping_add(i), processes, threads))
        });
        let mut next = (0u32, 0u32);
        ranks.take(most).map(move |(rank, processes, threads)| {
            let all = |n: u32| if n == 0 { u32::MAX } else { n };
            let info = RankInfo {
                rank,
                first_process: next.0,
                processes: all(processes),
                first_thread: next.1,
                threads: all(threads),
            };
            next = (
                next.0.saturating_add(info.processes),
                next.1.saturating_add(info.threads),
            );
            info
        })
    }

    /// The rank of a process, by its serial.
    pub fn of_process(&self, serial: u32) -> Option<u32> {
        self.find(serial, |s| s.2)
    }

    /// The rank of a thread, by its serial.
    pub fn of_thread(&self, serial: u32) -> Option<u32> {
        self.find(serial, |s| s.3)
    }

    fn find(&self, serial: u32, each: impl Fn(&Span) -> u32) -> Option<u32> {
        let mut left = u64::from(serial);
        for span in &self.0 {
            let each = match each(span) {
                0 => u64::from(u32::MAX),
                n => u64::from(n),
            };
            if left < each * u64::from(span.1) {
                return Some(span.0.wrapping_add((left / each) as u32));
            }
            left -= each * u64::from(span.1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_are_alike_take_one_entry() {
        let mut ranks = Ranks::default();
        (0..64).for_each(|rank| ranks.push(rank, 1, 4));
        assert_eq!(serde_json::to_string(&ranks).unwrap(), "[[0,64,1,4]]");
        ranks.push(64, 2, 5);
        ranks.push(70, 2, 5);
        assert_eq!(ranks.len(), 66);
        let last = ranks.iter(1000).last().unwrap();
        assert_eq!((last.rank, last.first_process, last.first_thread), (70, 66, 261));
        let of = [0, 3, 4, 255, 256, 261, 265].map(|thread| ranks.of_thread(thread));
        assert_eq!(of, [0, 0, 1, 63, 64, 70, 70].map(Some));
        assert_eq!(ranks.of_thread(266), None);
        assert_eq!(ranks.of_process(65), Some(64));
    }

    #[test]
    fn a_rank_by_itself_has_everything() {
        assert_eq!(Ranks::one(7).of_thread(1_000_000), Some(7));
        assert_eq!(Ranks::default().of_thread(0), None);
    }
}
