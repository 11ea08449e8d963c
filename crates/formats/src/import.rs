//! From the events of a foreign trace to blocks and records, as if a program had been recorded.
//!
//! **Problem.** A recording holds records of blocks, whose plans say how accesses follow from them.
//! A foreign trace has neither blocks nor code, only instructions as they were executed.
//!
//! **Idea.** Instructions that follow each other in memory are a run. A run with the number, kinds
//! and sizes of its accesses is a block; a run that was seen before is the same block again. Its
//! record has the address of every access. Where lengths of instructions are not known, every
//! instruction is a run of its own.
//!
//! **Invariants.** Accesses come out of a replay as they went in, thread by thread. A run has no
//! more than [`MOST_INSTRUCTIONS`] and [`MOST_ACCESSES`]; an instruction that makes more goes on in
//! a further record and counts once more.
use crate::{Error, Event, Source};
use memtrail_decode::{Counter, Counts, Message, Piece, Sink, Table, ThreadDecoder};
use memtrail_model::{Kind, Thread};
use memtrail_plan::XsaveTable;
use memtrail_plan::{Addr, Lin, Plan, PlannedAccess, Shape, FIRST, RSP};
use memtrail_ring::record::{FIRST_BLOCK, STATE};
use std::collections::HashMap;

const MOST_INSTRUCTIONS: usize = 64;
const MOST_ACCESSES: usize = 64;
/// An instruction that is longer than this is not joined with others.
const LONGEST: u32 = 256;
/// Words after which records are handed over.
const PIECE_WORDS: usize = 1 << 13;
/// More different blocks are not a program's.
const MOST_BLOCKS: usize = 1 << 22;
const MOST_THREADS: usize = 1 << 16;

/// No plan here refers to an xsave area.
static NO_XSAVE: XsaveTable = XsaveTable {
    xcr0: 0,
    components: Vec::new(),
};

/// What was imported in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub counts: Counts,
    pub threads: u32,
    /// Words of all records.
    pub words: u64,
}

/// An instruction of the run in the making.
#[derive(Clone, Copy, Debug)]
struct Executed {
    pc: u64,
    bytes: u32,
    /// Its accesses.
    accesses: usize,
}

#[derive(Debug)]
struct ThreadState {
    tid: u32,
    decoder: ThreadDecoder,
    /// Accesses in pieces that were handed over.
    counted: u64,
    /// When its last piece ended.
    end: u64,
    /// The latest time the trace told.
    time: Option<u64>,
    /// The last instruction.
    at: (u64, u32),
    told: bool,
}

/// Makes a recording of events and hands it to a sink.
pub struct Importer<'s, S: Sink> {
    sink: &'s mut S,
    table: Table,
    /// Blocks that the sink knows.
    known: usize,
    counter: Counter<'static>,
    ids: HashMap<Box<[u64]>, u32>,
    threads: HashMap<u32, ThreadState>,
    thread: u32,
    /// Instructions so far: the time, where the trace tells none.
    clock: u64,
    /// The run in the making.
    run: Vec<Executed>,
    shapes: Vec<(Kind, u32)>,
    addrs: Vec<u64>,
    key: Vec<u64>,
    /// Records of the thread that were not handed over yet, and when the first was made.
    words: Vec<u64>,
    begin: u64,
    all_words: u64,
}

impl<'s, S: Sink> Importer<'s, S> {
    /// Begins a recording of one process.
    pub fn new(sink: &'s mut S) -> Result<Importer<'s, S>, Error> {
        let process = Message::Process {
            process: 0,
            parent: u32::MAX,
            pid: 0,
            how: 0,
        };
        sink.message(0, &process).map_err(Error::Store)?;
        let mut importer = Importer {
            sink,
            table: Table::default(),
            known: 0,
            counter: Counter::new(&NO_XSAVE),
            ids: HashMap::new(),
            threads: HashMap::new(),
            thread: 0,
            clock: 0,
            run: Vec::new(),
            shapes: Vec::new(),
            addrs: Vec::new(),
            key: Vec::new(),
            words: Vec::new(),
            begin: 0,
            all_words: 0,
        };
        importer.switch(0, 0)?;
        Ok(importer)
    }

    /// Takes everything a source has.
    pub fn read(&mut self, source: &mut dyn Source) -> Result<(), Error> {
        while let Some(event) = source.next()? {
            self.event(event)?;
        }
        Ok(())
    }

    pub fn event(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Thread { serial, tid } => self.switch(serial, tid),
            Event::Time(time) => {
                self.flush()?;
                let thread = self.current();
                thread.time = Some(time.max(thread.time.unwrap_or(0)));
                Ok(())
            }
            Event::Instruction { pc, bytes } => self.instruction(pc, bytes),
            Event::Access { kind, addr, size } => self.access(kind, addr, size),
        }
    }

    fn current(&mut self) -> &mut ThreadState {
        let serial = self.thread;
        self.threads.entry(serial).or_insert_with(|| ThreadState {
            tid: serial,
            decoder: ThreadDecoder::new(Thread(serial)),
            counted: 0,
            end: 0,
            time: None,
            at: (0, 0),
            told: false,
        })
    }

    fn now(&mut self) -> u64 {
        let clock = self.clock;
        let thread = self.current();
        thread.time.unwrap_or(clock).max(thread.end)
    }

    fn switch(&mut self, serial: u32, tid: u32) -> Result<(), Error> {
        self.flush()?;
        self.thread = serial;
        self.current().tid = tid;
        if self.threads.len() > MOST_THREADS {
            return Err(Error::TooMany {
                what: "threads",
                most: MOST_THREADS,
            });
        }
        Ok(())
    }

    fn instruction(&mut self, pc: u64, bytes: u32) -> Result<(), Error> {
        self.clock += 1;
        if !self.goes_on(pc, bytes) {
            self.end_run()?;
        }
        self.run.push(Executed { pc, bytes, accesses: 0 });
        Ok(())
    }

    /// Whether the instruction belongs to the run.
    fn goes_on(&self, pc: u64, bytes: u32) -> bool {
        let Some(last) = self.run.last() else {
            return true;
        };
        self.run.len() < MOST_INSTRUCTIONS
            && self.addrs.len() < MOST_ACCESSES
            && (1..=LONGEST).contains(&last.bytes)
            && (1..=LONGEST).contains(&bytes)
            && last.pc.checked_add(last.bytes.into()) == Some(pc)
    }

    fn access(&mut self, kind: Kind, addr: u64, size: u32) -> Result<(), Error> {
        if self.addrs.len() == MOST_ACCESSES {
            self.end_run()?;
        }
        if self.run.is_empty() {
            let (pc, bytes) = self.current().at;
            self.run.push(Executed { pc, bytes, accesses: 0 });
        }
        if let Some(last) = self.run.last_mut() {
            last.accesses += 1;
        }
        self.shapes.push((kind, size));
        self.addrs.push(addr);
        Ok(())
    }

    /// Writes the record of the run.
    fn end_run(&mut self) -> Result<(), Error> {
        let Some(last) = self.run.last() else {
            return Ok(());
        };
        let at = (last.pc, last.bytes);
        self.current().at = at;
        let id = self.block()?;
        if self.words.is_empty() {
            self.begin = self.now();
        }
        self.words.push(id.into());
        self.words.extend_from_slice(&self.addrs);
        self.run.clear();
        self.shapes.clear();
        self.addrs.clear();
        if self.words.len() >= PIECE_WORDS {
            self.hand_over()?;
        }
        Ok(())
    }

    /// The block of the run.
    fn block(&mut self) -> Result<u32, Error> {
        self.key.clear();
        self.key.extend(self.run.first().map(|i| i.pc));
        let insns = self.run.iter().map(|i| (i.accesses as u64) << 32 | u64::from(i.bytes));
        self.key.extend(insns);
        let shapes = self.shapes.iter();
        self.key
            .extend(shapes.map(|&(kind, size)| (kind as u64) << 32 | u64::from(size)));
        if let Some(&id) = self.ids.get(&self.key[..]) {
            return Ok(id);
        }
        if self.ids.len() == MOST_BLOCKS {
            return Err(Error::TooMany {
                what: "instructions",
                most: MOST_BLOCKS,
            });
        }
        let id = FIRST_BLOCK as u32 + self.ids.len() as u32;
        self.table.insert(id, plan(&self.run, &self.shapes))?;
        self.ids.insert(self.key.as_slice().into(), id);
        Ok(id)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.end_run()?;
        self.hand_over()
    }

    /// Hands the records of the thread to the sink.
    fn hand_over(&mut self) -> Result<(), Error> {
        if self.words.is_empty() {
            return Ok(());
        }
        let (begin, end) = (self.begin, self.now());
        let new = &self.table.blocks()[self.known..];
        if !new.is_empty() {
            self.sink.blocks(new).map_err(Error::Store)?;
            self.known = self.table.blocks().len();
        }
        let serial = self.thread;
        let before = self.counter.accesses();
        if let Some(thread) = self.threads.get_mut(&serial) {
            if !thread.told {
                thread.told = true;
                let message = Message::Thread {
                    thread: serial,
                    tid: thread.tid,
                    tsc: begin,
                };
                self.sink.message(0, &message).map_err(Error::Store)?;
                // Every thread begins with the carried values, of which no plan here makes use.
                self.words.splice(0..0, [STATE, 0, 0, 0]);
            }
            let state = thread.decoder.state();
            thread.decoder.feed(&self.table, &self.words, &mut self.counter)?;
            let accesses = self.counter.accesses() - before;
            let piece = Piece {
                thread: Thread(serial),
                process: 0,
                begin,
                end,
                first: thread.counted,
                accesses,
                state: &state,
                words: &self.words,
                leaves: &[],
            };
            self.sink.records(&piece).map_err(Error::Store)?;
            thread.counted += accesses;
            thread.end = end;
        }
        self.all_words += self.words.len() as u64;
        self.words.clear();
        Ok(())
    }

    /// Everything was read.
    pub fn finish(mut self) -> Result<Imported, Error> {
        self.flush()?;
        let mut threads: Vec<(u32, ThreadState)> = self.threads.drain().filter(|(_, t)| t.told).collect();
        threads.sort_unstable_by_key(|t| t.0);
        for (serial, thread) in &mut threads {
            thread.decoder.finish(&self.table, &mut self.counter)?;
            let message = Message::ThreadEnd {
                thread: *serial,
                status: 0,
                tsc: thread.end,
            };
            self.sink.message(0, &message).map_err(Error::Store)?;
        }
        let counts = self.counter.counts(&self.table);
        if counts.accesses() == 0 {
            return Err(Error::Empty);
        }
        Ok(Imported {
            counts,
            threads: threads.len() as u32,
            words: self.all_words,
        })
    }
}

/// The plan of a run: the record has the address of every access.
fn plan(run: &[Executed], shapes: &[(Kind, u32)]) -> Plan {
    let pc = run.first().map_or(0, |i| i.pc);
    let mut plan = Plan {
        pc,
        bytes: 0,
        insn_offsets: Vec::with_capacity(run.len()),
        pieces: Vec::new(),
        words: 1 + shapes.len() as u16,
        derived: Vec::new(),
        accesses: Vec::with_capacity(shapes.len()),
        exit_rsp: Lin::slot(RSP),
        looping: None,
        sides: Vec::new(),
    };
    let mut shapes = shapes.iter().zip(FIRST..);
    for (insn, executed) in (0..).zip(run) {
        plan.insn_offsets.push(plan.bytes as u16);
        plan.bytes += executed.bytes;
        let mine = shapes.by_ref().take(executed.accesses);
        plan.accesses.extend(mine.map(|(&(kind, size), slot)| PlannedAccess {
            insn,
            kind,
            shape: Shape::Plain {
                addr: Addr {
                    lin: Lin::slot(slot),
                    low32: false,
                    segment: None,
                },
                size,
            },
        }));
    }
    plan
}
