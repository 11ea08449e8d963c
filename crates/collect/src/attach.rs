//! Recording a process that runs already, for a while.
//!
//! The target's threads are taken, recorded, and given back as they were; see
//! `memtrail_tracee::Grip` and `memtrail_tracee::leave`. Children that it forks meanwhile are
//! recorded, too, and given back with it.
use crate::drain::{Order, Pids};
use crate::renamed::Renamed;
use crate::session::{Options, Session};
use crate::supervise::{hold, Around, Begun, Notice, Outcome, Stop, Supervisor};
use memtrail_decode::Sink;
use memtrail_plan::XsaveTable;
use memtrail_ring::request;
use memtrail_tracee::{inner_pid, leave, Attached, Error, Events, Grip, Interrupts, Left, Payload, PidFd};
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How much is recorded of an attached process; nothing: until it ends, or the user says so.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Until {
    /// At least as many, and not many more than fit the buffers of its threads.
    pub accesses: Option<u64>,
    pub time: Option<Duration>,
}

/// An attached process, as the supervisor sees it.
#[derive(Debug)]
pub(crate) struct Attachment {
    attached: Attached,
    pub until: Until,
    pub pids: Pids,
    since: Instant,
}

impl Attachment {
    /// Whether to stop, and why. One ^C is enough: it does not reach the target.
    pub fn stop_wanted(&self, now: Interrupts, enough: bool) -> Option<Stop> {
        if now.keyboard > 0 {
            Some(Stop::Interrupted)
        } else if now.terminate > 0 {
            Some(Stop::Terminated)
        } else if enough || self.time_left() == Some(Duration::ZERO) {
            Some(Stop::Enough)
        } else {
            None
        }
    }

    pub fn time_left(&self) -> Option<Duration> {
        Some(self.until.time?.saturating_sub(self.since.elapsed()))
    }

    /// Whether the process that calls itself `pid` is watched already, or cannot be: what it is
    /// called here is not known.
    pub fn is_watched(&self, pid: i32) -> bool {
        pid == self.pids.inner || self.pids.inner != self.pids.outer
    }

    /// What a process calls itself that is called `pid` here.
    pub fn inner(&self, pid: i32) -> i32 {
        if pid == self.pids.outer {
            self.pids.inner
        } else {
            pid
        }
    }
}

/// Attaches to a process, records it, and lets it go. `prepare` is given the session before the
/// process runs on.
pub fn attach<S: Sink>(
    pid: i32,
    options: &Options,
    until: Until,
    xsave: &XsaveTable,
    sink: &mut S,
    notice: &mut dyn FnMut(Notice),
    prepare: impl FnOnce(Session) -> Session,
) -> Result<Outcome, Error> {
    let begun = Begun::now();
    let events = Events::new()?;
    let renamed = Renamed::default();
    renamed.begins(0, pid);
    let pids = Pids {
        inner: inner_pid(pid),
        outer: pid,
    };
    let mut grip = Grip::take(pid)?;
    let file = File::from(grip.share()?);
    let failed = |source: io::Error| Error::System {
        call: "mapping the shared memory",
        source,
    };
    let session = prepare(Session::of(file, options).map_err(failed)?);
    let payload = Payload::new(session.file())?;
    let _hold = hold(&session)?;
    // The first thread is the one that was announced with the process: number 0.
    let header = session.header();
    let mut first = true;
    let attached = grip.enter(0, || match std::mem::take(&mut first) {
        true => 0,
        false => header.next_thread.fetch_add(1, Ordering::Relaxed),
    })?;
    notice(Notice::Attached { pause: attached.pause });
    let attachment = Attachment {
        attached,
        until,
        pids,
        since: Instant::now(),
    };
    let around = Around {
        session: &session,
        payload: &payload,
        renamed: &renamed,
        events: &events,
        begun,
    };
    Ok(around.collect(0, Some(attachment), xsave, sink, notice))
}

impl Supervisor<'_> {
    /// The attached process is watched from the beginning.
    pub fn watch_attached(&mut self) {
        let Some(attachment) = &self.attachment else { return };
        let pid = attachment.pids.outer;
        if let Ok(fd) = PidFd::open(pid) {
            self.others.insert(pid, fd);
        }
    }

    /// Lets go of the attached process and of those that it has forked.
    pub fn let_go_of_attached(&mut self) {
        let Some(attachment) = &self.attachment else { return };
        let (attached, pids) = (attachment.attached, attachment.pids);
        let ours: Vec<i32> = self.execs.iter().map(|e| e.tid).collect();
        let there = self.others.contains_key(&attached.pid);
        let mut next = there.then_some(attached.pid).or_else(|| self.first_sharer(&[]));
        let mut failed = Vec::new();
        while let Some(pid) = next {
            let left = leave(&attached.fork(pid), &ours, &mut || self.refuse_requests());
            let inner = if pid == pids.outer { pids.inner } else { pid };
            self.order(Order::Retire { pid: inner, done: None });
            match left {
                Ok(Left::Native { threads, pause }) => (self.notice)(Notice::LetGo { pid, threads, pause }),
                Ok(Left::Ended | Left::Exec) => {}
                Err(error) => {
                    failed.push(pid);
                    let why = error.to_string();
                    (self.notice)(Notice::Kept { pid, why });
                }
            }
            next = self.first_sharer(&failed);
        }
    }

    fn first_sharer(&self, but: &[i32]) -> Option<i32> {
        let sharers = self.session.sharers().unwrap_or_default();
        sharers.into_iter().find(|pid| !but.contains(pid))
    }

    /// Threads that want to be watched through an exec go on without.
    fn refuse_requests(&self) {
        for slot in 0..self.session.slots() {
            match self.session.control(slot).request.load(Ordering::Acquire) {
                request::SEIZE => self.answer(slot, request::REFUSED),
                request::FAILED => self.answer(slot, request::NONE),
                _ => {}
            }
        }
    }
}
