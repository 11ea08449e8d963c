//! Work for several threads, and what comes of it in order.
//!
//! **Problem.** One thread, the *submitter*, makes jobs. *Workers* do them in whatever order. What
//! comes of them has to be dealt with in the order in which it was submitted, by another thread,
//! the *consumer*, who makes further jobs of it. Memory is limited: the submitter has to wait while
//! too much is under way. Nobody may wait for ever, whoever fails.
//!
//! **Idea.** Three queues under one lock. The submitter numbers what it submits with tickets 0, 1,
//! 2, …; a worker answers with a *post* of that ticket, and [`Sequencer::wait`] gives posts out in
//! the order of tickets. Jobs of the consumer are *urgent*: workers do them first, since they free
//! memory, and what comes of them is *delivered* in any order, for the consumer knows their
//! tickets.
//!
//! **Invariants.**
//! - Every ticket that is taken is posted once, or the sequencer is [broken
//!   off](Sequencer::break_off).
//! - The consumer never waits for room: it is who makes room.
//! - The weight in flight is what was submitted and not yet [finished](Sequencer::finished).
//!
//! Under `--cfg loom` the lock and the conditions are loom's, and `tests/orders.rs` runs this code
//! in every order of its threads.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use sync::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
mod sync {
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
}
#[cfg(not(loom))]
mod sync {
    pub use std::sync::{Condvar, Mutex, MutexGuard};
}

/// Jobs `J`, posts `P` that come in order, deliveries `D` that do not, and the first error `E`.
pub struct Sequencer<J, P, D, E> {
    queues: Mutex<Queues<J, P, D, E>>,
    /// There is a job, or there will be no more.
    work: Condvar,
    /// There is something for the consumer.
    post: Condvar,
    /// The weight in flight has become less, or has ceased to matter.
    room: Condvar,
}

struct Queues<J, P, D, E> {
    urgent: VecDeque<J>,
    jobs: VecDeque<J>,
    posts: BTreeMap<u64, P>,
    delivered: BTreeMap<u64, D>,
    in_flight: usize,
    /// No more jobs will come.
    over: bool,
    /// A thread is gone, and what it had will never come.
    broken: bool,
    failed: bool,
    failure: Option<E>,
}

/// What the consumer has to deal with: the posts whose turn it is, and all deliveries by ticket.
pub struct Arrived<P, D> {
    pub posts: Vec<P>,
    pub delivered: BTreeMap<u64, D>,
}

impl<J, P, D, E> Default for Sequencer<J, P, D, E> {
    fn default() -> Self {
        Sequencer {
            queues: Mutex::new(Queues {
                urgent: VecDeque::new(),
                jobs: VecDeque::new(),
                posts: BTreeMap::new(),
                delivered: BTreeMap::new(),
                in_flight: 0,
                over: false,
                broken: false,
                failed: false,
                failure: None,
            }),
            work: Condvar::new(),
            post: Condvar::new(),
            room: Condvar::new(),
        }
    }
}

impl<J, P, D, E> Sequencer<J, P, D, E> {
    fn lock(&self) -> MutexGuard<'_, Queues<J, P, D, E>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job of the submitter. Waits while `limit` or more is in flight, unless something has
    /// failed.
    pub fn submit(&self, job: J, weight: usize, limit: usize) {
        let mut queues = self.lock();
        while queues.in_flight >= limit && !queues.failed {
            queues = self.room.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
        queues.in_flight += weight;
        queues.jobs.push_back(job);
        drop(queues);
        self.work.notify_one();
    }

    /// A job of the consumer: it does not wait, and is done before those of the submitter.
    pub fn submit_urgent(&self, job: J, weight: usize) {
        let mut queues = self.lock();
        queues.in_flight += weight;
        queues.urgent.push_back(job);
        drop(queues);
        self.work.notify_one();
    }

    /// The next job for a worker; `None` if no more will come.
    pub fn next_job(&self) -> Option<J> {
        let mut queues = self.lock();
        loop {
            let job = queues.urgent.pop_front();
            if let Some(job) = job.or_else(|| queues.jobs.pop_front()) {
                return Some(job);
            }
            if queues.over {
                return None;
            }
            queues = self.work.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A job of this weight is done.
    pub fn finished(&self, weight: usize) {
        self.lock().in_flight -= weight;
        self.room.notify_all();
    }

    /// What the consumer gets when the turn of the ticket comes.
    pub fn post(&self, ticket: u64, post: P) {
        self.lock().posts.insert(ticket, post);
        self.post.notify_one();
    }

    /// What the consumer gets as soon as it looks.
    pub fn deliver(&self, ticket: u64, delivery: D) {
        self.lock().delivered.insert(ticket, delivery);
        self.post.notify_one();
    }

    /// Waits for the post of ticket `next`, for those behind it that are there, or for deliveries.
    /// Moves `next` behind the last post. `None` if nothing more will come because a thread is
    /// gone.
    pub fn wait(&self, next: &mut u64) -> Option<Arrived<P, D>> {
        let mut queues = self.lock();
        loop {
            let mut posts = Vec::new();
            while let Some(post) = queues.posts.remove(next) {
                *next += 1;
                posts.push(post);
            }
            let delivered = std::mem::take(&mut queues.delivered);
            if !posts.is_empty() || !delivered.is_empty() {
                return Some(Arrived { posts, delivered });
            }
            if queues.broken {
                return None;
            }
            queues = self.post.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No more jobs will come: workers end when none is left.
    pub fn end(&self) {
        self.lock().over = true;
        self.work.notify_all();
    }

    /// Something went wrong: the submitter waits for nothing any more. The first error is kept.
    pub fn fail(&self, error: E) {
        let mut queues = self.lock();
        queues.failed = true;
        queues.failure.get_or_insert(error);
        drop(queues);
        self.room.notify_all();
    }

    /// A thread is gone with what it had: nobody may wait for that.
    pub fn break_off(&self, error: E) {
        self.fail(error);
        self.lock().broken = true;
        self.post.notify_all();
    }

    pub fn has_failed(&self) -> bool {
        self.lock().failed
    }

    /// The first error, if something has failed; none if it was given out before.
    pub fn check(&self) -> Result<(), Option<E>> {
        let mut queues = self.lock();
        match queues.failed {
            true => Err(queues.failure.take()),
            false => Ok(()),
        }
    }

    /// The weight of what was submitted and is not finished.
    pub fn in_flight(&self) -> usize {
        self.lock().in_flight
    }
}
