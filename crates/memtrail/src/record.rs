//! `record`: run a program and write down what it does.
//!
//! Order matters: the session and the output file exist before anything of the program does, so
//! that a full disk or a bad path costs the user nothing.
use crate::args::{ProbeMode, RecordArgs};
use crate::explain;
use crate::failure::OURS;
use crate::info::{bits_per_access, totals_json};
use crate::job::Job;
use crate::progress::Progress;
use crate::say;
use anyhow::{bail, Context};
use memtrail_collect::{CollectError, Notice, Options, Outcome, Session, Stop};
use memtrail_decode::{Block, Message, Piece, Sink};
use memtrail_plan::XsaveTable;
use memtrail_report::format::{bytes, thousands};
use memtrail_ring::Probes;
use memtrail_trace::{create, Header, Limits, Pipeline, Ranks, Totals, Verifier, Writer};
use memtrail_tracee::{launch, xsave_table, Command, Held};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where what was drained goes.
enum Store {
    File(Box<Pipeline<File>>),
    Nowhere,
}

/// A store that tells how far it is.
pub struct Watched<'x> {
    store: Store,
    progress: Progress,
    verifier: Option<Verifier<'x>>,
}

impl Sink for Watched<'_> {
    fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
        if let Some(verifier) = &mut self.verifier {
            verifier.blocks(blocks).map_err(io::Error::other)?;
        }
        match &mut self.store {
            Store::File(writer) => writer.blocks(blocks),
            Store::Nowhere => Ok(()),
        }
    }
    fn message(&mut self, process: u32, message: &Message) -> io::Result<()> {
        match &mut self.store {
            Store::File(writer) => writer.message(process, message),
            Store::Nowhere => Ok(()),
        }
    }
    fn records(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        if let Some(verifier) = &mut self.verifier {
            verifier.records(piece).map_err(io::Error::other)?;
        }
        let written = match &mut self.store {
            Store::File(writer) => {
                writer.records(piece)?;
                Some(writer.written())
            }
            Store::Nowhere => None,
        };
        self.progress.add(piece.accesses, written);
        Ok(())
    }
    fn warning(&mut self, text: &str) {
        say::line(text);
    }
}

/// Whether a recording is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    File,
    /// Collect and count, store nothing.
    CountsOnly,
}

/// A finished run.
pub struct Done {
    pub outcome: Outcome,
    pub totals: Totals,
    /// The recording and its size.
    pub file: Option<(PathBuf, u64)>,
    /// The parallel job that it is a rank of.
    pub job: Option<Job>,
}

impl Done {
    /// The exit status of the target, as a shell reports it.
    pub fn status(&self) -> u8 {
        match (self.outcome.ended, self.outcome.stopped) {
            (Some(ended), _) => ended.status.shell() as u8,
            (None, Some(Stop::Interrupted)) => 130,
            (None, Some(Stop::Terminated)) => 143,
            (None, Some(Stop::Enough)) => 0,
            (None, None) => OURS,
        }
    }
}

impl From<ProbeMode> for Probes {
    fn from(mode: ProbeMode) -> Probes {
        match mode {
            ProbeMode::None => Probes::None,
            ProbeMode::Naive => Probes::Naive,
            ProbeMode::Block => Probes::Block,
            ProbeMode::Loop => Probes::Loop,
        }
    }
}

/// `memtrail record`.
pub fn command(args: &RecordArgs) -> anyhow::Result<u8> {
    let mut done = run_rank(args)?;
    if let Some(path) = &args.summary {
        write_summary(path, &done)?;
    }
    let status = finish(args, &done, false)?;
    end_job(done.job.take(), &done)?;
    Ok(status)
}

/// `memtrail -- CMD`: record, and say what it means.
pub fn brief(command: Vec<OsString>) -> anyhow::Result<u8> {
    let args = RecordArgs::of(command);
    let mut done = run_rank(&args)?;
    let status = finish(&args, &done, true)?;
    if let (Some((path, _)), None, None) = (&done.file, &done.outcome.drained.failure, &done.job) {
        // The recording is there; that it could not be explained changes nothing about the command.
        if let Err(error) = explain::tell_about(path) {
            say::error(&error);
        }
    }
    end_job(done.job.take(), &done)?;
    Ok(status)
}

/// What becomes of a rank's recording.
fn end_job(job: Option<Job>, done: &Done) -> anyhow::Result<()> {
    let whole = done.outcome.drained.failure.is_none() && done.outcome.stopped.is_none();
    match job {
        Some(job) if whole => job.merge(done.status() != 0),
        Some(job) => {
            job.leave();
            Ok(())
        }
        None => Ok(()),
    }
}

/// What there is before anything of the program has run.
pub fn prepare(args: &RecordArgs) -> anyhow::Result<(Session, Held)> {
    let Some((program, rest)) = args.command.split_first() else {
        bail!("no command to record");
    };
    let options = Options {
        probes: args.probes.into(),
        max_block: args.max_block,
        paths: args.paths(),
        discard: args.discard,
        follow: !args.no_follow,
    };
    let session = Session::create(&options).map_err(|e| {
        let limited = e.kind() == io::ErrorKind::FileTooLarge;
        let hint = if limited { " (ulimit -f is too low)" } else { "" };
        anyhow::Error::new(e).context(format!("cannot make the shared memory{hint}"))
    })?;
    let session = session.with_allocators(args.objects.allocators());
    if let Some(slots) = args.slots {
        session.limit_slots(slots);
    }
    let held = launch(&Command {
        program: program.clone(),
        args: rest.to_vec(),
        fixed_addresses: args.no_aslr,
    })?;
    Ok((session, held))
}

/// Whether there will be a recording.
fn stores(args: &RecordArgs, keep: Keep) -> bool {
    keep == Keep::File && !args.discard && args.probes != ProbeMode::None
}

/// Runs a command under the recorder, as the rank of a parallel job if this is one.
fn run_rank(args: &RecordArgs) -> anyhow::Result<Done> {
    let job = if stores(args, Keep::File) {
        Job::find(args)?
    } else {
        None
    };
    run_in(args, Keep::File, job)
}

/// Runs a command under the recorder.
pub fn run(args: &RecordArgs, keep: Keep) -> anyhow::Result<Done> {
    run_in(args, keep, None)
}

fn run_in(args: &RecordArgs, keep: Keep, job: Option<Job>) -> anyhow::Result<Done> {
    let stores = stores(args, keep);
    let (session, held) = prepare(args)?;
    let xsave = xsave_table();
    let pid = held.pid();
    let output = if stores {
        let (path, force) = match &job {
            Some(job) => (job.own().to_path_buf(), args.force || job.is_merged()),
            None => (output_path(args, pid), args.force),
        };
        Some(Output::create(path, force)?)
    } else {
        None
    };
    let target = held.exec()?;
    let ranks = job.as_ref().map(Job::ranks).unwrap_or_default();
    let store = match Stored::start(args, pid, ranks, output, &xsave) {
        Ok(store) => store,
        Err(error) => {
            target.kill();
            return Err(error);
        }
    };
    let done = store.fill(|watched| memtrail_collect::record(&session, target, &xsave, watched, &mut notice))?;
    Ok(Done { job, ..done })
}

/// A store that is begun, and where it is.
pub struct Stored<'x> {
    watched: Watched<'x>,
    path: Option<PathBuf>,
}

impl<'x> Stored<'x> {
    pub fn start(
        args: &RecordArgs,
        pid: i32,
        ranks: Ranks,
        output: Option<Output>,
        xsave: &'x XsaveTable,
    ) -> anyhow::Result<Stored<'x>> {
        let verifier = (args.verify && output.is_some()).then(|| Verifier::new(xsave));
        let (store, path) = match output {
            None => (Store::Nowhere, None),
            Some(output) => {
                let header = Header {
                    ranks,
                    ..header(args, pid, xsave)
                };
                let (writer, path) = output.start(&header)?;
                let pipeline = Pipeline::new(writer, Limits::of((args.memory as usize) << 20));
                (Store::File(Box::new(pipeline)), Some(path))
            }
        };
        let watched = Watched {
            store,
            progress: Progress::of(pid),
            verifier,
        };
        Ok(Stored { watched, path })
    }

    /// Has `collect` fill it, and finishes it.
    pub fn fill(
        self,
        collect: impl FnOnce(&mut Watched<'x>) -> Result<Outcome, memtrail_tracee::Error>,
    ) -> anyhow::Result<Done> {
        let Stored { mut watched, path } = self;
        let outcome = match collect(&mut watched) {
            Ok(outcome) => outcome,
            Err(error) => {
                drop(watched);
                if let Some(path) = path {
                    // There is nothing in it.
                    let _ = std::fs::remove_file(path);
                }
                return Err(error.into());
            }
        };
        finish_store(watched, path, outcome)
    }
}

fn finish_store(watched: Watched<'_>, path: Option<PathBuf>, outcome: Outcome) -> anyhow::Result<Done> {
    let Watched { store, verifier, .. } = watched;
    let totals = totals_of(&outcome);
    let file = match store {
        Store::File(writer) if outcome.drained.failure.is_none() => {
            let hashes = verifier.map(Verifier::finish).transpose()?;
            let finished = writer.finish_verified(&totals, hashes.as_deref());
            let (_, size) = finished.with_context(|| cannot_write(path.as_deref()))?;
            path.map(|p| (p, size))
        }
        Store::File(writer) => path.map(|p| (p, writer.give_up())),
        Store::Nowhere => None,
    };
    Ok(Done {
        outcome,
        totals,
        file,
        job: None,
    })
}

fn cannot_write(path: Option<&Path>) -> String {
    let name = path.map_or_else(String::new, |p| p.display().to_string());
    format!("cannot write {name}; it is readable up to its last complete chunk")
}

/// An output file that is removed again if it is new and nothing gets into it.
pub struct Output {
    path: PathBuf,
    file: Option<File>,
    is_new: bool,
}

impl Output {
    pub fn create(path: PathBuf, force: bool) -> anyhow::Result<Output> {
        let is_new = !path.exists();
        match create(&path, force) {
            Ok(file) => Ok(Output {
                path,
                file: Some(file),
                is_new,
            }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                bail!("{} exists; use -f to overwrite it", path.display())
            }
            Err(e) => Err(e).with_context(|| format!("cannot create {}", path.display())),
        }
    }

    pub fn start(mut self, header: &Header) -> anyhow::Result<(Writer<File>, PathBuf)> {
        let file = self.file.take().context("the output file is gone")?;
        let started = Writer::start(file, header);
        let writer = started.with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok((writer, self.path.clone()))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.file.is_some() && self.is_new {
            // Nothing depends on it; an error is already on its way to the user.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn output_path(args: &RecordArgs, pid: i32) -> PathBuf {
    args.output.clone().unwrap_or_else(|| {
        let app = Path::new(&args.command[0]).file_name().unwrap_or_default();
        let mut name = OsString::from("memtrail.");
        name.push(app);
        name.push(format!(".{pid}.mtr"));
        PathBuf::from(name)
    })
}

pub fn header(args: &RecordArgs, pid: i32, xsave: &XsaveTable) -> Header {
    let text = |a: &OsString| a.to_string_lossy().into_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut header = Header {
        command: args.command.iter().map(text).collect(),
        pid: pid as u32,
        probes: Probes::from(args.probes) as u32,
        max_block: args.max_block,
        page_bytes: memtrail_ring::PAGE as u32,
        unix_time: now.map_or(0, |d| d.as_secs()),
        xcr0: 0,
        xsave: Vec::new(),
        features: Vec::new(),
        ranks: Default::default(),
    };
    header.set_xsave(xsave);
    header
}

pub fn notice(notice: Notice) {
    match notice {
        Notice::Unrecorded { pid, why } => say::line(format_args!("process {pid} goes on unrecorded: {why}")),
        Notice::Waiting => {
            say::line("the command has ended, its children have not; ^C ends the recording");
        }
        Notice::ThreadsLeftOut(1) => say::line("1 thread was not recorded: too many were alive at once"),
        Notice::ThreadsLeftOut(n) => say::line(format_args!(
            "{n} threads were not recorded: too many were alive at once"
        )),
        Notice::Attached { .. } | Notice::LetGo { .. } => {}
        Notice::Kept { pid, why } => say::line(format_args!(
            "process {pid} could not be let go and runs on under memtrail's runtime, unrecorded: {why}"
        )),
        Notice::Failed => say::line("recording has stopped; the target goes on unrecorded"),
    }
}

pub fn totals_of(outcome: &Outcome) -> Totals {
    let drained = &outcome.drained;
    Totals {
        threads: drained.threads,
        processes: drained.processes,
        ring_words: drained.ring_words,
        lost_tail: drained.lost_tail,
        gaps: drained.gaps,
        exit_status: outcome.ended.map(|e| e.status.shell()),
        tsc_hz: outcome.tsc_hz,
        ..Totals::default()
    }
    .with_counts(&drained.counts)
}

/// Times and totals as JSON, for benchmarks and scripts.
fn write_summary(path: &Path, done: &Done) -> anyhow::Result<()> {
    let file_bytes = done.file.as_ref().map_or(0, |f| f.1);
    let mut value = totals_json(&done.totals, file_bytes);
    let usage = done.outcome.ended.map(|e| e.usage).unwrap_or_default();
    value["target_user_seconds"] = json!(usage.user.as_secs_f64());
    value["target_system_seconds"] = json!(usage.system.as_secs_f64());
    value["wall_seconds"] = json!(done.outcome.wall.as_secs_f64());
    std::fs::write(path, format!("{value:#}\n")).with_context(|| format!("cannot write {}", path.display()))
}

/// Tells the user how it went and what to do next; decides the exit status.
pub fn finish(args: &RecordArgs, done: &Done, brief: bool) -> anyhow::Result<u8> {
    if let Some(failure) = &done.outcome.drained.failure {
        tell_failure(failure, done);
        return Ok(OURS);
    }
    if done.outcome.stopped.is_some() && done.outcome.ended.is_none() {
        say::line("recording ended; the target goes on unrecorded");
    }
    let Some((path, size)) = &done.file else {
        if args.discard {
            let words = thousands(done.totals.ring_words);
            say::line(format_args!("{words} words acquired and thrown away"));
        }
        return Ok(done.status());
    };
    if done.totals.accesses == 0 {
        bail!("no access was recorded: something is wrong with this machine or with memtrail; try memtrail doctor");
    }
    if brief {
        print_brief(done);
    }
    if done.job.as_ref().is_some_and(Job::is_merged) {
        return Ok(done.status());
    }
    let t = &done.totals;
    say::line(format_args!(
        "{} accesses in {} ({}, {:.2} bits each)",
        thousands(t.accesses),
        path.display(),
        bytes(*size),
        bits_per_access(*size, t.accesses),
    ));
    if !brief {
        say::line(format_args!("next: memtrail {}", path.display()));
    }
    Ok(done.status())
}

fn print_brief(done: &Done) {
    let t = &done.totals;
    say::line(format_args!(
        "{} reads, {} writes, {} prefetches; {} moved",
        thousands(t.reads),
        thousands(t.writes),
        thousands(t.prefetches),
        bytes(t.bytes),
    ));
    say::line(format_args!(
        "{} instructions in {} blocks, {} threads, {} processes, {:.2} s",
        thousands(t.instructions),
        thousands(t.blocks),
        t.threads,
        t.processes,
        done.outcome.wall.as_secs_f64(),
    ));
}

/// Why a recording is not whole.
pub fn explain_failure(done: &Done) {
    if let Some(failure) = &done.outcome.drained.failure {
        tell_failure(failure, done);
    }
}

fn tell_failure(failure: &CollectError, done: &Done) {
    if let CollectError::Store(e) = failure {
        match e.kind() {
            io::ErrorKind::StorageFull => say::line("the disk is full"),
            io::ErrorKind::FileTooLarge => say::line("the limit on file sizes is reached (ulimit -f)"),
            _ => {}
        }
    }
    say::line(failure);
    if let Some((path, _)) = &done.file {
        say::line(format_args!(
            "{} holds what was recorded until then; memtrail info {} reads it",
            path.display(),
            path.display()
        ));
    }
}
