//! Counts by key for each base period, of a run whose length nobody knows, in bounded memory.
//!
//! **Idea.** Samples are kept until there are [`Gather::most`] of them, or until they hold too many
//! numbers. Then neighbours are added up in pairs, and the base period has doubled. No count is lost,
//! and a run of at least `most` first periods ends with between `most / 2` and `most` samples,
//! unless the numbers are too many.
//!
//! **Invariant.** All samples span one base period, and samples are merged only when their number is
//! even; so their boundaries are multiples of the base period at any time.

/// What was counted for each key in one base period. Most keys are not in most periods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Ascending.
    keys: Vec<u32>,
    /// Those of the first key, then those of the second.
    counts: Vec<u64>,
}

impl Sample {
    /// Adds up what has the same key. Each row of `rows` is a key with `width` counts.
    pub fn new<const WIDTH: usize>(mut rows: Vec<(u32, [u64; WIDTH])>) -> Sample {
        rows.sort_unstable_by_key(|row| row.0);
        let mut sample = Sample::default();
        for (key, counts) in rows {
            sample.add(key, &counts);
        }
        sample
    }

    /// Adds counts of a key that is not less than those before it.
    pub fn add(&mut self, key: u32, counts: &[u64]) {
        debug_assert!(self.keys.last().is_none_or(|&last| last <= key));
        if self.keys.last() != Some(&key) {
            self.keys.push(key);
            return self.counts.extend(counts);
        }
        let at = self.counts.len() - counts.len();
        for (sum, count) in self.counts[at..].iter_mut().zip(counts) {
            *sum += count;
        }
    }

    pub fn rows(&self) -> impl Iterator<Item = (u32, &[u64])> {
        let width = self.counts.len() / self.keys.len().max(1);
        self.keys.iter().copied().zip(self.counts.chunks(width.max(1)))
    }

    /// How many numbers it holds.
    fn held(&self) -> usize {
        self.keys.len() + self.counts.len()
    }

    fn and(&self, next: &Sample) -> Sample {
        let mut sum = Sample {
            keys: Vec::with_capacity(self.keys.len().max(next.keys.len())),
            counts: Vec::with_capacity(self.counts.len().max(next.counts.len())),
        };
        let (mut ours, mut theirs) = (self.rows().peekable(), next.rows().peekable());
        loop {
            let first = match (ours.peek(), theirs.peek()) {
                (Some(a), Some(b)) if a.0 <= b.0 => ours.next(),
                (Some(_), None) => ours.next(),
                _ => theirs.next(),
            };
            let Some((key, counts)) = first else { return sum };
            sum.add(key, counts);
        }
    }
}

/// Samples in the making: of several tracks, each with its own keys and counts.
#[derive(Clone, Debug)]
pub struct Gather {
    period: u64,
    most: usize,
    /// Most numbers in all samples.
    most_held: usize,
    held: usize,
    /// By track.
    samples: Vec<Vec<Sample>>,
    tail: Option<(u64, Vec<Sample>)>,
}

impl Gather {
    /// `period`: the first base period. `most`: samples before it is doubled; made even, and at
    /// least 2. `most_held`: numbers before it is doubled.
    pub fn new(tracks: usize, period: u64, most: usize, most_held: usize) -> Gather {
        Gather {
            period: period.max(1),
            most: (most.max(2) + 1) & !1,
            most_held,
            held: 0,
            samples: vec![Vec::new(); tracks],
            tail: None,
        }
    }

    /// How long the next sample is to be.
    pub fn period(&self) -> u64 {
        self.period
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// Of whole base periods.
    pub fn samples(&self, track: usize) -> &[Sample] {
        &self.samples[track]
    }

    /// What was counted after the last whole base period.
    pub fn tail(&self, track: usize) -> Option<&Sample> {
        self.tail.as_ref().map(|(_, samples)| &samples[track])
    }

    /// The end of the last sample.
    pub fn total(&self) -> u64 {
        self.samples[0].len() as u64 * self.period + self.tail.as_ref().map_or(0, |(length, _)| *length)
    }

    /// A base period is over; a sample for each track.
    pub fn push(&mut self, samples: Vec<Sample>) {
        debug_assert_eq!(samples.len(), self.samples.len());
        for (track, sample) in self.samples.iter_mut().zip(samples) {
            self.held += sample.held();
            track.push(sample);
        }
        let is_full = self.samples[0].len() >= self.most || self.held > self.most_held;
        if is_full && self.samples[0].len() % 2 == 0 {
            self.halve();
        }
    }

    fn halve(&mut self) {
        for track in &mut self.samples {
            let pairs = track.chunks_exact(2);
            *track = pairs.map(|pair| pair[0].and(&pair[1])).collect();
        }
        self.held = self.samples.iter().flatten().map(Sample::held).sum();
        self.period *= 2;
    }

    /// The run ended, `length` after the last whole base period.
    pub fn finish(&mut self, length: u64, samples: Vec<Sample>) {
        self.tail = (length > 0).then_some((length, samples));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(rows: &[(u32, u64)]) -> Sample {
        Sample::new(rows.iter().map(|&(key, count)| (key, [count, 1])).collect())
    }

    #[test]
    fn equal_keys_are_added_up() {
        let one = sample(&[(7, 1), (2, 10), (7, 5)]);
        let rows: Vec<(u32, &[u64])> = one.rows().collect();
        assert_eq!(rows, [(2, &[10, 1][..]), (7, &[6, 2][..])]);
        assert_eq!(Sample::default().rows().count(), 0);
    }

    #[test]
    fn neighbours_are_merged_when_it_is_full() {
        let mut gather = Gather::new(1, 10, 4, usize::MAX);
        for n in 0..5 {
            gather.push(vec![sample(&[(n % 2, 1), (9, u64::from(n))])]);
        }
        // Four became two, of 20 each; the fifth is one of 20 itself.
        assert_eq!(gather.period(), 20);
        let rows = |at: usize| -> Vec<(u32, u64)> { gather.samples(0)[at].rows().map(|(k, c)| (k, c[0])).collect() };
        assert_eq!(rows(0), [(0, 1), (1, 1), (9, 1)]);
        assert_eq!(rows(1), [(0, 1), (1, 1), (9, 5)]);
        assert_eq!(rows(2), [(0, 1), (9, 4)]);
    }

    proptest! {
        /// Whatever is merged, sums stay, by key and in time.
        #[test]
        fn nothing_is_lost(counts in prop::collection::vec((0u32..5, 0u64..100), 0..3000), most in 2usize..40, most_held in 1usize..200) {
            let mut gather = Gather::new(1, 1, most, most_held);
            let mut at = 0;
            while at < counts.len() {
                let end = at + gather.period() as usize;
                let rows = |part: &[(u32, u64)]| {
                    vec![Sample::new(part.iter().map(|&(key, count)| (key, [count])).collect())]
                };
                match counts.get(at..end) {
                    Some(part) => gather.push(rows(part)),
                    None => gather.finish((counts.len() - at) as u64, rows(&counts[at..])),
                }
                at = end;
            }
            prop_assert_eq!(gather.total(), counts.len() as u64);
            prop_assert!(gather.samples(0).len() <= gather.most());
            let period = gather.period() as usize;
            for (number, sample) in gather.samples(0).iter().enumerate() {
                let part = &counts[number * period..][..period];
                for key in 0..5 {
                    let expected: u64 = part.iter().filter(|count| count.0 == key).map(|count| count.1).sum();
                    let found: u64 = sample.rows().filter(|row| row.0 == key).map(|row| row.1[0]).sum();
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
