//! A program whose accesses are wanted while it runs, and no file.
//!
//! **Problem.** To simulate every access as it comes takes some fifty times as long as a program
//! that runs through loops. Its recording fits into a few kilobytes, and a simulation of that
//! leaves out nearly all of them. Of other programs recordings become large, and everything has to
//! be simulated.
//!
//! **Idea.** The program is recorded, into memory. If its recording is still small when it ends,
//! that is what whoever wanted the accesses gets, and can do with it what can be done with a file.
//! As soon as it becomes larger than [`MOST_BYTES`], everything that is in it is handed on as if it
//! came just now, and from then on all is handed on as it comes ([`Live`]).
//!
//! **Invariant.** The sink gets every access of the program, or none.
use crate::args::RecordArgs;
use crate::progress::Progress;
use crate::record::{self, Done};
use crate::say;
use anyhow::Context;
use memtrail_collect::MemoryFile;
use memtrail_decode::{Block, Message, Piece, Sink};
use memtrail_model::{Access, AccessSink, Thread};
use memtrail_plan::XsaveTable;
use memtrail_replay::drain;
use memtrail_replay::{Live, Lived};
use memtrail_trace::{Known, Limits, Pipeline, Reader, Writer};
use memtrail_tracee::xsave_table;
use std::fs::File;
use std::io::{self, BufReader};

/// Of a recording, as long as it is kept in memory. Loops fill a few kilobytes, gzip fills this at
/// once.
const MOST_BYTES: u64 = 1 << 20;

/// What became of a program.
pub enum Ran<S> {
    /// All of it is recorded here. The sink got nothing.
    Recorded(MemoryFile),
    /// The sink got all of it.
    Told(Box<Lived<S>>),
}

enum Stage<S: AccessSink + Send + 'static> {
    Recording(Box<Recording<S>>),
    Live(Box<Live<S>>),
    /// Going from one to the other has failed.
    Failed,
}

/// What there is while the program is recorded into memory.
struct Recording<S> {
    pipeline: Pipeline<File>,
    progress: Progress,
    /// Threads of which no more will come.
    ended: Vec<Thread>,
    /// What the sink is driven with if it has to be.
    start: (XsaveTable, S),
}

struct Early<S: AccessSink + Send + 'static> {
    memory: MemoryFile,
    /// Of the recording, as long as it stays one.
    most_bytes: u64,
    stage: Stage<S>,
}

impl<S: AccessSink + Send + 'static> Early<S> {
    /// Whoever gets what comes next.
    fn next(&mut self) -> io::Result<&mut dyn Sink> {
        match &mut self.stage {
            Stage::Recording(recording) => Ok(&mut recording.pipeline),
            Stage::Live(live) => Ok(live.as_mut()),
            Stage::Failed => Err(failed()),
        }
    }

    /// Hands on what was recorded, and goes on live.
    fn go_live(&mut self) -> io::Result<()> {
        let Stage::Recording(recording) = std::mem::replace(&mut self.stage, Stage::Failed) else {
            return Err(failed());
        };
        let Recording {
            pipeline, ended, start, ..
        } = *recording;
        pipeline.finish(&Default::default())?;
        let (xsave, sink) = start;
        let mut live = Live::new(xsave, sink);
        hand_on(&self.memory, &ended, &mut live).map_err(io::Error::other)?;
        self.stage = Stage::Live(Box::new(live));
        // Nobody needs it any more.
        self.memory.0.set_len(0)
    }
}

fn failed() -> io::Error {
    io::Error::other("decoding has failed before")
}

fn hand_on(memory: &MemoryFile, ended: &[Thread], sink: &mut impl Sink) -> Result<(), memtrail_trace::Error> {
    let mut reader = Reader::open(BufReader::new(File::open(memory.path())?))?;
    let known = Known::read(&mut reader)?;
    drain(&mut reader, &known, ended, sink)
}

impl<S: AccessSink + Send + 'static> Sink for Early<S> {
    fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
        self.next()?.blocks(blocks)
    }
    fn message(&mut self, process: u32, message: &Message) -> io::Result<()> {
        self.next()?.message(process, message)
    }
    fn records(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        self.next()?.records(piece)?;
        if let Stage::Recording(recording) = &mut self.stage {
            recording.progress.add(piece.accesses, None);
            if recording.pipeline.written() > self.most_bytes {
                self.go_live()?;
            }
        }
        Ok(())
    }
    fn ended(&mut self, thread: Thread) -> io::Result<()> {
        if let Stage::Recording(recording) = &mut self.stage {
            recording.ended.push(thread);
        }
        self.next()?.ended(thread)
    }
    fn warning(&mut self, text: &str) {
        say::line(text);
    }
}

/// Runs a command for the sake of its accesses; no file is made. The sink is made for a process.
pub fn run<S: AccessSink + Send + 'static>(
    args: &RecordArgs,
    sink: impl FnOnce(i32) -> S,
) -> anyhow::Result<(Done, Option<Ran<S>>)> {
    run_until(args, MOST_BYTES, sink)
}

/// Ignores everything.
struct Nobody;

impl AccessSink for Nobody {
    fn accesses(&mut self, _batch: &[Access]) {}
}

/// Runs a command and records it into memory, however much that is.
pub fn into_memory(args: &RecordArgs) -> anyhow::Result<(Done, Option<MemoryFile>)> {
    let (done, ran) = run_until(args, u64::MAX, |_| Nobody)?;
    let memory = ran.and_then(|ran| match ran {
        Ran::Recorded(memory) => Some(memory),
        Ran::Told(_) => None,
    });
    Ok((done, memory))
}

fn run_until<S: AccessSink + Send + 'static>(
    args: &RecordArgs,
    most_bytes: u64,
    sink: impl FnOnce(i32) -> S,
) -> anyhow::Result<(Done, Option<Ran<S>>)> {
    let memory = MemoryFile::create(c"memtrail-recording").context("cannot record into memory")?;
    let file = memory.0.try_clone().context("cannot record into memory")?;
    let (session, held) = record::prepare(args)?;
    let xsave = xsave_table();
    let pid = held.pid();
    let header = record::header(args, pid, &xsave);
    let writer = Writer::start(file, &header).context("cannot record into memory")?;
    let recording = Recording {
        pipeline: Pipeline::new(writer, Limits::of(Limits::DEFAULT_BYTES)),
        progress: Progress::of(pid),
        ended: Vec::new(),
        start: (xsave.clone(), sink(pid)),
    };
    let mut early = Early {
        memory,
        most_bytes,
        stage: Stage::Recording(Box::new(recording)),
    };
    let target = held.exec()?;
    let outcome = memtrail_collect::record(&session, target, &xsave, &mut early, &mut record::notice)?;
    let done = Done {
        job: None,
        totals: record::totals_of(&outcome),
        outcome,
        file: None,
    };
    if done.outcome.drained.failure.is_some() {
        return Ok((done, None));
    }
    let ran = match early.stage {
        Stage::Recording(recording) => {
            let finished = recording.pipeline.finish(&done.totals);
            finished.context("cannot record into memory")?;
            Ran::Recorded(early.memory)
        }
        Stage::Live(live) => Ran::Told(Box::new(live.finish()?)),
        Stage::Failed => return Err(failed().into()),
    };
    Ok((done, Some(ran)))
}
