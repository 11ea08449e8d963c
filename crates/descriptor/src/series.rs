//! What is predicted of the numbers of one column, one after the other, once its relation has been
//! taken away.
//!
//! There are two predictions: the last number, moved by the last distance seen twice in a row
//! (*on*); and the number before the last (*back*). A column expects the one that was right when
//! last the expectation failed, at first *on*. Encoder and decoder both run this code on the same
//! numbers, so that their states agree.
use crate::decode::{MISS, OTHER};

/// A column's past.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    last: u64,
    /// Distance of the last number from the one before.
    step: u64,
    /// Last distance seen twice in a row.
    stride: u64,
    /// Expects the number before the last.
    back: bool,
}

impl Past {
    #[inline]
    pub fn last(&self) -> u64 {
        self.last
    }

    #[inline(always)]
    fn predict(&self, back: bool) -> u64 {
        if back {
            self.last.wrapping_sub(self.step)
        } else {
            self.last.wrapping_add(self.stride)
        }
    }

    /// The prediction that is expected to be right.
    #[inline(always)]
    pub fn expected(&self) -> u64 {
        self.predict(self.back)
    }

    /// The prediction that is not expected to be right.
    #[inline(always)]
    pub fn other(&self) -> u64 {
        self.predict(!self.back)
    }
    /// It was right: from now on it is expected.
    #[inline(always)]
    pub fn turn(&mut self) {
        self.back = !self.back;
    }

    /// Takes in the number that came.
    #[inline(always)]
    pub fn update(&mut self, number: u64) {
        let step = number.wrapping_sub(self.last);
        if step == self.step {
            self.stride = step;
        }
        self.step = step;
        self.last = number;
    }

    /// Takes in the number that came. Its code: 0 if it was expected, [`OTHER`], or [`MISS`].
    #[inline(always)]
    pub fn code(&mut self, number: u64) -> u8 {
        let (expected, other) = (self.predict(self.back), self.predict(!self.back));
        let unexpected = number != expected;
        let turned = unexpected & (number == other);
        self.back ^= turned;
        self.update(number);
        const { assert!(OTHER == 1 && MISS == 2) };
        u8::from(unexpected) + u8::from(unexpected & !turned)
    }

    /// Takes in numbers, from `at` on every `apart`, as long as they are as expected. Returns how
    /// many.
    #[inline]
    pub fn follow(&mut self, numbers: &[u64], mut at: usize, apart: usize) -> usize {
        let mut n = 0;
        if self.back {
            while let Some(&number) = numbers.get(at).filter(|&&number| number == self.predict(true)) {
                self.update(number);
                at += apart;
                n += 1;
            }
            return n;
        }
        let mut last = self.last;
        while let Some(&number) = numbers.get(at).filter(|&&n| n == last.wrapping_add(self.stride)) {
            last = number;
            at += apart;
            n += 1;
        }
        if n > 0 {
            (self.last, self.step) = (last, self.stride);
        }
        n
    }

    /// The reverse: makes the next `n` numbers as expected.
    #[inline]
    pub fn go_on(&mut self, numbers: &mut [u64], at: usize, apart: usize, n: usize) {
        if n == 0 {
            return;
        }
        let numbers = &mut numbers[at..][..(n - 1) * apart + 1];
        let mut at = 0;
        if self.back {
            while let Some(place) = numbers.get_mut(at) {
                *place = self.predict(true);
                self.update(*place);
                at += apart;
            }
            return;
        }
        let mut last = self.last;
        if apart == 1 {
            for place in numbers {
                last = last.wrapping_add(self.stride);
                *place = last;
            }
        } else {
            while let Some(place) = numbers.get_mut(at) {
                last = last.wrapping_add(self.stride);
                *place = last;
                at += apart;
            }
        }
        self.last = last;
        self.step = self.stride;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// The lengths of the runs of numbers that are as expected.
    fn runs(numbers: &[u64]) -> Vec<usize> {
        let (mut past, mut at, mut runs) = (Past::default(), 0, vec![]);
        while at < numbers.len() {
            let run = past.follow(numbers, at, 1);
            at += run;
            runs.push(run);
            let Some(&number) = numbers.get(at) else { break };
            if past.other() == number {
                past.turn();
            }
            past.update(number);
            at += 1;
        }
        runs
    }

    #[test]
    fn constants_strides_and_numbers_in_turn_are_expected() {
        assert_eq!(runs(&[0; 9]), [9]);
        assert_eq!(runs(&[7; 9]), [0, 8]);
        assert_eq!(runs(&[5, 8, 11, 14, 17]), [0, 0, 0, 2]);
        // A stride is kept when it is broken once, and so is a constant.
        assert_eq!(runs(&[5, 8, 11, 14, 100, 103, 106]), [0, 0, 0, 1, 2]);
        assert_eq!(runs(&[7, 7, 7, 9, 9, 9]), [0, 2, 2]);
        assert_eq!(runs(&[4, 9, 4, 9, 4, 9]), [0, 0, 0, 3]);
    }

    #[test]
    fn what_follows_is_made_again() {
        for back in [false, true] {
            let past = Past {
                last: 10,
                step: 3u64.wrapping_neg(),
                stride: u64::MAX,
                back,
            };
            let (mut a, mut b) = (past, past);
            let mut numbers = [77; 12];
            a.go_on(&mut numbers, 1, 3, 4);
            let expected = if back { [13, 10, 13, 10] } else { [9, 8, 7, 6] };
            assert_eq!([1, 4, 7, 10].map(|i| numbers[i]), expected);
            assert_eq!((numbers[0], numbers[2], numbers[11]), (77, 77, 77));
            assert_eq!(b.follow(&numbers, 1, 3), 4);
            assert_eq!((a.last, a.step, a.stride, a.back), (b.last, b.step, b.stride, b.back));
        }
    }
}
