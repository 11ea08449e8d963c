//! Call paths against a machine that knows them: programs of calls, returns, jumps up the stack,
//! huge frames, coroutines and signal handlers.
use memtrail_analyze::calls::Calls;
use memtrail_analyze::Tree;
use memtrail_model::{Flow, Thread};
use proptest::prelude::*;

const MAIN: u64 = 0x7ffd_0000_0000;
const COROUTINES: u64 = 0x7f00_0000_0000;
const ALTERNATE: u64 = 0x5000_0000_0000;
/// Between the tops of two coroutines' stacks.
const APART: u64 = 256 << 10;

/// A function that is being executed: its call, and where its frame begins.
#[derive(Clone, Copy)]
struct Active {
    site: u64,
    slot: u64,
}

/// A coroutine, the thread itself, or a handler.
#[derive(Clone)]
struct Context {
    /// The calls before the first one on this stack.
    base: Vec<u64>,
    active: Vec<Active>,
    rsp: u64,
}

impl Context {
    fn path(&self) -> Vec<u64> {
        let calls = self.active.iter().map(|a| a.site);
        self.base.iter().copied().chain(calls).collect()
    }
}

struct Machine {
    calls: Calls,
    /// Those that are not running.
    resting: Vec<Option<Context>>,
    running: usize,
    now: Context,
    /// What handlers interrupted.
    interrupted: Vec<Context>,
}

/// No site twice: back to where it was first.
fn folded(path: &[u64]) -> Vec<u64> {
    let mut folded: Vec<u64> = Vec::new();
    for &site in path {
        match folded.iter().position(|&known| known == site) {
            Some(at) => folded.truncate(at + 1),
            None => folded.push(site),
        }
    }
    folded
}

impl Machine {
    fn new() -> Machine {
        Machine {
            calls: Calls::new(),
            resting: vec![None; 5],
            running: 0,
            now: Context {
                base: Vec::new(),
                active: Vec::new(),
                rsp: MAIN,
            },
            interrupted: Vec::new(),
        }
    }

    fn flow(&mut self, flow: Flow) {
        self.calls.flows(Thread(0), flow);
    }

    fn call(&mut self, site: u64, locals: u64) {
        let slot = self.now.rsp - locals - 8;
        self.now.rsp = slot;
        self.now.active.push(Active { site, slot });
        self.flow(Flow::Call { site, target: 0, slot });
    }

    fn ret(&mut self, leave: bool) {
        let Some(left) = self.now.active.pop() else { return };
        // What brings the stack pointer back is told only if a block ends with it.
        if leave {
            self.flow(Flow::Stack { rsp: left.slot });
        }
        self.now.rsp = left.slot + 8;
        self.flow(Flow::Return { slot: left.slot });
    }

    /// Up the stack to the function that has so many active ones below it.
    fn jump(&mut self, depth: usize) {
        if depth >= self.now.active.len() {
            return;
        }
        self.now.rsp = self.now.active[depth].slot + 8;
        self.now.active.truncate(depth);
        self.flow(Flow::Stack { rsp: self.now.rsp });
    }

    fn align(&mut self, bytes: u64) {
        self.now.rsp = (self.now.rsp - bytes) & !63;
        self.flow(Flow::Stack { rsp: self.now.rsp });
    }

    /// Switches that are not told are known from the return, or the call, that follows.
    fn switch(&mut self, to: usize, ends: bool, told: bool) {
        if to == self.running || !self.interrupted.is_empty() {
            return;
        }
        let ends = ends && self.running != 0;
        if ends {
            self.jump(0);
        } else {
            self.call(0x777, 16);
        }
        let path = self.now.path();
        let mut left = self.now.clone();
        left.rsp -= 48;
        self.resting[self.running] = (!ends).then_some(left);
        self.running = to;
        match self.resting[to].take() {
            Some(context) => {
                self.now = context;
                if told {
                    self.flow(Flow::Stack { rsp: self.now.rsp });
                }
                self.now.rsp += 48;
                self.ret(false);
            }
            None => {
                let rsp = COROUTINES + to as u64 * APART - 8;
                self.now = Context {
                    base: path,
                    active: Vec::new(),
                    rsp,
                };
                match told {
                    true => self.flow(Flow::Stack { rsp }),
                    false => self.call(0x888, 0),
                }
            }
        }
    }

    fn signal(&mut self, number: u32, alternate: bool) {
        if self.interrupted.len() > 2 {
            return;
        }
        let mut base = self.now.path();
        base.push(Tree::signal_site(number));
        let on_alternate = self.now.rsp <= ALTERNATE;
        let rsp = match alternate && !on_alternate {
            true => ALTERNATE,
            false => (self.now.rsp - 128 - 1200) & !15,
        };
        let handler = Context {
            base,
            active: Vec::new(),
            rsp: rsp - 8,
        };
        self.interrupted.push(std::mem::replace(&mut self.now, handler));
        self.flow(Flow::Signal { number });
    }

    fn signal_return(&mut self) {
        if let Some(context) = self.interrupted.pop() {
            self.now = context;
            self.flow(Flow::SignalReturn);
        }
    }

    /// Out of a handler, to a function that it interrupted.
    fn jump_out(&mut self, depth: usize) {
        if self
            .interrupted
            .last()
            .is_none_or(|context| depth >= context.active.len())
        {
            return;
        }
        if let Some(context) = self.interrupted.pop() {
            self.now = context;
            self.jump(depth);
        }
    }

    fn step(&mut self, what: u8, a: u8, b: u8) {
        match what {
            0..=7 if self.now.active.len() < 40 => self.call(0x400 + u64::from(a % 7), u64::from(b) * 8),
            8..=12 => self.ret(b % 2 == 0),
            13 => self.jump(usize::from(a) % self.now.active.len().max(1)),
            14 => self.switch(usize::from(a % 5), b % 4 == 0, b & 8 == 0),
            15 => self.signal(u32::from(a % 3), b % 2 == 0),
            16 => self.signal_return(),
            17 => self.jump_out(usize::from(a % 16)),
            18 if self.running == 0 && self.interrupted.is_empty() && self.now.active.len() < 40 => {
                self.call(0x500, 8);
                self.align((70 << 10) + u64::from(b) * 128);
            }
            _ => {}
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let node = self.calls.node(Thread(0));
        prop_assert_eq!(self.calls.path(node), folded(&self.now.path()));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn paths_are_those_of_the_machine(steps in prop::collection::vec((0u8..19, any::<u8>(), any::<u8>()), 1..200)) {
        let mut machine = Machine::new();
        for (what, a, b) in steps {
            machine.step(what, a, b);
            machine.check()?;
        }
    }
}

fn call(site: u64, slot: u64) -> Flow {
    Flow::Call { site, target: 0, slot }
}

fn at(calls: &Calls) -> Vec<u64> {
    calls.path(calls.node(Thread(0)))
}

#[test]
fn recursion_is_one_node() {
    let mut calls = Calls::new();
    for depth in 0..100_000u64 {
        let site = if depth == 0 { 1 } else { 2 + depth % 2 };
        calls.flows(Thread(0), call(site, MAIN - 16 * depth));
    }
    assert_eq!(at(&calls), [1, 3], "2 is after 3, and 3 after 2: back to the first 3");
    assert_eq!(calls.tree().len(), 4);
    for depth in (2..100_000u64).rev() {
        calls.flows(
            Thread(0),
            Flow::Return {
                slot: MAIN - 16 * depth,
            },
        );
    }
    assert_eq!(at(&calls), [1, 3], "one call of each is left");
    calls.flows(Thread(0), Flow::Return { slot: MAIN - 16 });
    assert_eq!(at(&calls), [1]);
}

#[test]
fn a_call_that_is_never_returned_from_is_gone_with_the_next() {
    let mut calls = Calls::new();
    calls.flows(Thread(0), call(1, MAIN));
    // How position-independent code finds out where it is: call, pop.
    calls.flows(Thread(0), call(2, MAIN - 64));
    calls.flows(Thread(0), call(3, MAIN - 64));
    assert_eq!(at(&calls), [1, 3]);
}

#[test]
fn threads_have_their_own_place_in_one_tree() {
    let mut calls = Calls::new();
    calls.flows(Thread(0), call(1, MAIN));
    calls.flows(Thread(7), call(1, MAIN - 0x1000));
    calls.flows(Thread(7), call(2, MAIN - 0x1100));
    assert_eq!(calls.node(Thread(3)), Tree::ROOT);
    assert_eq!(calls.path(calls.node(Thread(7))), [1, 2]);
    assert_eq!(at(&calls), [1]);
    assert_eq!(calls.tree().len(), 3);
}

#[test]
fn a_full_tree_keeps_callees_with_their_caller() {
    let mut calls = Calls::with_limit(3);
    for depth in 0..5 {
        calls.flows(Thread(0), call(depth, MAIN - 16 * depth));
    }
    assert_eq!(at(&calls), [0, 1]);
    assert_eq!(calls.tree().cut_off(), 3);
}

#[test]
fn handlers_that_never_return_are_not_kept() {
    let mut calls = Calls::new();
    calls.flows(Thread(0), call(1, MAIN));
    for _ in 0..10_000 {
        calls.flows(Thread(0), call(2, MAIN - 64));
        calls.flows(Thread(0), Flow::Signal { number: 11 });
        calls.flows(Thread(0), call(3, ALTERNATE));
        assert_eq!(at(&calls), [1, 2, Tree::signal_site(11), 3]);
        calls.flows(Thread(0), Flow::Stack { rsp: MAIN - 56 });
        assert_eq!(at(&calls), [1]);
    }
    assert_eq!(Tree::signal_of(Tree::signal_site(11)), Some(11));
    assert_eq!(Tree::signal_of(MAIN), None);
    assert_eq!(calls.tree().len(), 5);
}
