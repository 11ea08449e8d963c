//! An independent check of state recovery, as regalloc2 has one of register allocation.
//!
//! A random program runs twice on an interpreter: the original code, and the code that the emitter
//! makes of it. At every instruction boundary of the emitted code the state is recovered by the
//! very function that the signal handler uses. It must be the state of the original program, memory
//! included; and the records, settled as the signal handler would settle them, must tell exactly
//! the accesses that the original program has made until then.
mod cache;
mod machine;
mod mutation;
mod program;
mod records;

use crate::analyze::Options;
use crate::emit::{Entry, LinkKind, Recorded, Site, SitePc};
use crate::layout as at;
use crate::recover::{Saved, Settle};
use cache::{Cache, Original, Translator, AREA, BUFFER, INDIRECT_MISS, LEAVE, RETURN_MISS};
use iced_x86::Code;
use machine::{Machine, Memory, State, Step, R15, RCX, RDI, RSI, RSP};
use memtrail_ring::{record, Probes};
use program::{program, Rng};
use records::{Known, Reader};
use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec::Vec;

const RDX: usize = 2;

/// What was met, and how often.
type Seen = BTreeMap<&'static str, usize>;

/// Most instruction boundaries of emitted code that are looked at in one program.
const BOUNDARIES: usize = 800;

struct Checker<'p> {
    original: Machine<Original<'p>>,
    translated: Machine<Cache>,
    translator: Translator<'p>,
    rng: Rng,
    /// Everything before this word of the buffer, and this access of the original, is settled.
    words: usize,
    accesses: usize,
    reader: Reader,
    /// The original is inside a repeated string instruction.
    inside: bool,
    seen: &'p mut Seen,
}

/// Runs the program that `seed` determines. Returns what is wrong, if anything.
fn check(seed: u64, seen: &mut Seen) -> Result<(), String> {
    let program = program(seed);
    let mut rng = Rng::new(!seed);
    let probes = rng.pick(&[Probes::Loop, Probes::Loop, Probes::Block, Probes::Naive, Probes::None]);
    let max_block = rng.pick(&[64, 64, 64, 3, 1]);
    let far = rng.once_in(3);
    let cache_at = program.base + if far { 0x10_0000_0000 } else { 0x1000_0000 };
    let (fs, gs) = (rng.next(), rng.next());
    let memory = Memory::new(rng.next(), program.labels.clone());
    let mut state = State {
        pc: program.labels[0],
        regs: [0; 16],
        flags: rng.next() & 0x8d5 | 0x202,
    };
    state.regs.iter_mut().for_each(|r| *r = rng.next());
    let bus = Original {
        program: &program,
        memory: memory.clone(),
    };
    let original = Machine::new(state, fs, gs, bus);
    let mut cache = Cache::new(memory, cache_at);
    cache.set_cell(at::APP_R15, state.regs[R15]);
    cache.set_cell(at::APP_GS, gs);
    state.regs[R15] = BUFFER;
    let mut checker = Checker {
        reader: Reader::new([state.regs[RSP], fs, gs]),
        original,
        translated: Machine::new(state, fs, AREA, cache),
        translator: Translator::new(&program, Options { probes, max_block }),
        rng,
        words: 0,
        accesses: 0,
        inside: false,
        seen,
    };
    checker.run().map_err(|e| format!("program {seed}, {probes:?}: {e}"))
}

impl Checker<'_> {
    fn run(&mut self) -> Result<(), String> {
        let mut go_on = self.enter(Entry::Direct);
        for _ in 0..BOUNDARIES {
            if !go_on {
                break;
            }
            let pc = self.translated.state.pc;
            self.boundary().map_err(|e| format!("at {pc:x} of emitted code: {e}"))?;
            if self.translated.step() == Step::Nowhere {
                return Err(format!("emitted code goes nowhere after {pc:x}"));
            }
            go_on = self
                .dispatch()
                .map_err(|e| format!("after {pc:x} of emitted code: {e}"))?;
        }
        Ok(())
    }

    fn saw(&mut self, what: &'static str, is: bool) {
        *self.seen.entry(what).or_default() += usize::from(is);
    }

    /// Go on with the translation of what the original runs next. False if that is no code.
    fn enter(&mut self, entry: Entry) -> bool {
        let (cache, rng) = (&mut self.translated.bus, &mut self.rng);
        match self.translator.enter(&self.original, entry, cache, rng) {
            Some(head) => {
                self.translated.state.pc = head;
                true
            }
            None => false,
        }
    }

    /// If the emitted code has left the cache, do as the dispatcher does. False if the program
    /// ends.
    fn dispatch(&mut self) -> Result<bool, String> {
        let entry = match self.translated.state.pc {
            LEAVE => return self.leave(),
            INDIRECT_MISS => Entry::Indirect,
            RETURN_MISS => Entry::Return,
            _ => return Ok(true),
        };
        let mut state = self.target_state(0);
        state.regs[RCX] = self.translated.bus.cell(at::SAVED_RCX);
        if entry == Entry::Indirect {
            state.pc = self.translated.state.regs[RCX];
            state.regs[RDX] = self.translated.bus.cell(at::SAVED_RDX);
        } else {
            state.pc = self.translated.bus.memory.load(state.regs[RSP].wrapping_sub(8), 8);
        }
        self.follow(state, false)?;
        self.translated.state.regs[RCX] = state.regs[RCX];
        self.translated.state.regs[RDX] = state.regs[RDX];
        Ok(self.enter(entry))
    }

    fn leave(&mut self) -> Result<bool, String> {
        let n = self.translated.bus.cell(at::LINK) as u32 as usize;
        match self.translator.links[n] {
            LinkKind::Direct { target, .. } => {
                self.follow(self.target_state(target), false)?;
                let on = self.enter(Entry::Direct);
                if on && self.rng.once_in(2) {
                    self.translator.connect(n, target, &mut self.translated.bus);
                }
                Ok(on)
            }
            LinkKind::Syscall { pc } => {
                self.follow(self.target_state(pc), false)?;
                self.original.step();
                let done = self.original.state;
                for r in (0..16).filter(|r| *r != R15) {
                    self.translated.state.regs[r] = done.regs[r];
                }
                Ok(self.enter(Entry::Direct))
            }
            other => Err(format!("unexpected: {other:?}")),
        }
    }

    /// The target's state between blocks.
    fn target_state(&self, pc: u64) -> State {
        let mut state = State {
            pc,
            ..self.translated.state
        };
        state.regs[R15] = self.translated.bus.cell(at::APP_R15);
        state
    }

    /// Everything that must hold when a signal arrives here.
    fn boundary(&mut self) -> Result<(), String> {
        let hardware = self.translated.state;
        let Some((piece, site, cold)) = self.translator.site(hardware.pc) else {
            return Err("there is no code".into());
        };
        let block = piece.block;
        let Some(site) = site else {
            return Err(format!("no site covers it; cold: {cold}"));
        };
        let cache = &self.translated.bus;
        let saved = Saved {
            rcx: cache.cell(at::SAVED_RCX),
            rdx: cache.cell(at::SAVED_RDX),
            stand_in: cache.cell(at::SAVED_STAND_IN),
            scratch: cache.cell(at::SAVED_SCRATCH),
        };
        let mut recovered = self.target_state(0);
        let read = |at| Some(cache.memory.load(at, 8));
        recovered.pc = site.recover(&mut recovered.regs, &saved, read);
        self.follow(recovered, site.rsp > 0)
            .map_err(|e| format!("{site:?}: {e}"))?;
        if let (Some(block), true) = (block, self.translator.options.probes != Probes::None) {
            self.records(block, &site, &recovered)
                .map_err(|e| format!("{site:?}: {e}"))?;
        }
        self.note(block, &site, cold);
        Ok(())
    }

    /// Lets the original program catch up with `state`: by one instruction at most, but for jumps,
    /// which emitted code leaves out. A call that is taken back may have `pushed` its return
    /// address: when it is done again it writes the same.
    fn follow(&mut self, state: State, pushed: bool) -> Result<(), String> {
        let mut before = Vec::new();
        let mut stepped = false;
        loop {
            let memory = self.same_memory(pushed.then(|| state.regs[RSP].wrapping_sub(8)));
            if self.original.state == state && memory {
                return Ok(());
            }
            before.push(self.original.state);
            let jump = self.original.next().is_some_and(|i| i.code() == Code::Jmp_rel32_64);
            let step = if (stepped && !jump) || before.len() > 20 {
                Step::Nowhere
            } else {
                self.original.step()
            };
            self.inside = step == Step::Element;
            if step == Step::Nowhere {
                let before: Vec<_> = before.iter().map(|s| format!("  {s:x?}\n")).collect();
                let same = if memory { "the same" } else { "not the same" };
                return Err(format!(
                    "recovered\n  {state:?}\nbut the original has\n{}memory is {same}",
                    before.concat()
                ));
            }
            stepped |= !jump;
        }
    }

    /// Whether both programs have the same in memory, but for the word at `but`.
    fn same_memory(&self, but: Option<u64>) -> bool {
        let (translated, original) = (&self.translated.bus.memory, &self.original.bus.memory);
        match but {
            None => translated.written() == original.written(),
            Some(word) => {
                let mut original = original.clone();
                original.store(word, 8, translated.load(word, 8));
                translated.written() == original.written()
            }
        }
    }

    /// The records tell what the original did, if they are settled here.
    fn records(&mut self, block: usize, site: &Site, state: &State) -> Result<(), String> {
        let block = &self.translator.blocks[block].block;
        let cursor = ((self.translated.state.regs[R15] - BUFFER) / 8) as usize;
        let buffer = &self.translated.bus.buffer;
        let mut words = buffer[self.words..cursor].to_vec();
        let mut cuts = None;
        match site.settle(block) {
            Settle::Leave | Settle::Withdraw => {}
            Settle::Pass { words: n } => words.extend(&buffer[cursor..cursor + n]),
            Settle::Close { open, cut } => {
                if let Some(n) = open {
                    let start = words.len();
                    words.extend(&buffer[cursor..cursor + n]);
                    site.missing(block, &state.regs, |word, value| words[start + word] = value);
                }
                if let Some(done) = cut {
                    let [rcx, rsi, rdi] = [RCX, RSI, RDI].map(|r| state.regs[r]);
                    words.extend([record::CUT, done.into(), rcx, rsi, rdi, 0]);
                }
                words.extend([record::STATE, state.regs[RSP], self.original.fs, self.original.gs]);
                cuts = cut;
            }
        }
        let done = usize::from(site.done);
        if site.recorded != Recorded::Nothing && done > 0 {
            let (last, expected) = (self.original.last, block.insns[done - 1].ip());
            if last.is_none_or(|i| i.ip() != expected) {
                return Err(format!("the last instruction was {last:x?}, not that at {expected:x}"));
            }
        }
        let mut reader = self.reader.clone();
        let mut told = Vec::new();
        let mut at = 0;
        let find = |id| {
            let known = self.translator.known(id);
            Known {
                id: known.id,
                block: &known.block,
            }
        };
        while at < words.len() {
            at += reader.read(&words[at..], &find, &mut told);
        }
        let made = &self.original.accesses[self.accesses..];
        // A system call has no accesses of its own, and the interpreter knows of none of xrstor.
        if told != made {
            return Err(format!(
                "the records {words:x?} tell\n{told:x?}\nbut the original made\n{made:x?}"
            ));
        }
        if reader.carried[0] != state.regs[RSP] {
            return Err(format!("the records {words:x?} tell rsp {:x}", reader.carried[0]));
        }
        if site.recorded == Recorded::Nothing {
            (self.reader, self.words, self.accesses) = (reader, cursor, self.original.accesses.len());
        }
        self.saw("a record that is cut", cuts.is_some());
        Ok(())
    }

    /// Counts what kind of site this is.
    fn note(&mut self, block: Option<usize>, site: &Site, cold: bool) {
        let path = block.is_some_and(|b| !self.translator.blocks[b].block.plan.pieces.is_empty());
        let pc = site.pc;
        for (what, is) in [
            ("hot code", block.is_some() && !cold),
            ("cold code", cold),
            ("an entry of its own", block.is_none()),
            ("a path of several pieces", path),
            ("cold code of a path", path && cold),
            ("a constant pc", matches!(pc, SitePc::Const(_))),
            ("pc in rcx", pc == SitePc::Rcx(0)),
            ("pc in rcx but for a constant", matches!(pc, SitePc::Rcx(1..))),
            ("pc below the stack", pc == SitePc::BelowStack),
            ("no record", site.recorded == Recorded::Nothing),
            ("an open record", site.recorded == Recorded::Open),
            ("a complete record", site.recorded == Recorded::Done),
            ("an affine loop", site.in_loop),
            ("an iteration after the first", site.steady),
            ("leaving", site.leaving),
            ("rcx saved", site.rcx_saved),
            ("rdx saved", site.rdx_saved),
            ("a stand-in for r15", site.stand_in.is_some()),
            ("a scratch register", site.scratch.is_some()),
            ("both", site.scratch.is_some() && site.stand_in.is_some()),
            ("a call that is not over", site.rsp > 0),
            ("a return that is not over", site.rsp < 0),
            ("a return that leaves a path", path && cold && pc == SitePc::BelowStack),
            (
                "an indirect branch that leaves a path",
                path && cold && pc == SitePc::Rcx(0),
            ),
            ("inside a repeated string instruction", self.inside),
        ] {
            self.saw(what, is);
        }
    }
}

/// Programs that are checked, and how often each kind of site must be among what is seen.
const PROGRAMS: u64 = 4000;
const LEAST: usize = 100;

#[test]
fn the_recovered_state_is_the_originals() {
    let mut seen = Seen::new();
    let wrong: Vec<String> = (0..PROGRAMS).filter_map(|seed| check(seed, &mut seen).err()).collect();
    let some = wrong.iter().take(3).map(|e| &e[..]).collect::<Vec<_>>().join("\n");
    assert!(
        wrong.is_empty(),
        "{} programs of {PROGRAMS} are wrong:\n{some}",
        wrong.len()
    );
    let rare: Vec<_> = seen.iter().filter(|s| *s.1 < LEAST).collect();
    assert!(rare.is_empty(), "too rare to be a test: {rare:?} of {seen:?}");
}
