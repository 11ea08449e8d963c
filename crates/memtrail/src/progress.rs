//! The line that tells, on a terminal, how far a recording or a simulation is.
//!
//! It appears only if stderr is a terminal and the work takes more than a moment, so short runs and
//! scripts see nothing of it. Everything else we say goes through [`aside`], which takes the line
//! away meanwhile.
use crate::info::bits_per_access;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use memtrail_report::format::{bytes, thousands};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A short run needs no line.
const AFTER: Duration = Duration::from_millis(1000);
const TIMES_A_SECOND: u8 = 4;
const EVERY: Duration = Duration::from_millis(1000 / TIMES_A_SECOND as u64);

/// Accesses between two looks at the clock, at least: a look takes as long as simulating ten of
/// them, and where loops are short there are a few between two hand-overs.
const PER_LOOK: u64 = 1 << 18;

/// The line that is up, if any.
static UP: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Counts what comes by. Clones count together.
#[derive(Clone)]
pub struct Progress {
    begin: Instant,
    next: Duration,
    /// That came since the clock was looked at last.
    fresh: u64,
    accesses: Arc<AtomicU64>,
    /// The target, if there is one.
    pid: Option<i32>,
    /// How many will come, if that is known.
    total: Option<u64>,
}

impl Progress {
    pub fn new() -> Progress {
        Progress {
            begin: Instant::now(),
            next: AFTER,
            fresh: 0,
            accesses: Arc::default(),
            pid: None,
            total: None,
        }
    }

    /// Of work on `total` accesses: also tells which part is done.
    pub fn towards(total: u64) -> Progress {
        let mut progress = Progress::new();
        progress.total = Some(total).filter(|&total| total > 0);
        progress
    }

    /// Of a recording: also tells how much longer it takes than the target needs.
    pub fn of(pid: i32) -> Progress {
        let mut progress = Progress::new();
        progress.pid = Some(pid);
        progress
    }

    /// `accesses` more came; `written` bytes are in the file.
    #[inline]
    pub fn add(&mut self, accesses: u64, written: Option<u64>) {
        self.fresh += accesses;
        if self.fresh >= PER_LOOK || written.is_some() {
            self.look(written);
        }
    }

    /// Shows how far it is, if it is time for that.
    #[cold]
    fn look(&mut self, written: Option<u64>) {
        let fresh = std::mem::take(&mut self.fresh);
        let accesses = self.accesses.fetch_add(fresh, Relaxed) + fresh;
        let now = self.begin.elapsed();
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        let mut message = format!("{} accesses", thousands(accesses));
        if let Some(total) = self.total {
            message += &format!(" ({}%)", percent(accesses, total));
        }
        if let Some(written) = written {
            let bits = bits_per_access(written, accesses);
            message += &format!(", {} written ({bits:.2} bits each)", bytes(written));
        }
        message += &format!(", {} s", now.as_secs());
        let worked = self.pid.and_then(cpu_time).filter(|t| !t.is_zero());
        if let Some(worked) = worked {
            let slowdown = now.as_secs_f64() / worked.as_secs_f64();
            message += &format!(", {slowdown:.1} times the target's own");
        }
        let mut up = UP.lock().unwrap_or_else(PoisonError::into_inner);
        let line = up.get_or_insert_with(line);
        line.set_message(message);
        line.tick();
    }
}

/// Rounded down: 100 is the end.
fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100 / u128::from(whole)).min(100) as u64
}

/// The processor time a process has used so far.
fn cpu_time(pid: i32) -> Option<Duration> {
    parse_cpu_time(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// User and system time stand in fields 14 and 15, in hundredths of a second. The second field is a
/// name in parentheses that may hold anything.
fn parse_cpu_time(stat: &str) -> Option<Duration> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(10 * (user + system)))
}

impl Drop for Progress {
    fn drop(&mut self) {
        let up = UP.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(line) = up {
            line.finish_and_clear();
        }
    }
}

fn line() -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(TIMES_A_SECOND);
    let style = ProgressStyle::with_template("memtrail: {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::with_draw_target(None, target).with_style(style)
}

/// Does something with the terminal while the line is away.
pub fn aside(f: impl FnOnce()) {
    match &*UP.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(line) => line.suspend(f),
        None => f(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_a_hundred_percent_and_nothing_else_is() {
        assert_eq!([0, 1, 999, 1000, 1001].map(|n| percent(n, 1000)), [0, 0, 99, 100, 100]);
        assert_eq!(percent(u64::MAX - 1, u64::MAX), 99);
    }

    #[test]
    fn the_processor_time_is_found_whatever_the_name() {
        let stat = "17 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 31 0 0 20 0 1 0 5 6";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_millis(2810)));
        assert_eq!(parse_cpu_time("17 (a) R 1 2"), None);
        assert!(cpu_time(std::process::id() as i32).is_some());
    }
}
