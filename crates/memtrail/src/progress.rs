//! The line that tells, on a terminal, how far a recording is.
//!
//! It appears only if stderr is a terminal and the recording takes more than a moment, so short runs and scripts see nothing
//! of it. Everything else we say goes through [`aside`], which takes the line away meanwhile.
use crate::format::{bytes, thousands};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A short run needs no line.
const AFTER: Duration = Duration::from_millis(1000);
const TIMES_A_SECOND: u8 = 4;
const EVERY: Duration = Duration::from_millis(1000 / TIMES_A_SECOND as u64);

/// The line that is up, if any.
static UP: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Counts what comes by.
pub struct Progress {
    begin: Instant,
    next: Duration,
    words: u64,
}

impl Progress {
    pub fn new() -> Progress {
        Progress {
            begin: Instant::now(),
            next: AFTER,
            words: 0,
        }
    }

    /// So many words came; `written` bytes are in the file.
    pub fn add(&mut self, words: usize, written: Option<u64>) {
        self.words += words as u64;
        let now = self.begin.elapsed();
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        let mut up = UP.lock().unwrap_or_else(PoisonError::into_inner);
        let line = up.get_or_insert_with(line);
        let written = written.map_or_else(String::new, |n| format!(", {} written", bytes(n)));
        let (words, seconds) = (thousands(self.words), now.as_secs());
        line.set_message(format!("{words} words recorded{written}, {seconds} s"));
        line.tick();
    }
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
