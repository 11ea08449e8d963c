//! The map of sites, as it is made; and, for tests, with a mistake in it.
use super::Site;
use alloc::vec::Vec;

/// Notes what the machine's state means from an address on.
pub(super) struct Sites {
    pub list: Vec<(u64, Site)>,
    wanted: bool,
}

impl Sites {
    pub fn new(wanted: bool) -> Sites {
        let list = Vec::new();
        Sites { list, wanted }
    }

    /// From `at` on the state means `site`.
    #[cfg_attr(test, track_caller)]
    pub fn mark(&mut self, at: u64, site: Site) {
        #[cfg(test)]
        let Some(at) = mistakes::place(core::panic::Location::caller(), at) else {
            return;
        };
        if self.wanted {
            self.list.push((at, site));
        }
    }
}

/// Mistakes put in on purpose, to see that the checker finds them.
#[cfg(test)]
pub(crate) mod mistakes {
    use core::panic::Location;
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;

    /// A line of the emitter that marks.
    pub type Line = &'static Location<'static>;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Mistake {
        /// The line is missing.
        Forgotten,
        /// It stands an instruction too late.
        Late,
    }

    std::thread_local! {
        static MADE: Cell<Option<(Line, Mistake)>> = const { Cell::new(None) };
        static LINES: RefCell<BTreeSet<Line>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Makes a mistake in this thread from now on, or none.
    pub fn make(mistake: Option<(Line, Mistake)>) {
        MADE.set(mistake);
    }

    /// The lines that have marked in this thread.
    pub fn lines() -> BTreeSet<Line> {
        LINES.with_borrow(|lines| lines.clone())
    }

    /// Where the mark of `line` for `at` goes, if anywhere.
    pub(super) fn place(line: Line, at: u64) -> Option<u64> {
        match MADE.get() {
            Some((wrong, mistake)) if wrong == line => (mistake == Mistake::Late).then_some(at + 1),
            Some(_) => Some(at),
            None => {
                LINES.with_borrow_mut(|lines| lines.insert(line));
                Some(at)
            }
        }
    }
}
