//! A signal at every step of a guest, one run for each: of the translated code, and of the runtime on the way to it.
//!
//! `guests/signal_at_every_step.c` goes once more through a stretch of code that it has been through before. Natively,
//! single-stepped, that gives the states that there are between two instructions. Under the recorder there are more
//! steps, `n` of them are made, and a signal is sent. The handler must have found one of those states, a later one for a
//! later step; the guest must end as ever; and the recording must hold the same accesses of the stretch, with those of
//! the handler between the very two that the state is between.

use memtrail_tests::compare::{parse, Line};
use memtrail_tests::guest::{self, Guest};
use memtrail_tests::run::{self, Configuration, Probes, Seen, Started};
use memtrail_tests::step::{is_system_call, pushes_flags, Stepper};
use memtrail_tests::tools;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How often the guest goes through the stretch.
const PASSES: usize = 16;
/// Signals are sent at the first steps of a run, which hold the stretch. Where paths are joined eagerly, the system call
/// behind it takes some 49,000 more.
const MOST_STEPS: usize = 1_100;
/// A virtual machine may lose a step. This many times in a row it is no accident.
const TRIES: usize = 5;
/// Carry, parity, adjust, zero, sign, direction, overflow.
const FLAGS: u64 = 0xcd5;
const RIP: usize = 16;

/// Registers in the order of the kernel's signal frame: the general ones, rip, the flags.
type State = [u64; 18];

fn state(r: &libc::user_regs_struct) -> State {
    [
        r.r8,
        r.r9,
        r.r10,
        r.r11,
        r.r12,
        r.r13,
        r.r14,
        r.r15,
        r.rdi,
        r.rsi,
        r.rbp,
        r.rbx,
        r.rdx,
        r.rax,
        r.rcx,
        r.rsp,
        r.rip,
        r.eflags & FLAGS,
    ]
}

/// The words of a line of the guest, behind its name.
fn words(line: &str, name: &str) -> Option<Vec<u64>> {
    let words = line.strip_prefix(name)?.split_whitespace();
    words.map(|word| u64::from_str_radix(word, 16).ok()).collect()
}

/// Where the stretch and the handler lie, as the guest's first line tells.
#[derive(Clone, PartialEq, Debug)]
struct Places {
    stretch: Range<u64>,
    handler: Range<u64>,
}

fn places(line: &str) -> Result<Places, String> {
    match words(line, "places").as_deref() {
        Some(&[a, b, c, d]) => Ok(Places {
            stretch: a..b,
            handler: c..d,
        }),
        _ => Err(format!("the guest does not tell its places: {line}")),
    }
}

/// The steps from where the byte was read to the system call that ends them.
#[derive(Default)]
struct Walk {
    states: Vec<State>,
    pushing_flags: BTreeSet<usize>,
}

fn walk(started: &mut Started) -> Result<Walk, String> {
    let say = |e: std::io::Error| e.to_string();
    let stepper = Stepper::seize(started.pid).map_err(say)?;
    started.give_byte()?;
    stepper.run_to_read().map_err(say)?;
    let mut walk = Walk::default();
    loop {
        let registers = stepper.registers().map_err(say)?;
        let code = stepper.code(registers.rip).map_err(say)?;
        if is_system_call(code) && registers.rax == libc::SYS_getppid as u64 {
            stepper.release().map_err(say)?;
            return Ok(walk);
        }
        if pushes_flags(code) {
            walk.pushing_flags.insert(walk.states.len());
        }
        walk.states.push(state(&registers));
        stepper.step(pushes_flags(code)).map_err(say)?;
    }
}

/// What every run must agree with.
struct Truth {
    places: Places,
    seen: Seen,
    /// The states within the stretch, in order.
    states: Vec<State>,
    index: HashMap<State, usize>,
}

fn truth(guest: &Guest) -> Result<Truth, String> {
    let mut started = Started::new(guest, None)?;
    let places = places(&started.first_line)?;
    let mut states = walk(&mut started)?.states;
    states.retain(|s| places.stretch.contains(&s[RIP]));
    let index: HashMap<State, usize> = states.iter().enumerate().map(|(k, s)| (*s, k)).collect();
    assert_eq!(index.len(), states.len(), "a state tells how far the stretch has got");
    Ok(Truth {
        places,
        seen: started.finish()?.0,
        states,
        index,
    })
}

/// One configuration of the recorder: what it does if nothing interrupts it.
struct Subject<'t> {
    guest: &'t Guest,
    truth: &'t Truth,
    configuration: Configuration,
    trace: PathBuf,
    walk: Walk,
    /// Accesses of the stretch, of all passes.
    accesses: Vec<Line>,
    /// For each state, the accesses of the last pass before it.
    before: Vec<usize>,
}

/// Accesses by the stretch, and how many of them come before the first by the handler.
fn accesses(trace: &Path, places: &Places) -> Result<(Vec<Line>, Option<usize>), String> {
    let streams = parse(run::dump(trace, &[])?.as_bytes())?;
    let [all] = streams
        .into_values()
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "not one thread")?;
    let of_stretch = |line: &Line| places.stretch.contains(&line.pc);
    let first = all.iter().position(|line| places.handler.contains(&line.pc));
    let before = first.map(|at| all[..at].iter().filter(|l| of_stretch(l)).count());
    Ok((all.into_iter().filter(of_stretch).collect(), before))
}

/// The accesses before each state, from how many each instruction makes each time.
fn accesses_before(states: &[State], pass: &[Line]) -> Result<Vec<usize>, String> {
    let mut times = HashMap::<u64, (usize, usize)>::new();
    states.iter().for_each(|s| times.entry(s[RIP]).or_default().0 += 1);
    for line in pass {
        times.get_mut(&line.pc).ok_or(format!("{:#x} was never at", line.pc))?.1 += 1;
    }
    if let Some((pc, (steps, n))) = times.iter().find(|(_, (steps, n))| n % steps != 0) {
        return Err(format!("{n} accesses in {steps} steps of {pc:#x}"));
    }
    let mut sum = 0;
    let before = states.iter().map(|s| {
        let (steps, n) = times[&s[RIP]];
        sum += n / steps;
        sum - n / steps
    });
    Ok(before.collect())
}

impl<'t> Subject<'t> {
    fn new(guest: &'t Guest, truth: &'t Truth, configuration: Configuration) -> Result<Subject<'t>, String> {
        let trace = tools::work_directory().join(format!("{}.{}.steps.mtr", guest.name, configuration.name()));
        let mut started = Started::new(guest, Some((configuration, &trace)))?;
        assert_eq!(places(&started.first_line)?, truth.places);
        let walk = walk(&mut started)?;
        let (seen, stderr) = started.finish()?;
        assert_eq!(seen, truth.seen, "{stderr}");
        let (accesses, handled) = accesses(&trace, &truth.places)?;
        assert_eq!(handled, None, "nothing was sent");
        let pass = accesses.len() / PASSES;
        for at in 0..PASSES {
            assert_eq!(accesses[at * pass..(at + 1) * pass], accesses[..pass], "pass {at}");
        }
        let before = accesses_before(&truth.states, &accesses[..pass])?;
        Ok(Subject {
            guest,
            truth,
            configuration,
            trace,
            walk,
            accesses,
            before,
        })
    }

    /// Starts a run and makes `n` steps. `None` if these led elsewhere than without a signal.
    fn after_steps(&self, n: usize) -> Result<Option<(Started, Stepper)>, String> {
        let say = |e: std::io::Error| format!("{n} steps: {e}");
        let mut started = Started::new(self.guest, Some((self.configuration, &self.trace)))?;
        let stepper = Stepper::seize(started.pid).map_err(say)?;
        started.give_byte()?;
        stepper.run_to_read().map_err(say)?;
        for i in 0..n {
            stepper.step(self.walk.pushing_flags.contains(&i)).map_err(say)?;
        }
        let there = stepper.registers().map_err(say)?.rip == self.walk.states[n][RIP];
        Ok(there.then_some((started, stepper)))
    }

    /// Sends the signal after `n` steps. The state that the handler found, as its index if it is one of the stretch.
    fn interrupted(&self, n: usize) -> Result<(State, Option<usize>), String> {
        let mut there = self.after_steps(n)?;
        for _ in 1..TRIES {
            if there.is_some() {
                break;
            }
            there = self.after_steps(n)?;
        }
        let (started, stepper) = there.ok_or("the steps lead elsewhere each time")?;
        stepper.interrupt_with(libc::SIGUSR1).map_err(|e| e.to_string())?;
        let (seen, stderr) = started.finish()?;
        let stdout = String::from_utf8_lossy(&seen.stdout).into_owned();
        let at = stdout.find("interrupted").ok_or("no signal was handled")?;
        if seen.status != 0 || seen.stdout[..at] != self.truth.seen.stdout[..] {
            return Err(format!("status {}, {stdout}{stderr}", seen.status));
        }
        let found = words(&stdout[at..], "interrupted").and_then(|w| State::try_from(w).ok());
        let mut found = found.ok_or_else(|| format!("not one signal: {stdout}"))?;
        found[17] &= FLAGS;
        let index = self.truth.index.get(&found).copied();
        if index.is_none() && self.truth.places.stretch.contains(&found[RIP]) {
            return Err(format!("a state that never was: {}", self.nearest(&found)));
        }
        self.same_accesses(index)
            .map_err(|why| format!("at {:#x}: {why}", found[RIP]))?;
        Ok((found, index))
    }

    /// A wrong state, and the right one at its place that has most in common with it.
    fn nearest(&self, found: &State) -> String {
        let there = self.truth.states.iter().filter(|s| s[RIP] == found[RIP]);
        let common = |s: &&State| s.iter().zip(found).filter(|(a, b)| a == b).count();
        format!("{found:x?}, nearest {:x?}", there.max_by_key(common))
    }

    /// Whether the accesses of the stretch are the same, with those of the handler at their place.
    fn same_accesses(&self, index: Option<usize>) -> Result<(), String> {
        let (accesses, handled) = accesses(&self.trace, &self.truth.places)?;
        if accesses != self.accesses {
            let at = accesses.iter().zip(&self.accesses).take_while(|(a, b)| a == b).count();
            let (a, b) = (accesses.get(at), self.accesses.get(at));
            return Err(format!("access {at} of the stretch is {a:x?} and not {b:x?}"));
        }
        let handled = handled.ok_or("no access of the handler was recorded")?;
        let pass = accesses.len() / PASSES;
        let due = index.map(|k| (PASSES - 1) * pass + self.before[k]);
        match due {
            Some(due) if due != handled => Err(format!("{handled} accesses before the handler's, not {due}")),
            _ => Ok(()),
        }
    }
}

fn guest() -> Guest {
    let mut all = guest::all().unwrap_or_else(|why| panic!("{why}"));
    all.retain(|g| g.name == "signal_at_every_step");
    all.pop().expect("the guest is there")
}

/// Interrupts the guest at every step.
fn every_step(probes: Probes) {
    let configuration = Configuration {
        probes,
        max_block: None,
    };
    let guest = guest();
    let truth = truth(&guest).unwrap_or_else(|why| panic!("{why}"));
    let subject = Subject::new(&guest, &truth, configuration).unwrap_or_else(|why| panic!("{why}"));
    let steps = subject.walk.states.len().min(MOST_STEPS);
    let (mut failures, mut met, mut latest) = (Vec::new(), BTreeSet::new(), None);
    for n in 0..steps {
        let here = subject.walk.states[n][RIP];
        match subject.interrupted(n) {
            Err(why) => failures.push(format!("step {n}, at {here:#x}: {why}")),
            Ok((found, Some(k))) => {
                if latest > Some(k) {
                    failures.push(format!(
                        "step {n}, at {here:#x}: {:#x} comes before {latest:?}",
                        found[RIP]
                    ));
                }
                latest = Some(k);
                met.insert(k);
            }
            Ok((_, None)) => {}
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {steps}:\n{}",
        failures.len(),
        failures.join("\n")
    );
    // A direct jump needs no instruction where its target follows at once: the last of the stretch can be met nowhere.
    let missed: Vec<usize> = (0..truth.states.len()).filter(|k| !met.contains(k)).collect();
    assert_eq!(missed, [truth.states.len() - 1], "states that no signal met");
    assert!(truth.states.len() >= 200, "the stretch is longer than that");
    let _ = std::fs::remove_file(&subject.trace);
}

#[test]
fn loops() {
    every_step(Probes::Loop);
}

#[test]
fn blocks() {
    every_step(Probes::Block);
}

#[test]
fn naive() {
    every_step(Probes::Naive);
}

#[test]
fn paths() {
    every_step(Probes::Paths);
}
