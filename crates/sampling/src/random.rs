//! Numbers that look random and follow from a seed: SplitMix64, which is enough for choosing
//! intervals and is the same on every machine.

#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// In `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// In `0..n`, all alike but for a part in 2^64 / n.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Puts `n` of the items, drawn at random without replacement, in front.
    pub fn draw<T>(&mut self, items: &mut [T], n: usize) {
        for at in 0..n.min(items.len().saturating_sub(1)) {
            let other = at + self.below(items.len() - at);
            items.swap(at, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed() {
        // The first outputs of SplitMix64 with seed 0, as its authors publish them.
        let mut random = SplitMix::new(0);
        assert_eq!(random.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn every_item_is_drawn_equally_often() {
        let mut random = SplitMix::new(1);
        let mut drawn = [0u32; 10];
        for _ in 0..10_000 {
            let mut items: Vec<usize> = (0..10).collect();
            random.draw(&mut items, 3);
            items[..3].iter().for_each(|&item| drawn[item] += 1);
        }
        for times in drawn {
            assert!((2_800..3_200).contains(&times), "{drawn:?}");
        }
    }
}
