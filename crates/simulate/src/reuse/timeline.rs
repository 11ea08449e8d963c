//! Lines in order of last use, and how many are newer than a given one.
//!
//! Each line that is pushed gets the next of a row of places, and a bit there. Above the bits stand
//! counts: of 64 bits, of 64 such counts, and so on, so that adding or removing a line changes one
//! number in each row and counting the newer ones adds up at most 63 numbers in each, which lie
//! side by side. When the places are used up, the lines move together, in the same order; there are
//! then at least as many free places as lines, so this costs a constant per push.
const FAN: usize = 64;
/// Places at first.
const LEAST: usize = FAN * FAN;

pub struct Timeline {
    /// A bit for each place.
    bits: Vec<u64>,
    /// How many lines there are in each 64, each 64 x 64, ... places.
    counts: Vec<Vec<u32>>,
    /// The line at each place.
    lines: Vec<u32>,
    /// The next place.
    next: usize,
    live: usize,
    /// There is no line before this place.
    oldest: usize,
}

impl Timeline {
    pub fn new() -> Timeline {
        Timeline::sized(LEAST)
    }

    fn sized(places: usize) -> Timeline {
        let mut counts = Vec::new();
        let mut row = places.div_ceil(FAN);
        loop {
            counts.push(vec![0; row]);
            if row <= FAN {
                break;
            }
            row = row.div_ceil(FAN);
        }
        Timeline {
            bits: vec![0; places.div_ceil(FAN)],
            counts,
            lines: vec![0; places],
            next: 0,
            live: 0,
            oldest: 0,
        }
    }

    /// Whether lines have to move before the next can be pushed.
    pub fn full(&self) -> bool {
        self.next == self.lines.len()
    }

    /// The line becomes the newest; returns its place. There must be one.
    pub fn push(&mut self, line: u32) -> u32 {
        let place = self.next;
        self.next += 1;
        self.live += 1;
        self.lines[place] = line;
        self.bits[place / FAN] |= 1 << (place % FAN);
        let mut at = place / FAN;
        for row in &mut self.counts {
            row[at] += 1;
            at /= FAN;
        }
        place as u32
    }

    /// Removes the line at a place; returns how many are newer.
    pub fn remove(&mut self, place: u32) -> u64 {
        let place = place as usize;
        let word = &mut self.bits[place / FAN];
        *word &= !(1 << (place % FAN));
        let mut newer = (*word >> (place % FAN)).count_ones();
        self.live -= 1;
        let mut at = place / FAN;
        for row in &mut self.counts {
            row[at] -= 1;
            let end = row.len().min(at / FAN * FAN + FAN);
            newer += row[at + 1..end].iter().sum::<u32>();
            at /= FAN;
        }
        u64::from(newer)
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Removes the oldest line, and returns it. There must be one.
    pub fn remove_oldest(&mut self) -> u32 {
        let mut word = self.oldest / FAN;
        while self.bits[word] == 0 {
            word += 1;
        }
        self.oldest = word * FAN + self.bits[word].trailing_zeros() as usize;
        self.remove(self.oldest as u32);
        self.lines[self.oldest]
    }

    /// Moves the lines together; tells the new place of each.
    pub fn compact(&mut self, mut moved: impl FnMut(u32, u32)) {
        let mut fresh = Timeline::sized((2 * self.live).next_multiple_of(LEAST).max(LEAST));
        for (i, &word) in self.bits.iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                let line = self.lines[i * FAN + rest.trailing_zeros() as usize];
                moved(line, fresh.push(line));
                rest &= rest - 1;
            }
        }
        *self = fresh;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_newer_ones_across_words_rows_and_moves() {
        let mut timeline = Timeline::new();
        let mut places = vec![0u32; 100_000];
        let mut order: Vec<u32> = Vec::new();
        for line in 0..100_000u32 {
            if timeline.full() {
                timeline.compact(|line, place| places[line as usize] = place);
            }
            places[line as usize] = timeline.push(line);
            order.push(line);
            // Two of three are removed some time later.
            if line % 3 != 0 {
                let gone = line / 3 * 2 + line % 3 - 1;
                let at = order.binary_search(&gone).expect("not removed before");
                assert_eq!(timeline.remove(places[gone as usize]), (order.len() - 1 - at) as u64);
                order.remove(at);
            }
        }
        assert_eq!((order.len(), timeline.len()), (33_334, 33_334));
        for &line in &order {
            assert_eq!(timeline.remove_oldest(), line);
        }
        assert_eq!(timeline.len(), 0);
    }
}
