//! Letting go of a process that was attached to: nothing of ours is left in it.
//!
//! **Idea.** Every thread is seized, stopped, and asked to *park*: to come to a point where the
//! runtime has its exact state in hand ([`memtrail_ring::boot`]). How it is asked depends on where
//! it stands:
//!
//! | the thread is | it is asked by |
//! |---|---|
//! | in a system call of the target's that the stop has interrupted | a bit in its area; the call is given up, and begun again when the thread is native |
//! | in the runtime | the same bit, which the runtime looks at before it goes back to translated code |
//! | in translated code | a queued SIGTRAP, whose handler in the runtime recovers the state |
//! | so young that it has no area yet | nothing: it is stopped again a little later |
//!
//! The request may be overheard (a handler of the runtime's was about to return to translated code),
//! so a thread that does not park is stopped and asked again.
//!
//! A thread may be about to go on with a system call that the kernel has a note about
//! (restart_syscall). A handler would make the kernel forget it, so none is run in such a thread.
//!
//! **Invariants.**
//! 1. A SIGTRAP is queued only for a thread that stands still and does not block it: it is delivered
//!    before the thread runs another instruction, and none is ever left over.
//! 2. Threads that are asked all run, none is held: they may wait for each other's locks.
//! 3. Nothing is unmapped before all are parked, and nobody runs before all is unmapped.
use crate::attach::{
    find_gadget, inner_pid, is_dead, registers_of, reported, restart, run, signal_waits, skip_call, tasks, unmap,
    Attached,
};
use crate::stopped::{interrupt, look, seize, Event, Stopped};
use crate::{sys, Error};
use memtrail_ring::boot::{report, AppState, Boot, MOST_OWNED, PARK, PARK_BIT, RIP, STATE_WORDS};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Between two looks at all threads.
const NAP: Duration = Duration::from_micros(50);
/// A thread that has not parked is asked again after this time, and twice that, and so on.
const FIRST_PATIENCE: Duration = Duration::from_millis(2);
const LAST_PATIENCE: Duration = Duration::from_millis(100);
/// As above, of one that is certain to park.
const CERTAIN: Duration = Duration::from_secs(10);
const MOST_SPARED: u32 = 1000;
const RAX: usize = 0;
const EINTR: i64 = -4;
const TRAP_BIT: u64 = 1 << (libc::SIGTRAP - 1);

/// What became of a process that was to be let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It runs on, natively: so many threads, which stood still this long.
    Native { threads: usize, pause: Duration },
    /// It ended first.
    Ended,
    /// It became another program first, which is native.
    Exec,
}

/// A thread on its way.
#[derive(Debug)]
struct Leaving {
    /// Asked again at this time, and how long after that.
    again: Instant,
    patience: Duration,
    /// The number of the system call that the kernel has a note about how to go on with, and whether
    /// that note is still there.
    noted: Option<(u64, bool)>,
    /// How often it was not interrupted.
    spared: u32,
    parked: Option<(Stopped, AppState)>,
}

/// Lets go of a process. `tend` is called again and again meanwhile: it must answer what threads
/// ask for. `ours` are threads that we trace already.
pub fn leave(attached: &Attached, ours: &[i32], tend: &mut dyn FnMut()) -> Result<Left, Error> {
    let mut leaving = Departure {
        pid: attached.pid,
        boot: attached.boot,
        threads: BTreeMap::new(),
    };
    while leaving.take_new(ours)? || !leaving.all_parked() {
        match leaving.look_around()? {
            Looked::Exec => return Ok(Left::Exec),
            Looked::Nothing => std::thread::sleep(NAP),
            Looked::Something => {}
        }
        tend();
    }
    leaving.finish()
}

enum Looked {
    Nothing,
    Something,
    Exec,
}

struct Departure {
    pid: i32,
    boot: Boot,
    threads: BTreeMap<i32, Leaving>,
}

impl Departure {
    fn all_parked(&self) -> bool {
        self.threads.values().all(|t| t.parked.is_some())
    }

    /// Seizes threads that are not known yet. Whether there were any.
    fn take_new(&mut self, ours: &[i32]) -> Result<bool, Error> {
        let mut any = false;
        for tid in tasks(self.pid) {
            if self.threads.contains_key(&tid) {
                continue;
            }
            match seize(tid) {
                Ok(()) => {}
                Err(_) if ours.contains(&tid) => {}
                Err(_) if is_dead(self.pid, tid) => continue,
                Err(error) => return Err(error),
            }
            let _ = interrupt(tid);
            any = true;
            let fresh = Leaving {
                again: Instant::now() + LAST_PATIENCE,
                patience: FIRST_PATIENCE,
                noted: None,
                spared: 0,
                parked: None,
            };
            self.threads.insert(tid, fresh);
        }
        Ok(any)
    }

    fn look_around(&mut self) -> Result<Looked, Error> {
        let mut looked = Looked::Nothing;
        let under_way = |(&tid, t): (&i32, &Leaving)| t.parked.is_none().then_some(tid);
        let tids: Vec<i32> = self.threads.iter().filter_map(under_way).collect();
        for tid in tids {
            let event = match look(tid) {
                Ok(Some(event)) => event,
                Ok(None) => {
                    self.remind(tid);
                    continue;
                }
                // Gone with another thread's exec, or reaped by its parent.
                Err(_) => {
                    self.threads.remove(&tid);
                    continue;
                }
            };
            looked = Looked::Something;
            // A thread that is killed at a stop cannot be asked anything; its end comes next.
            let _ = match event {
                Event::Ended(_) => {
                    self.threads.remove(&tid);
                    Ok(())
                }
                Event::Exec(stopped) => {
                    let _ = stopped.detach(0);
                    return Ok(Looked::Exec);
                }
                Event::Signal(stopped, signal) => stopped.deliver_to_syscall(signal),
                Event::Syscall(stopped) => self.at_call(stopped),
                Event::Other(stopped) | Event::GroupStop(stopped) => self.ask(stopped),
            };
        }
        Ok(looked)
    }

    /// Stops a thread that should have parked by now.
    fn remind(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            if Instant::now() > thread.again {
                thread.patience = (2 * thread.patience).min(LAST_PATIENCE);
                thread.again = Instant::now() + thread.patience;
                let _ = interrupt(tid);
            }
        }
    }

    /// A thread begins or ends a system call: perhaps it reports.
    fn at_call(&mut self, mut stopped: Stopped) -> Result<(), Error> {
        let regs = stopped.registers()?;
        let Some((report::PARKED, address)) = reported(&regs) else {
            return stopped.resume_to_syscall();
        };
        let state = read_state(&mut stopped, address)?;
        skip_call(&mut stopped)?;
        if let Some(thread) = self.threads.get_mut(&stopped.tid()) {
            thread.parked = Some((stopped, state));
        }
        Ok(())
    }

    /// Asks a stopped thread to park.
    fn ask(&mut self, mut stopped: Stopped) -> Result<(), Error> {
        let tid = stopped.tid();
        let Some(thread) = self.threads.get_mut(&tid) else {
            return stopped.resume_to_syscall();
        };
        thread.again = Instant::now() + thread.patience;
        let mut regs = stopped.registers()?;
        let mut call = regs;
        let noted = restart(&mut call, signal_waits(self.pid, tid));
        let interrupted = call.rip != regs.rip;
        let in_call = interrupted && regs.rip == self.boot.syscall_end;
        if !has_area(&mut stopped, &self.boot, regs.gs_base)? {
            return stopped.resume_to_syscall();
        }
        if in_call {
            thread.noted = noted.then_some((regs.orig_rax, true));
            // It cannot overhear this, and another stop could make the kernel forget its note.
            thread.again = Instant::now() + CERTAIN;
            set_bit(&mut stopped, regs.gs_base + self.boot.waiting)?;
            regs.rip = self.boot.abandon;
            regs.orig_rax = u64::MAX;
            stopped.set_registers(&regs)?;
            return stopped.resume_to_syscall();
        }
        if let (true, Some((_, there))) = (noted, &mut thread.noted) {
            // The runtime's own wait has taken the place of the target's.
            *there = false;
        }
        let b = &self.boot;
        let in_runtime = (b.image..b.image_end).contains(&regs.rip) && !(b.found..b.found_end).contains(&regs.rip);
        if in_runtime {
            set_bit(&mut stopped, regs.gs_base + b.waiting)?;
            let sensitive = if (b.resume..b.resume_end).contains(&regs.rip) {
                Some(b.resume)
            } else if (b.syscall..b.syscall_end).contains(&regs.rip) {
                Some(b.abandon)
            } else {
                None
            };
            if let Some(to) = sensitive {
                regs.rip = to;
                stopped.set_registers(&regs)?;
            }
            return stopped.resume_to_syscall();
        }
        let about_to_go_on = regs.rax == libc::SYS_restart_syscall as u64 && thread.spared < MOST_SPARED;
        if about_to_go_on {
            // It is in the runtime in no time.
            thread.spared += 1;
            thread.again = Instant::now() + NAP;
        } else if stopped.signal_mask()? & TRAP_BIT == 0 {
            sys::queue(self.pid, tid, libc::SIGTRAP, PARK)?;
        }
        stopped.resume_to_syscall()
    }

    /// All threads are parked.
    fn finish(mut self) -> Result<Left, Error> {
        let begin = Instant::now();
        let parked = |(_, t): (i32, Leaving)| t.parked.map(|(stopped, state)| (stopped, state, t.noted));
        let mut threads: Vec<_> = std::mem::take(&mut self.threads)
            .into_iter()
            .filter_map(parked)
            .collect();
        let Some((first, state, _)) = threads.first_mut() else {
            return Ok(Left::Ended);
        };
        let (regs, state) = (first.registers()?, *state);
        let at = libc::user_regs_struct {
            rip: self.boot.depart,
            rsp: self.boot.depart_stack,
            ..regs
        };
        let owned = run(first, at, report::DEPARTED)?;
        let ranges = read_owned(first, owned)?;
        let gadget = find_gadget(first);
        unmap(first, registers_of(&state, regs), gadget, &ranges)?;
        let count = threads.len();
        for (mut stopped, mut state, noted) in threads {
            go_on_in_call(&mut stopped, &mut state, noted);
            // A thread that is being killed needs none of this.
            let _ = stopped.set_registers(&registers_of(&state, regs));
            let _ = stopped.set_signal_mask(state.mask);
            let _ = stopped.detach(0);
        }
        Ok(Left::Native {
            threads: count,
            pause: begin.elapsed(),
        })
    }
}

/// A thread in front of a system call that the kernel has a note about goes on with it. If the note
/// is gone the call ends as after a signal.
fn go_on_in_call(stopped: &mut Stopped, state: &mut AppState, noted: Option<(u64, bool)>) {
    let Some((number, there)) = noted else { return };
    let mut code = [0; 2];
    let in_front = stopped.read(state.registers[RIP], &mut code).is_ok() && code == [0x0f, 0x05];
    if !in_front || state.registers[RAX] != number {
        return;
    }
    if there {
        state.registers[RAX] = libc::SYS_restart_syscall as u64;
    } else {
        state.registers[RAX] = EINTR as u64;
        state.registers[RIP] += 2;
    }
}

/// Whether the area that `gs` points to is the thread's own.
fn has_area(stopped: &mut Stopped, boot: &Boot, area: u64) -> Result<bool, Error> {
    let mut bytes = [0; 4];
    if area == 0 || stopped.read(area + boot.tid, &mut bytes).is_err() {
        return Ok(false);
    }
    // As the target's pid namespace has it. A thread's own entry is not listed in /proc, but there.
    Ok(inner_pid(stopped.tid()) == i32::from_le_bytes(bytes))
}

fn set_bit(stopped: &mut Stopped, at: u64) -> Result<(), Error> {
    let mut bytes = [0; 8];
    stopped.read(at, &mut bytes)?;
    let word = u64::from_le_bytes(bytes) | PARK_BIT;
    stopped.write(at, &word.to_le_bytes())
}

fn words_at<const N: usize>(stopped: &mut Stopped, at: u64) -> Result<[u64; N], Error> {
    let mut bytes = vec![0; 8 * N];
    stopped.read(at, &mut bytes)?;
    let mut words = bytes.chunks_exact(8);
    Ok(std::array::from_fn(|_| {
        words
            .next()
            .map_or(0, |b| b.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b)))
    }))
}

fn read_state(stopped: &mut Stopped, at: u64) -> Result<AppState, Error> {
    Ok(AppState::from_words(&words_at::<STATE_WORDS>(stopped, at)?))
}

/// Address and bytes of each range of the runtime's.
fn read_owned(stopped: &mut Stopped, at: u64) -> Result<Vec<(u64, u64)>, Error> {
    let [count] = words_at(stopped, at)?;
    let mut ranges = Vec::new();
    for n in 0..count.min(MOST_OWNED as u64) {
        let [start, end] = words_at(stopped, at + 8 + 16 * n)?;
        ranges.push((start, end - start));
    }
    Ok(ranges)
}
