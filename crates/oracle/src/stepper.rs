//! Drives every thread of the target from stop to stop and reports what each step touched.
//!
//! Problem: besides finished steps, a stepped thread stops for signals, for
//! handlers just entered, for system calls, new threads and exec, and at most of
//! those stops the planned instruction did *not* run. Idea: a plan is made when
//! a thread is resumed and is settled at its very next stop, whose kind says
//! whether the instruction completed:
//!
//! | stop | instruction |
//! |---|---|
//! | SIGTRAP, si_code TRAP_TRACE | completed |
//! | SIGTRAP, si_code TRAP_BRKPT | a restarted system call ran instead; or completed, on a virtual machine that now and then does not say why it stopped: the thread is elsewhere then |
//! | SIGTRAP, si_code SIGTRAP | a handler was entered instead |
//! | any other signal | did not run, or faulted (partly done if piecewise) |
//!
//! Synchronous traps are dequeued before other signals, so a completed step is
//! always reported as such even when a signal came in at the same time.
//!
//! System calls are passed from entry to exit without the trap flag. So the flag
//! never gets into r11, and a call that blocks SIGTRAP meets no trap. The kernel
//! itself keeps the flag out of signal frames; `pushf` is repaired after the step.

use crate::machine::{Regs, RCX};
use crate::plan::{plan, Plan, Touch, Unclassified};
use crate::sys::{self, Launch, RawRegs, Resume, Stopped};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use libc::{c_int, pid_t};
use memtrail_model::{Access, Point, Thread};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub launch: Launch,
    /// Stop, killing the target, after this many accesses.
    pub limit: Option<u64>,
    /// Report only instructions in the main executable's mappings.
    pub only_exe: bool,
}

/// How the first process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    Signaled(i32),
    /// The limit of accesses was reached.
    Limited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    pub ending: Ending,
    pub steps: u64,
    pub accesses: u64,
    pub threads: u32,
}

type Ranges = Rc<Vec<(u64, u64)>>;

struct Task {
    serial: Thread,
    exe: Ranges,
    resumed: Resume,
    /// The instruction the thread was resumed at, unless it is passing a system call.
    pending: Option<Pending>,
    /// Its first stop has been seen.
    started: bool,
}

struct Pending {
    instruction: Instruction,
    /// Not knowing an instruction matters only if it runs: privileged ones fault.
    plan: Result<Plan, Unclassified>,
    before: Regs,
}

struct Session<'a> {
    tasks: HashMap<pid_t, Task>,
    /// New threads that stopped before their creator reported them.
    early: Vec<pid_t>,
    next_serial: u32,
    options: &'a Options,
    sink: &'a mut dyn FnMut(&Access) -> io::Result<()>,
    steps: u64,
    accesses: u64,
    touched: Vec<Touch>,
}

const RSEQ: u64 = 334;
const CLONE3: u64 = 435;
const RT_SIGPROCMASK: u64 = 14;
const TRAP_FLAG: u64 = 1 << 8;
const EVENT_STOP: c_int = 128;

/// Runs `argv` to its end, and all processes it starts, giving each access to `sink`.
pub fn run(argv: &[String], options: &Options, sink: &mut dyn FnMut(&Access) -> io::Result<()>) -> io::Result<Summary> {
    let first = sys::launch(argv, options.launch)?;
    let mut session = Session {
        tasks: HashMap::new(),
        early: Vec::new(),
        next_serial: 0,
        options,
        sink,
        steps: 0,
        accesses: 0,
        touched: Vec::new(),
    };
    session.add_task(first, Ranges::default());
    session.task(first).started = true;
    let ending = session.drive(first)?;
    Ok(Summary {
        ending,
        steps: session.steps,
        accesses: session.accesses,
        threads: session.next_serial,
    })
}

/// A target killed between its stop and our request is not an error: its death is reported next.
fn or_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(e) => Err(e),
    }
}

/// A virtual machine may lose a step now and then. What was run cannot be told then; another time
/// it will be well.
pub const LOST_STEP: &str = "more than one instruction was run in a step";

/// Whether an instruction that has completed can have led to this one. Of those that go anywhere,
/// it can; and after a load of SS, one more runs.
fn leads_to(done: &Instruction, pc: u64) -> bool {
    if done.op0_register() == Register::SS {
        return true;
    }
    let next = pc == done.next_ip();
    match done.flow_control() {
        // Those that repeat stay where they are.
        FlowControl::Next => next || pc == done.ip(),
        FlowControl::ConditionalBranch => next || pc == done.near_branch_target(),
        FlowControl::UnconditionalBranch | FlowControl::Call => pc == done.near_branch_target(),
        _ => true,
    }
}

fn would_restart(regs: &RawRegs) -> bool {
    const RESTARTS: [i64; 4] = [-512, -513, -514, -516];
    regs.0.orig_rax as i64 >= 0 && RESTARTS.contains(&(regs.0.rax as i64))
}

impl Session<'_> {
    fn task(&mut self, tid: pid_t) -> &mut Task {
        self.tasks
            .get_mut(&tid)
            .expect("a stop is handled only for a known thread")
    }

    fn add_task(&mut self, tid: pid_t, exe: Ranges) {
        let serial = Thread(self.next_serial);
        self.next_serial += 1;
        self.tasks.insert(
            tid,
            Task {
                serial,
                exe,
                resumed: Resume::ToSyscall,
                pending: None,
                started: false,
            },
        );
    }

    fn drive(&mut self, first: pid_t) -> io::Result<Ending> {
        let mut ending = Ending::Exited(0);
        while !self.tasks.is_empty() {
            if self.options.limit.is_some_and(|limit| self.accesses >= limit) {
                self.tasks.keys().for_each(|&tid| sys::kill(tid));
                return Ok(Ending::Limited);
            }
            let (tid, status) = sys::wait_any()?;
            if libc::WIFSTOPPED(status) {
                if self.tasks.contains_key(&tid) {
                    or_gone(self.stopped(tid, status))?;
                } else {
                    self.early.push(tid);
                }
                continue;
            }
            self.tasks.remove(&tid);
            if tid == first {
                ending = if libc::WIFSIGNALED(status) {
                    Ending::Signaled(libc::WTERMSIG(status))
                } else {
                    Ending::Exited(libc::WEXITSTATUS(status))
                };
            }
        }
        Ok(ending)
    }

    fn stopped(&mut self, tid: pid_t, status: c_int) -> io::Result<()> {
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            0 if signal == libc::SIGTRAP | 0x80 => self.at_syscall(tid),
            0 => self.at_signal(tid, signal),
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => self.at_birth(tid),
            libc::PTRACE_EVENT_EXEC => self.at_exec(tid),
            EVENT_STOP => self.at_event_stop(tid, signal),
            _ => self.go_on(tid),
        }
    }

    fn go_on(&mut self, tid: pid_t) -> io::Result<()> {
        let how = self.task(tid).resumed;
        sys::resume(tid, how, 0)
    }

    /// The creator's stop inside fork, vfork or clone.
    fn at_birth(&mut self, tid: pid_t) -> io::Result<()> {
        let child = sys::event_message(tid)? as pid_t;
        let exe = self.task(tid).exe.clone();
        self.add_task(child, exe);
        if let Some(at) = self.early.iter().position(|&t| t == child) {
            self.early.swap_remove(at);
            self.task(child).started = true;
            or_gone(self.advance(child, 0))?;
        }
        self.go_on(tid)
    }

    fn at_exec(&mut self, tid: pid_t) -> io::Result<()> {
        let former = sys::event_message(tid)? as pid_t;
        if former != tid {
            // The executing thread takes over the leader's id; the leader is gone without a word.
            if let Some(task) = self.tasks.remove(&former) {
                self.tasks.insert(tid, task);
            }
        }
        let exe = Rc::new(executable_ranges(tid)?);
        let task = self.task(tid);
        task.exe = exe;
        task.pending = None;
        task.resumed = Resume::ToSyscall;
        self.go_on(tid)
    }

    fn at_event_stop(&mut self, tid: pid_t, signal: c_int) -> io::Result<()> {
        let job_control = matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        let task = self.task(tid);
        if !task.started {
            task.started = true;
            return self.advance(tid, 0);
        }
        if job_control {
            return sys::resume(tid, Resume::Listen, 0);
        }
        self.go_on(tid)
    }

    fn at_syscall(&mut self, tid: pid_t) -> io::Result<()> {
        if sys::at_syscall_entry(tid)? {
            return self.go_on(tid);
        }
        let raw = sys::get_regs(tid)?;
        if would_restart(&raw) {
            // Either a signal or the same call again comes next, never an instruction.
            return self.go_on(tid);
        }
        if raw.0.orig_rax == RT_SIGPROCMASK || raw.0.orig_rax as i64 == -1 {
            sys::unblock_sigtrap(tid)?;
        }
        self.advance(tid, 0)
    }

    fn at_signal(&mut self, tid: pid_t, signal: c_int) -> io::Result<()> {
        const TRAP_BRKPT: c_int = 1;
        const TRAP_TRACE: c_int = 2;
        let code = if signal == libc::SIGTRAP {
            sys::signal_code(tid)?
        } else {
            0
        };
        match (signal, code) {
            (libc::SIGTRAP, TRAP_TRACE) => {
                self.steps += 1;
                let done = self.task(tid).pending.as_ref().map(|pending| pending.instruction);
                let pc = sys::get_regs(tid)?.0.rip;
                if let Some(done) = done.filter(|done| !leads_to(done, pc)) {
                    let message = format!("{LOST_STEP}: from {:#x} to {pc:#x}", done.ip());
                    return Err(io::Error::other(message));
                }
                self.settle(tid, true)?;
                self.advance(tid, 0)
            }
            (libc::SIGTRAP, TRAP_BRKPT) if self.has_run(tid)? => {
                self.steps += 1;
                self.settle(tid, true)?;
                self.advance(tid, 0)
            }
            (libc::SIGTRAP, TRAP_BRKPT) => {
                let mut raw = sys::get_regs(tid)?;
                raw.0.r11 &= !TRAP_FLAG;
                sys::set_regs(tid, &raw)?;
                if would_restart(&raw) {
                    self.task(tid).resumed = Resume::ToSyscall;
                    self.task(tid).pending = None;
                    return self.go_on(tid);
                }
                self.advance(tid, 0)
            }
            (libc::SIGTRAP, libc::SIGTRAP) => {
                sys::unblock_sigtrap(tid)?;
                self.advance(tid, 0)
            }
            _ => {
                self.settle(tid, false)?;
                self.advance(tid, signal)
            }
        }
    }

    /// Whether the planned instruction has run, by where the thread is now.
    fn has_run(&mut self, tid: pid_t) -> io::Result<bool> {
        let now = sys::get_regs(tid)?.0;
        Ok(self.task(tid).pending.as_ref().is_some_and(|pending| {
            let (done, before) = (&pending.instruction, &pending.before);
            let repeats = done.has_rep_prefix() || done.has_repne_prefix();
            match now.rip == done.ip() {
                true => repeats && now.rcx != before.gpr[RCX],
                false => leads_to(done, now.rip),
            }
        }))
    }

    fn settle(&mut self, tid: pid_t, completed: bool) -> io::Result<()> {
        let Some(pending) = self.task(tid).pending.take() else {
            return Ok(());
        };
        let plan = match pending.plan {
            Ok(plan) => plan,
            Err(unknown) if completed => return Err(io::Error::other(unknown)),
            Err(_) => return Ok(()),
        };
        let pushes_flags = matches!(pending.instruction.mnemonic(), Mnemonic::Pushf | Mnemonic::Pushfq);
        self.touched.clear();
        let mut after = pending.before;
        if plan.piecewise() {
            after = sys::get_regs(tid)?.regs();
        }
        plan.settle(completed, &after, &Stopped(tid), &mut self.touched);
        if completed && pushes_flags && pending.before.rflags & TRAP_FLAG == 0 {
            sys::clear_bits(tid, self.touched[0].addr + 1, (TRAP_FLAG >> 8) as u8)?;
        }
        let task = &self.tasks[&tid];
        let pc = pending.before.rip;
        if self.options.only_exe && !task.exe.iter().any(|&(start, end)| (start..end).contains(&pc)) {
            return Ok(());
        }
        for touch in &self.touched {
            if self.options.limit.is_some_and(|limit| self.accesses >= limit) {
                break;
            }
            self.accesses += 1;
            let Touch { kind, addr, size } = *touch;
            (self.sink)(&Access {
                thread: task.serial,
                pc,
                kind,
                addr,
                size,
                point: Point::NONE,
            })?;
        }
        Ok(())
    }

    /// Plans the instruction the thread stands at and lets it run.
    fn advance(&mut self, tid: pid_t, signal: c_int) -> io::Result<()> {
        let mut raw = sys::get_regs(tid)?;
        let mut instruction = fetch(tid, raw.0.rip);
        while signal == 0 && instruction.code() == Code::Syscall {
            if !matches!(raw.0.rax, RSEQ | CLONE3) {
                let task = self.task(tid);
                task.pending = None;
                task.resumed = Resume::ToSyscall;
                return sys::resume(tid, Resume::ToSyscall, 0);
            }
            refuse_syscall(tid, &mut raw)?;
            instruction = fetch(tid, raw.0.rip);
        }
        let before = raw.regs();
        let plan = plan(&instruction, &before, &Stopped(tid));
        let task = self.task(tid);
        task.pending = Some(Pending {
            instruction,
            plan,
            before,
        });
        task.resumed = Resume::Step;
        sys::resume(tid, Resume::Step, signal)
    }
}

fn fetch(tid: pid_t, pc: u64) -> Instruction {
    let mut bytes = [0u8; 15];
    let got = sys::read_some(tid, pc, &mut bytes);
    // Fewer bytes than an instruction needs decode as invalid: running them will fault.
    Decoder::with_ip(64, &bytes[..got], pc, DecoderOptions::NONE).decode()
}

/// Does what the kernel would do if it did not know the call.
///
/// The recorder refuses the same calls, so that both runs take the same path through libc.
fn refuse_syscall(tid: pid_t, raw: &mut RawRegs) -> io::Result<()> {
    raw.0.rip += 2;
    raw.0.rcx = raw.0.rip;
    raw.0.r11 = raw.0.eflags & !TRAP_FLAG;
    raw.0.rax = -i64::from(libc::ENOSYS) as u64;
    raw.0.orig_rax = u64::MAX;
    sys::set_regs(tid, raw)
}

/// Mappings of the file the process executes.
fn executable_ranges(pid: pid_t) -> io::Result<Vec<(u64, u64)>> {
    let exe = std::fs::read_link(format!("/proc/{pid}/exe"))?;
    let exe = exe.to_string_lossy().into_owned();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let range = |line: &str| {
        let path_at = line.find('/')?;
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        (line[path_at..] == *exe).then_some((start, end))
    };
    Ok(maps.lines().filter_map(range).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_step_is_noticed() {
        let at = |bytes: &[u8]| Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        let leads = |bytes: &[u8]| [0x1000, 0x1001, 0x1002, 0x1003, 0x1012].map(|pc| leads_to(&at(bytes), pc));
        // push r12: two bytes; rep movsb may stay where it is.
        assert_eq!(leads(&[0x41, 0x54]), [true, false, true, false, false]);
        assert_eq!(leads(&[0xf3, 0xa4]), [true, false, true, false, false]);
        // jne and jmp by 16; ret; mov ss, ax.
        assert_eq!(leads(&[0x75, 0x10]), [false, false, true, false, true]);
        assert_eq!(leads(&[0xeb, 0x10]), [false, false, false, false, true]);
        assert_eq!(leads(&[0xc3]), [true; 5]);
        assert_eq!(leads(&[0x8e, 0xd0]), [true; 5]);
    }
}
