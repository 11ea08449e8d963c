//! The checker finds mistakes: every line of the emitter that marks a site is left out, and put an
//! instruction too late.
use super::{check, Seen};
use crate::emit::sites::mistakes::{lines, make, Line, Mistake};
use std::format;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::string::String;
use std::vec::Vec;

/// Programs that each mistake is tried on.
const PROGRAMS: u64 = 400;

/// How many mistakes the checker must find; 71 of 150 when this was written.
const LEAST: usize = 70;

/// Whether the checker notices a mistake. It may show in a state, or make a record so wrong that
/// reading it panics.
fn noticed(line: Line, mistake: Mistake) -> bool {
    make(Some((line, mistake)));
    let fine = |seed| catch_unwind(AssertUnwindSafe(|| check(seed, &mut Seen::new()).is_ok())).unwrap_or(false);
    let noticed = (0..PROGRAMS).any(|seed| !fine(seed));
    make(None);
    noticed
}

/// Not all mistakes matter: often the site before means the same, or another line marks the same
/// place. And a few lines are met too rarely in so few programs, such as those for returns that
/// leave a path.
#[test]
fn the_checker_finds_marks_that_are_missing_or_moved() {
    for seed in 0..PROGRAMS {
        check(seed, &mut Seen::new()).unwrap();
    }
    let lines = lines();
    let mut unnoticed: Vec<String> = Vec::new();
    for line in &lines {
        for mistake in [Mistake::Forgotten, Mistake::Late] {
            if !noticed(line, mistake) {
                unnoticed.push(format!("{mistake:?} {}:{}", line.file(), line.line()));
            }
        }
    }
    let made = 2 * lines.len();
    let noticed = made - unnoticed.len();
    assert!(noticed >= LEAST, "{noticed} of {made} mistakes; not {unnoticed:#?}");
}
