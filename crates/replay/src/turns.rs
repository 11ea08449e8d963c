//! Whose note comes next.
//!
//! **Problem.** Notes of one address space are to come in the order of their numbers, whatever the
//! thread, though threads are put in one order by estimated times only. Numbers may be missing: of
//! threads that were killed, of what was not selected, of what is damaged.
//!
//! **Idea.** A thread whose note is not the next one waits until it is. If all threads of its
//! address space that have anything left wait, the note with the least number is the next, as the
//! ones before it will never come. A new image (exec) begins at 0 again, when the threads of the
//! one before have ended; a forked process begins when its parent has come to the fork, and a
//! thread when another has made it.
//!
//! **Invariant.** As long as a thread of an address space has anything left, one of them may go on,
//! or its parent may.
use memtrail_model::Note;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A thread, by its place among those that are replayed.
pub(crate) type Member = usize;

#[derive(Debug, Default)]
struct Space {
    /// The number of the next note.
    next: u64,
    /// Threads that have anything left.
    members: usize,
    /// Those that wait, and the numbers of their notes.
    waiting: BTreeMap<Member, u64>,
}

/// The turns of all address spaces.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    spaces: HashMap<u32, Space>,
    /// Forked processes that have not been told of, and their parents.
    forks: BTreeMap<u32, u32>,
    /// Threads that another thread is still to make.
    unmade: HashSet<u32>,
    /// Notes that nobody waits for, by address space and number: see [`Turns::let_run_on`].
    passed: HashSet<(u32, u64)>,
    /// Threads that have not ended, by address space and the word that is cleared at their end.
    living: HashMap<(u32, u64), u32>,
}

impl Turns {
    /// `forks`: all forked processes with their parents; `unmade`: threads that others make.
    pub fn new(forks: BTreeMap<u32, u32>, unmade: HashSet<u32>) -> Turns {
        Turns {
            spaces: HashMap::new(),
            forks,
            unmade,
            ..Turns::default()
        }
    }

    /// Nobody waits for these ends of threads, by address space and number, but those who wait for
    /// the thread: others might as well have been faster.
    pub fn let_run_on(&mut self, ends: HashSet<(u32, u64)>) {
        self.passed = ends;
    }

    /// Whether a note has to wait for a thread's end, which is why it could happen.
    pub fn awaits_end(&self, space: u32, note: &Note) -> bool {
        let word = match *note {
            Note::Start { cleared, .. } if cleared != 0 => cleared,
            Note::Woken { address, .. } => address,
            _ => return false,
        };
        self.living.contains_key(&(space, word))
    }

    /// A thread was made.
    pub fn lives(&mut self, space: u32, thread: u32, cleared: u64) {
        if cleared != 0 && !self.passed.is_empty() {
            self.living.insert((space, cleared), thread);
        }
    }

    pub fn ended(&mut self, thread: u32) {
        self.living.retain(|_, living| *living != thread);
    }

    /// Whether a thread has to wait until another has made it.
    pub fn awaits_start(&self, thread: u32) -> bool {
        self.unmade.contains(&thread)
    }

    /// A thread was made, or goes on as if it had been.
    pub fn started(&mut self, thread: u32) {
        self.unmade.remove(&thread);
    }

    fn space(&mut self, space: u32) -> &mut Space {
        self.spaces.entry(space).or_default()
    }

    /// A thread has something left in this space.
    pub fn join(&mut self, space: u32) {
        self.space(space).members += 1;
    }

    /// It has nothing left there.
    pub fn leave(&mut self, space: u32, member: Member) {
        let space = self.space(space);
        space.members -= 1;
        space.waiting.remove(&member);
    }

    /// Whether it is the turn of note `number`, the next of this thread. `fresh`: a new image
    /// begins with it.
    pub fn may(&mut self, space: u32, member: Member, number: u64, fresh: bool) -> bool {
        let space = self.space(space);
        space.waiting.insert(member, number);
        let turn = match fresh {
            true => space.next == 0 || space.members == 1,
            false => number <= space.next,
        };
        // The numbers before it are of nobody.
        let least = || space.waiting.values().all(|&other| other >= number);
        turn || space.waiting.len() == space.members && least()
    }

    /// What this thread waits for, if it does.
    pub fn number(&self, space: u32, member: Member) -> u64 {
        let waiting = self.spaces.get(&space).and_then(|s| s.waiting.get(&member));
        waiting.copied().unwrap_or(u64::MAX)
    }

    /// The note has been handed on.
    pub fn went(&mut self, of: u32, member: Member, number: u64, fresh: bool) {
        let space = self.space(of);
        space.waiting.remove(&member);
        let next = number.saturating_add(1);
        let mut next = if fresh { next } else { space.next.max(next) };
        while self.passed.contains(&(of, next)) {
            next += 1;
        }
        self.space(of).next = next;
    }

    /// Whether a process, a thread of which is about to begin, has to wait until its parent has
    /// come to the fork.
    pub fn awaits_fork(&self, child: u32) -> bool {
        let members = |space| self.spaces.get(space).map_or(0, |s| s.members);
        self.forks.get(&child).is_some_and(|parent| members(parent) > 0)
    }

    /// The parent of a forked process, if that has not been told.
    pub fn fork(&mut self, child: u32) -> Option<u32> {
        self.forks.remove(&child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(members: usize) -> Turns {
        let mut turns = Turns::new([(7, 0)].into(), [3].into());
        (0..members).for_each(|_| turns.join(0));
        turns
    }

    fn go(turns: &mut Turns, member: Member, number: u64) -> bool {
        let may = turns.may(0, member, number, false);
        if may {
            turns.went(0, member, number, false);
        }
        may
    }

    #[test]
    fn notes_wait_for_those_before_them() {
        let mut t = turns(2);
        assert!(!go(&mut t, 0, 1));
        assert!(go(&mut t, 1, 0));
        assert!(go(&mut t, 0, 1));
        assert!(go(&mut t, 0, 2));
        assert!(!go(&mut t, 1, 4));
        assert!(go(&mut t, 0, 3));
    }

    #[test]
    fn missing_numbers_are_passed_over_when_nobody_can_have_them() {
        let mut t = turns(2);
        assert!(!go(&mut t, 0, 9));
        // All wait: the lesser goes on.
        assert!(go(&mut t, 1, 5));
        assert!(!go(&mut t, 0, 9));
        t.leave(0, 1);
        assert!(go(&mut t, 0, 9));
    }

    #[test]
    fn a_new_image_begins_when_it_is_alone() {
        let mut t = turns(2);
        assert!(go(&mut t, 0, 0));
        assert!(!t.may(0, 0, 0, true));
        assert!(go(&mut t, 1, 1));
        t.leave(0, 1);
        assert!(t.may(0, 0, 0, true));
        t.went(0, 0, 0, true);
        assert!(go(&mut t, 0, 1));
    }

    #[test]
    fn ends_that_nobody_waits_for_are_passed_over() {
        let mut t = turns(2);
        t.let_run_on([(0, 1), (0, 2), (0, 5)].into());
        t.lives(0, 1, 0x100);
        assert!(go(&mut t, 0, 0));
        assert!(go(&mut t, 0, 3));
        assert!(go(&mut t, 1, 2));
        assert!(go(&mut t, 0, 4));
        let woken = |address| Note::Woken { address, result: 0 };
        let start = |cleared| Note::Start { thread: None, cleared };
        assert!(t.awaits_end(0, &woken(0x100)) && t.awaits_end(0, &start(0x100)));
        assert!(!t.awaits_end(0, &woken(0x200)) && !t.awaits_end(1, &start(0x100)));
        t.ended(1);
        assert!(!t.awaits_end(0, &woken(0x100)));
    }

    #[test]
    fn a_thread_waits_until_it_is_made() {
        let mut t = turns(1);
        assert!(t.awaits_start(3) && !t.awaits_start(0));
        t.started(3);
        assert!(!t.awaits_start(3));
    }

    #[test]
    fn a_child_waits_for_its_parent_as_long_as_there_is_one() {
        let mut t = turns(1);
        assert!(t.awaits_fork(7));
        t.leave(0, 0);
        assert!(!t.awaits_fork(7));
        assert_eq!((t.fork(7), t.fork(7)), (Some(0), None));
    }
}
