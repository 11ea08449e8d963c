//! Supervising the processes of a recording: who lives, who execs, when it is over.
//!
//! One thread, the one that launched, does all ptrace and waiting; the drain runs beside it. It
//! is over when the launched process has ended and no process has the session mapped any more,
//! or when the user says so, or at once with the launched process if children are not followed.
use crate::attach::Attachment;
use crate::clock::Moment;
use crate::drain::{Drain, Note, Order};
use crate::renamed::Renamed;
use crate::session::{self, Session};
use crate::Drained;
use memtrail_decode::Sink;
use memtrail_plan::XsaveTable;
use memtrail_ring::{collector, request, slot_kind, slot_state};
use memtrail_tracee::{
    inject, interrupt, poll_pid, program_is_wrong, seize, wait, Ended, Error, Event, Events, Interrupts, Payload,
    PidFd, Polled, Serials, Stopped,
};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

/// Something the user should know while recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A process goes on unrecorded after exec, and why.
    Unrecorded { pid: i32, why: String },
    /// The launched process has ended; its children are waited for.
    Waiting,
    /// Draining failed; the target goes on unrecorded.
    Failed,
    /// All threads of an attached process are recorded; they stood still this long.
    Attached { pause: Duration },
    /// An attached process runs natively again.
    LetGo { pid: i32, threads: usize, pause: Duration },
    /// An attached process could not be let go: it runs on under the runtime, unrecorded.
    Kept { pid: i32, why: String },
    /// How many threads were not recorded because too many were alive at once.
    ThreadsLeftOut(u32),
}

/// Why a recording ended before its target did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The user pressed ^C (twice while the target ran).
    Interrupted,
    /// We were told to terminate.
    Terminated,
    /// As much has been recorded of an attached process as was wanted.
    Enough,
}

/// How a recording went.
#[derive(Debug)]
pub struct Outcome {
    pub drained: Drained,
    /// How the launched process ended, if it did.
    pub ended: Option<Ended>,
    pub stopped: Option<Stop>,
    pub wall: Duration,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
}

/// A terminating signal is often sent to the whole group: this long we let the target go first.
const GRACE: Duration = Duration::from_millis(200);
/// How often the supervisor looks around when nothing rings.
const LOOK: Duration = Duration::from_millis(500);
/// How often it asks whether forgotten children are left.
const LOOK_FOR_ORPHANS: Duration = Duration::from_millis(10);
/// How long the drain may take to close the slots of an image.
const RETIRE: Duration = Duration::from_secs(60);

/// Whose thread it is, in kernel ids and in serials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    pid: i32,
    process: u32,
    thread: u32,
}

/// A thread we have seized because it is about to exec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exec {
    pub(crate) tid: i32,
    owner: Owner,
}

pub(crate) struct Supervisor<'s> {
    pub(crate) session: &'s Session,
    payload: &'s Payload,
    renamed: &'s Renamed,
    /// The process that was launched; 0 if one was attached to.
    child: i32,
    pub(crate) attachment: Option<Attachment>,
    /// As many accesses as were wanted are there.
    pub(crate) enough: bool,
    ended: Option<Ended>,
    pub(crate) others: HashMap<i32, PidFd>,
    pub(crate) execs: Vec<Exec>,
    orders: Sender<Order>,
    notes: Receiver<Note>,
    pub(crate) notice: &'s mut dyn FnMut(Notice),
}

/// Injects the runtime into a launched target and records until it is over. Must run on the
/// thread that launched it.
pub fn record<S: Sink>(
    session: &Session,
    target: Stopped,
    xsave: &XsaveTable,
    sink: &mut S,
    notice: &mut dyn FnMut(Notice),
) -> Result<Outcome, Error> {
    let begun = Begun::now();
    let payload = Payload::new(session.file())?;
    let child = target.tid();
    let events = Events::new()?;
    let _hold = hold(session)?;
    let serials = Serials {
        thread: 0,
        process: 0,
        exec: false,
    };
    let renamed = Renamed::default();
    renamed.begins(serials.process, child);
    if let Err((error, left)) = inject(target, &payload, serials) {
        if let Some(target) = left {
            target.kill();
        }
        return Err(error);
    }
    let around = Around {
        session,
        payload: &payload,
        renamed: &renamed,
        events: &events,
        begun,
    };
    Ok(around.collect(child, None, xsave, sink, notice))
}

pub(crate) fn hold(session: &Session) -> Result<crate::session::Hold<'_>, Error> {
    session.hold().map_err(|source| Error::System {
        call: "set_robust_list",
        source,
    })
}

/// When a recording began.
pub(crate) struct Begun {
    at: Instant,
    first: Moment,
}

impl Begun {
    pub fn now() -> Begun {
        Begun {
            at: Instant::now(),
            first: Moment::now(),
        }
    }
}

/// What there is around a target that runs under the runtime.
pub(crate) struct Around<'s> {
    pub session: &'s Session,
    pub payload: &'s Payload,
    pub renamed: &'s Renamed,
    pub events: &'s Events,
    pub begun: Begun,
}

impl Around<'_> {
    /// Drains and supervises until it is over.
    pub fn collect<S: Sink>(
        self,
        child: i32,
        attachment: Option<Attachment>,
        xsave: &XsaveTable,
        sink: &mut S,
        notice: &mut dyn FnMut(Notice),
    ) -> Outcome {
        let session = self.session;
        let (notes_in, notes) = channel();
        let (orders, orders_out) = channel();
        memtrail_tracee::interrupts(Some(&self.events.wake()));
        let options = options(session);
        let wake = self.events.wake();
        let mut drain = Drain::new(session, options, xsave, sink, self.renamed, notes_in, wake);
        if let Some(attachment) = &attachment {
            drain = drain.attached(attachment.until.accesses, attachment.pids);
        }
        let mut supervisor = Supervisor {
            session,
            payload: self.payload,
            renamed: self.renamed,
            child,
            attachment,
            enough: false,
            ended: None,
            others: HashMap::new(),
            execs: Vec::new(),
            orders,
            notes,
            notice,
        };
        let (drained, stopped) = std::thread::scope(|scope| {
            let drain = scope.spawn(move || drain.run(orders_out));
            supervisor.watch_attached();
            let stopped = supervisor.run(self.events);
            supervisor.let_go_of_attached();
            supervisor.order(Order::Finish);
            (drain.join(), stopped)
        });
        // Only now: threads that are told to go on alone write over what the drain was reading.
        session.abandon();
        memtrail_tracee::interrupts(None);
        let left_out = session.header().unrecorded_threads.load(Ordering::Relaxed);
        if left_out > 0 {
            (supervisor.notice)(Notice::ThreadsLeftOut(left_out));
        }
        Outcome {
            drained: drained.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            ended: supervisor.ended,
            stopped,
            wall: self.begun.at.elapsed(),
            tsc_hz: Moment::now().ticks_per_second_since(&self.begun.first),
        }
    }
}

/// Those the runtime translates with.
fn options(session: &Session) -> memtrail_translate::Options {
    memtrail_translate::Options {
        probes: session.options().probes,
        max_block: session.options().max_block,
    }
}

impl Supervisor<'_> {
    fn run(&mut self, events: &Events) -> Option<Stop> {
        let mut asked = None;
        let mut waiting = false;
        loop {
            self.hear_notes();
            self.look_at_requests();
            self.look_at_tracees();
            self.look_at_others();
            if self.over() {
                return None;
            }
            if self.ended.is_some() && !std::mem::replace(&mut waiting, true) {
                (self.notice)(Notice::Waiting);
            }
            if let Some(stop) = self.stop_wanted(&mut asked) {
                return Some(stop);
            }
            let nap = match (asked, self.ended) {
                (Some(_), _) | (_, Some(_)) => LOOK_FOR_ORPHANS,
                _ => LOOK,
            };
            let left = self.attachment.as_ref().and_then(Attachment::time_left);
            let nap = left.map_or(nap, |left| nap.min(left));
            events.sleep(self.others.values(), nap);
        }
    }

    pub(crate) fn order(&self, order: Order) {
        // A drain that is gone has failed and said so.
        let _ = self.orders.send(order);
        let header = self.session.header();
        header.doorbell.fetch_add(1, Ordering::Release);
        session::wake(&header.doorbell);
    }

    fn over(&self) -> bool {
        if self.attachment.is_some() {
            return self.others.is_empty();
        }
        if self.ended.is_none() {
            return false;
        }
        let follow = self.session.header().follow.load(Ordering::Relaxed) == 1;
        let shared = self.session.shared();
        !follow || !shared.unwrap_or(!self.others.is_empty())
    }

    fn stop_wanted(&self, asked: &mut Option<Instant>) -> Option<Stop> {
        let now = Interrupts::now();
        if let Some(attachment) = &self.attachment {
            return attachment.stop_wanted(now, self.enough);
        }
        let patience = if self.ended.is_some() { 1 } else { 2 };
        if now.keyboard >= patience {
            return Some(Stop::Interrupted);
        }
        if now.terminate > 0 {
            let since = *asked.get_or_insert_with(Instant::now);
            if self.ended.is_some() || since.elapsed() >= GRACE {
                return Some(Stop::Terminated);
            }
        }
        None
    }

    fn hear_notes(&mut self) {
        while let Ok(note) = self.notes.try_recv() {
            match note {
                Note::Watch { pid } => self.watch(pid),
                Note::Failed => {
                    self.enough = true;
                    (self.notice)(Notice::Failed);
                }
                Note::Enough => self.enough = true,
            }
        }
    }

    fn watch(&mut self, pid: i32) {
        if self.attachment.as_ref().is_some_and(|a| a.is_watched(pid)) {
            return;
        }
        if pid == self.child {
            if self.ended.is_some() {
                self.order(Order::Retire { pid, done: None });
            }
            return;
        }
        match PidFd::open(pid) {
            Ok(fd) => {
                self.others.insert(pid, fd);
            }
            Err(_) => self.order(Order::Retire { pid, done: None }),
        }
    }

    fn look_at_others(&mut self) {
        let gone = |(&pid, fd): (&i32, &PidFd)| fd.ended().then_some(pid);
        let gone: Vec<i32> = self.others.iter().filter_map(gone).collect();
        for pid in gone {
            self.others.remove(&pid);
            self.execs.retain(|e| e.owner.pid != pid);
            let pid = self.attachment.as_ref().map_or(pid, |a| a.inner(pid));
            self.order(Order::Retire { pid, done: None });
        }
    }

    /// Threads that are about to exec, and execs that failed.
    fn look_at_requests(&mut self) {
        for slot in 0..self.session.slots() {
            let control = self.session.control(slot);
            let tid = control.request_tid.load(Ordering::Relaxed) as i32;
            match control.request.load(Ordering::Acquire) {
                request::SEIZE => self.seize(slot, tid),
                request::FAILED => self.let_go(slot, tid),
                _ => {}
            }
        }
    }

    /// A thread is about to exec: trace it from here to its exec event.
    fn seize(&mut self, slot: usize, tid: i32) {
        let draining = self.session.header().collector.load(Ordering::Acquire) == collector::ALIVE;
        let owner = self.owner(slot, tid).or_else(|| self.stranger(tid));
        let Some(owner) = owner.filter(|_| draining) else {
            return self.answer(slot, request::REFUSED);
        };
        match seize(tid) {
            Ok(()) => {
                self.execs.push(Exec { tid, owner });
                self.answer(slot, request::READY);
            }
            Err(error) => {
                (self.notice)(Notice::Unrecorded {
                    pid: tid,
                    why: error.to_string(),
                });
                self.answer(slot, request::REFUSED);
            }
        }
    }

    /// The thread with this kernel id, as its data slot tells. A vfork child still lives in its
    /// parent's image; with an image of its own it becomes a process of its own.
    fn owner(&self, slot: usize, tid: i32) -> Option<Owner> {
        let c = (0..self.session.slots()).map(|i| self.session.control(i)).find(|c| {
            c.state.load(Ordering::Acquire) == slot_state::ACTIVE
                && c.kind.load(Ordering::Relaxed) == slot_kind::DATA
                && c.tid.load(Ordering::Relaxed) as i32 == tid
        })?;
        let pid = c.pid.load(Ordering::Relaxed);
        let borrowed = self.session.control(slot).pid.load(Ordering::Relaxed) != pid;
        let process = if borrowed {
            let header = self.session.header();
            header.next_process.fetch_add(1, Ordering::Relaxed)
        } else {
            c.process.load(Ordering::Relaxed)
        };
        Some(Owner {
            pid: pid as i32,
            process,
            thread: c.thread.load(Ordering::Relaxed),
        })
    }

    pub(crate) fn answer(&self, slot: usize, answer: u32) {
        let word = &self.session.control(slot).request;
        word.store(answer, Ordering::Release);
        session::wake(word);
    }

    /// A process without a slot of its own (a vfork child) gets serials here.
    fn stranger(&self, tid: i32) -> Option<Owner> {
        let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("Tgid:"))?;
        let header = self.session.header();
        Some(Owner {
            pid: line.trim().parse().ok()?,
            process: header.next_process.fetch_add(1, Ordering::Relaxed),
            thread: header.next_thread.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// An exec failed: the thread waits for us to stop tracing it.
    fn let_go(&mut self, slot: usize, tid: i32) {
        self.execs.retain(|e| e.tid != tid);
        if interrupt(tid).is_ok() {
            let signal = |s: i32| if s == libc::SIGTRAP { 0 } else { s };
            let released = match wait(tid) {
                Ok(Event::Signal(stopped, s)) => stopped.detach(signal(s)),
                Ok(
                    Event::Other(stopped) | Event::GroupStop(stopped) | Event::Syscall(stopped) | Event::Exec(stopped),
                ) => stopped.detach(0),
                Ok(Event::Ended(_)) | Err(_) => Ok(()),
            };
            // It can only have been killed meanwhile, which the drain will hear of.
            drop(released);
        }
        self.answer(slot, request::NONE);
    }

    fn look_at_tracees(&mut self) {
        let mut pids = Vec::new();
        pids.extend((self.child != 0).then_some(self.child));
        for exec in &self.execs {
            pids.extend([exec.tid, exec.owner.pid]);
        }
        pids.sort_unstable();
        pids.dedup();
        if self.ended.is_some() {
            pids.retain(|&p| p != self.child);
        }
        for pid in pids {
            match poll_pid(pid) {
                Polled::Nothing | Polled::Unknown => {}
                Polled::Ended(ended) => self.tracee_ended(pid, ended),
                Polled::Stopped(event) => self.tracee_stopped(event),
            }
        }
    }

    fn tracee_ended(&mut self, pid: i32, ended: Ended) {
        self.execs.retain(|e| e.tid != pid && e.owner.pid != pid);
        if pid == self.child {
            self.ended = Some(ended);
            self.order(Order::Retire { pid, done: None });
        }
    }

    fn tracee_stopped(&mut self, event: Event) {
        let passed_on = match event {
            Event::Exec(stopped) => {
                self.executed(stopped);
                Ok(())
            }
            Event::Signal(stopped, signal) => stopped.resume(signal),
            Event::GroupStop(stopped) => stopped.listen(),
            Event::Syscall(stopped) | Event::Other(stopped) => stopped.resume(0),
            Event::Ended(_) => Ok(()),
        };
        // A thread killed at its stop cannot be resumed; its end will be seen.
        drop(passed_on);
    }

    /// A new image is in place: close the old one's slots, then inject again.
    fn executed(&mut self, stopped: Stopped) {
        let pid = stopped.tid();
        let before = stopped.tid_before_exec().unwrap_or(pid);
        let exec = self.execs.iter().copied().find(|e| e.tid == before);
        self.execs.retain(|e| e.owner.pid != pid && e.tid != before);
        let (done, answered) = channel();
        self.order(Order::Retire { pid, done: Some(done) });
        // If the drain is gone the new image will find the session abandoned.
        let _ = answered.recv_timeout(RETIRE);
        let why = match (exec, program_is_wrong(pid)) {
            (None, _) => Err((stopped, "its exec was not announced".to_string())),
            (_, Some(unfit)) => Err((stopped, unfit.to_string())),
            (Some(exec), None) => {
                let serials = Serials {
                    thread: exec.owner.thread,
                    process: exec.owner.process,
                    exec: true,
                };
                self.renamed.begins(serials.process, pid);
                match inject(stopped, self.payload, serials) {
                    Ok(()) | Err((_, None)) => return,
                    Err((error, Some(stopped))) => Err((stopped, error.to_string())),
                }
            }
        };
        if let Err::<(), _>((stopped, why)) = why {
            // A target killed at this moment cannot be detached; its end will be seen.
            let _ = stopped.detach(0);
            (self.notice)(Notice::Unrecorded { pid, why });
        }
    }
}
