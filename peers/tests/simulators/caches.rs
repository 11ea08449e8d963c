//! What the comparisons with other cache simulators share: programs, recordings of what lackey says
//! they do, and our simulation of it.
use memtrail_model::{Access, AccessSink, Event, Kind, LoopAccess, LoopRun, Point, Reply, SinkAdapter, Wants};
use memtrail_replay::Selection;
use memtrail_simulate::{Hierarchy, Level, LevelCounts, Options, Simulator};
use memtrail_trace::{Known, Reader};
use peers::{lackey, memtrail, Program, Result, Scratch};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What lackey prints of a program, imported.
pub struct Recording {
    path: PathBuf,
    /// Lines that are a read and a write of the same place.
    pub modifies: u64,
}

/// The number of a kind is its reference point here.
pub fn point_of(kind: Kind) -> Point {
    Point(kind as u32)
}

/// Hands accesses on with their kinds as reference points.
struct ByKind<S>(S);

impl<S: AccessSink> SinkAdapter for ByKind<S> {
    type Inner = S;
    fn inner(&self) -> &S {
        &self.0
    }
    fn inner_mut(&mut self) -> &mut S {
        &mut self.0
    }

    fn pass(&mut self, batch: &[Access]) {
        let by_kind = |access: &Access| Access {
            point: point_of(access.kind),
            ..*access
        };
        self.0.accesses(&batch.iter().map(by_kind).collect::<Vec<Access>>());
    }

    fn adjust(&self, wants: Wants) -> Wants {
        Wants {
            fetches: true,
            repeats: false,
            ..wants
        }
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return self.0.event(event);
        };
        let by_kind = |access: &LoopAccess| LoopAccess {
            point: point_of(access.kind),
            ..*access
        };
        let body: Vec<LoopAccess> = run.body.iter().map(by_kind).collect();
        self.0.event(Event::Loop(LoopRun { body: &body, ..run }))
    }
}

struct Collected(Vec<Access>);

impl AccessSink for Collected {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.extend_from_slice(batch);
    }
}

impl Recording {
    pub fn of(program: &Program, scratch: &Scratch) -> Result<Recording> {
        let (text, path) = (scratch.path("lackey.txt"), scratch.path("lackey.mtr"));
        let mut out = BufWriter::new(File::create(&text).map_err(|e| e.to_string())?);
        let mut modifies = 0;
        lackey::run(program, |_, line| {
            let mark = match line.kind {
                b'I' => "I ",
                b'L' => " L",
                b'S' => " S",
                _ => " M",
            };
            modifies += u64::from(mark == " M");
            writeln!(out, "{mark} {:08x},{}", line.address, line.size).map_err(|e| e.to_string())
        })?;
        out.flush().map_err(|e| e.to_string())?;
        let mut import = Command::new(memtrail::binary()?);
        import
            .args(["import", "--format", "lackey", "-f", "-o"])
            .arg(&path)
            .arg(&text);
        let output = import.output().map_err(|e| format!("memtrail import: {e}"))?;
        if !output.status.success() {
            return Err(format!("memtrail import: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(Recording { path, modifies })
    }

    fn replay(&self, sink: impl AccessSink) -> Result<()> {
        let broken = |e: &dyn std::fmt::Display| format!("{}: {e}", self.path.display());
        let file = File::open(&self.path).map_err(|e| broken(&e))?;
        let mut reader = Reader::open(BufReader::new(file)).map_err(|e| broken(&e))?;
        let known = Known::read(&mut reader).map_err(|e| broken(&e))?;
        memtrail_replay::accesses(&mut reader, &known, &Selection::default(), &mut ByKind(sink)).map_err(|e| broken(&e))
    }

    /// All accesses, fetches among them.
    pub fn accesses(&self) -> Result<Vec<Access>> {
        let mut all = Collected(Vec::new());
        self.replay(&mut all)?;
        Ok(all.0)
    }

    /// Simulates it as the command does: loops are taken whole.
    pub fn simulate(&self, levels: Vec<Level>) -> Result<Vec<LevelCounts>> {
        let mut simulator = simulator(levels);
        self.replay(&mut simulator)?;
        Ok(simulator.counts())
    }
}

fn simulator(levels: Vec<Level>) -> Simulator {
    let options = Options {
        instructions: true,
        ..Options::default()
    };
    Simulator::new(&Hierarchy::of(levels), options).unwrap_or_else(|why| panic!("{why}"))
}

/// Simulates accesses of one thread.
pub fn simulate(levels: Vec<Level>, accesses: &[Access]) -> Vec<LevelCounts> {
    let mut simulator = simulator(levels);
    simulator.accesses(accesses);
    simulator.counts()
}

/// A program that calls the kernel for nothing but output to /dev/null, linked statically at a
/// fixed address: the same in both tools.
pub fn build(source: &str, purpose: &str, options: &[&str], args: &[&str]) -> Result<(Program, Scratch)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let scratch = Scratch::new(&format!("{name}.{purpose}"))?;
    let path = scratch.path(&name);
    let options = [options, &["-O2", "-fno-pie", "-static", "-no-pie"]].concat();
    scratch.compile(&options, &source, &path)?;
    Ok((Program::new(&path, args, None)?, scratch))
}

/// One of the benchmark kernels.
pub fn kernel(name: &str, purpose: &str, args: &[&str]) -> Result<(Program, Scratch)> {
    build(&format!("../bench/kernels/{name}.c"), purpose, &[], args)
}
