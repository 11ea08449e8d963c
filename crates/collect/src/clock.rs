//! How fast the time stamp counter runs.
use std::time::Instant;

/// The counter and the clock at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    tsc: u64,
    time: Instant,
}

impl Moment {
    pub fn now() -> Moment {
        Moment {
            // SAFETY: every x86-64 processor has the instruction, and it touches nothing but
            // registers.
            tsc: unsafe { core::arch::x86_64::_rdtsc() },
            time: Instant::now(),
        }
    }

    /// Ticks of the counter in a second, measured since an earlier moment; 0 if that is no time
    /// ago.
    pub fn ticks_per_second_since(&self, earlier: &Moment) -> u64 {
        let nanoseconds = self.time.duration_since(earlier.time).as_nanos();
        let ticks = u128::from(self.tsc.saturating_sub(earlier.tsc));
        (ticks * 1_000_000_000).checked_div(nanoseconds).unwrap_or(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ticks_are_counted_per_second() {
        let begin = Moment {
            tsc: 1000,
            ..Moment::now()
        };
        let end = Moment {
            tsc: 5_001_000,
            time: begin.time + Duration::from_millis(2),
        };
        assert_eq!(end.ticks_per_second_since(&begin), 2_500_000_000);
        assert_eq!(begin.ticks_per_second_since(&begin), 0);
    }
}
