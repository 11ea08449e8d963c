//! Running one guest: natively, under the oracle, under the recorder.
//!
//! All three get the same argument vector, environment and working directory
//! and no address randomisation, since all of these move the stack. Output is
//! taken through a pipe in every case: libc looks at what stdout is.

use crate::compare::{parse, Streams};
use crate::guest::{modified, Guest};
use crate::{tools, tuples};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A guest that is not done by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What can be seen of a run from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub stdout: Vec<u8>,
    /// Exit code, or 128 + signal: a wrapper may pass on either.
    pub status: i32,
}

/// How the recorder is asked to instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Configuration {
    pub probes: Probes,
    pub max_block: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probes {
    Naive,
    Block,
    Loop,
    /// As `Loop`, with blocks joined to paths wherever that can be.
    Paths,
}

impl Probes {
    pub const ALL: [Probes; 4] = [Probes::Naive, Probes::Block, Probes::Loop, Probes::Paths];

    pub fn name(self) -> &'static str {
        match self {
            Probes::Naive => "naive",
            Probes::Block => "block",
            Probes::Loop => "loop",
            Probes::Paths => "paths",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Probes::Naive => &["--probes", "naive"],
            Probes::Block => &["--probes", "block"],
            Probes::Loop => &["--probes", "loop"],
            Probes::Paths => &["--probes", "loop", "--paths", "eager"],
        }
    }
}

impl Configuration {
    /// Every combination that the test suite runs.
    pub fn all() -> Vec<Configuration> {
        let lengths = [None, Some(1)];
        let with = |probes| lengths.map(|max_block| Configuration { probes, max_block });
        // Nothing is joined of blocks of one instruction.
        let senseless = |c: &Configuration| c.probes == Probes::Paths && c.max_block.is_some();
        Probes::ALL
            .into_iter()
            .flat_map(with)
            .filter(|c| !senseless(c))
            .collect()
    }

    /// Whether descriptors are looked at as well.
    fn describes(&self) -> bool {
        self.probes != Probes::Naive && self.max_block.is_none()
    }

    pub fn name(&self) -> String {
        match self.max_block {
            None => self.probes.name().to_owned(),
            Some(n) => format!("{}-max{n}", self.probes.name()),
        }
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// The fixed surroundings of every run.
fn prepare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C")
        .current_dir(tools::work_directory())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}

struct Finished {
    seen: Seen,
    stderr: String,
}

fn finish(mut command: Command) -> Result<Finished, String> {
    let describe = format!("{command:?}");
    let child = command.spawn().map_err(|e| format!("{describe}: {e}"))?;
    finish_child(child).map_err(|e| format!("{describe}: {e}"))
}

fn finish_child(mut child: Child) -> Result<Finished, String> {
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let status = wait(&mut child).map_err(|e| e.to_string())?;
    let stdout = stdout.join().map_err(|_| "reading stdout failed")?;
    let stderr = stderr.join().map_err(|_| "reading stderr failed")?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    Ok(Finished {
        seen: Seen {
            stdout,
            status: code(status),
        },
        stderr,
    })
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A pipe that breaks leaves what came before: the comparison will tell.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > PATIENCE {
            kill_group(child);
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "hangs"));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// Kills a child that [`prepare`] made, and all that it started.
fn kill_group(child: &Child) {
    // SAFETY: kill takes no pointers; the group was made for this child alone, which was not waited for.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
}

pub fn native(guest: &Guest) -> Result<Seen, String> {
    let binary = guest.built().map_err(|e| e.to_string())?;
    let mut command = prepare(&binary);
    command.args(&guest.args);
    finish(command).map(|f| f.seen)
}

/// The oracle's account, computed once for each build of the guest and of the oracle.
pub fn oracle(guest: &Guest) -> Result<(Seen, Streams), String> {
    let binary = guest.built().map_err(|e| e.to_string())?;
    let list = with_suffix(&binary, "accesses");
    let seen_file = with_suffix(&binary, "seen");
    let inputs = [modified(&binary), modified(tools::oracle()?)];
    let newer = |time| {
        inputs
            .iter()
            .all(|input| input.as_ref().is_ok_and(|input| *input < time))
    };
    if modified(&seen_file).is_ok_and(newer) {
        if let (Some(seen), Ok(text)) = (load_seen(&seen_file), fs::read(&list)) {
            return Ok((seen, parse(&text)?));
        }
    }
    let (seen, streams) = oracle_now(guest, &list)?;
    save_seen(&seen_file, &seen).map_err(|e| e.to_string())?;
    Ok((seen, streams))
}

/// A virtual machine may lose a step of the oracle, which says so. So many times in a row it is no
/// accident.
const ORACLE_TRIES: usize = 5;

/// The oracle's account of a fresh run, also left in `list`.
pub fn oracle_now(guest: &Guest, list: &Path) -> Result<(Seen, Streams), String> {
    let mut tried = oracle_once(guest, list);
    for _ in 1..ORACLE_TRIES {
        if !tried
            .as_ref()
            .is_err_and(|why| why.contains(memtrail_oracle::LOST_STEP))
        {
            break;
        }
        tried = oracle_once(guest, list);
    }
    tried
}

fn oracle_once(guest: &Guest, list: &Path) -> Result<(Seen, Streams), String> {
    let binary = guest.built().map_err(|e| e.to_string())?;
    let mut command = prepare(tools::oracle()?);
    command.arg("--no-aslr").arg("-o").arg(list);
    if !guest.counts_processors() {
        command.arg("--cpu").arg(some_processor().to_string());
    }
    command.arg("--").arg(&binary).args(&guest.args);
    let finished = finish(command)?;
    if finished.stderr.contains("memtrail-oracle:") {
        return Err(finished.stderr);
    }
    let text = fs::read(list).map_err(|e| format!("{}: {e}", list.display()))?;
    Ok((finished.seen, parse(&text)?))
}

/// Processors in turn: a step is cheapest when oracle and guest share one.
fn some_processor() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    NEXT.fetch_add(1, Ordering::Relaxed) % processors
}

/// What the recorder has to say about a run.
pub struct Account {
    pub seen: Seen,
    pub streams: Streams,
    /// As `dump --hash` prints them.
    pub hashes: String,
    /// The accesses once more, from descriptors; not in every configuration.
    pub described: Option<Streams>,
}

/// The recorder's account. Every access is also hashed while it is recorded, and the recording
/// checked against that.
pub fn recorded(guest: &Guest, configuration: Configuration) -> Result<Account, String> {
    let binary = guest.built().map_err(|e| e.to_string())?;
    let trace = with_suffix(&binary, &format!("{}.mtr", configuration.name()));
    let (seen, stderr) = record(&binary, &guest.args, configuration, &["--verify"], &trace)?;
    let ask = |what: &[&str]| {
        let mut command = prepare(tools::memtrail()?);
        command.args(what).arg(&trace);
        text_of(command).map_err(|error| format!("{error}record said:\n{stderr}"))
    };
    let streams = parse(ask(&["dump"])?.as_bytes())?;
    let hashes = ask(&["dump", "--hash"])?;
    let described = match configuration.describes() {
        true => Some(tuples::expand(ask(&["dump", "--descriptors"])?.as_bytes())?),
        false => None,
    };
    if !ask(&["check", "--deep"])?.contains("hashes agree") {
        return Err("a recording with hashes was not checked against them".into());
    }
    let _ = fs::remove_file(&trace);
    Ok(Account {
        seen,
        streams,
        hashes,
        described,
    })
}

/// Records a program to `trace`, without address randomisation. What was seen of it, and standard
/// error.
pub fn record(
    program: &Path,
    args: &[String],
    configuration: Configuration,
    options: &[&str],
    trace: &Path,
) -> Result<(Seen, String), String> {
    let finished = finish(recorder(program, args, configuration, options, trace)?)?;
    Ok((finished.seen, finished.stderr))
}

/// The command that [`record`] runs.
fn recorder(
    program: &Path,
    args: &[String],
    configuration: Configuration,
    options: &[&str],
    trace: &Path,
) -> Result<Command, String> {
    // An old recording must not pass for the new.
    let _ = fs::remove_file(trace);
    let mut command = prepare(tools::memtrail()?);
    command.args(["record", "-f", "--no-aslr"]);
    command.args(configuration.probes.options());
    command.args(options);
    if let Some(n) = configuration.max_block {
        command.arg("--max-block").arg(n.to_string());
    }
    command.arg("-o").arg(trace).arg("--").arg(program).args(args);
    Ok(command)
}

/// A guest that reads from standard input, under way. It is killed when this is dropped.
pub struct Started {
    child: Option<Child>,
    /// Process id of the guest itself: of the recorder's child, if it is recorded.
    pub pid: i32,
    /// The first line that it printed, which says that it is about to read.
    pub first_line: String,
}

impl Started {
    /// Starts a guest natively, or recorded to the given file.
    pub fn new(guest: &Guest, recorded: Option<(Configuration, &Path)>) -> Result<Started, String> {
        let binary = guest.built().map_err(|e| e.to_string())?;
        let mut command = match recorded {
            Some((configuration, trace)) => recorder(&binary, &guest.args, configuration, &[], trace)?,
            None => prepare(&binary),
        };
        let child = command.stdin(Stdio::piped()).spawn();
        let mut started = Started {
            child: Some(child.map_err(|e| format!("{command:?}: {e}"))?),
            pid: 0,
            first_line: String::new(),
        };
        started.first_line = started.read_line()?;
        let id = started.child.as_ref().map_or(0, Child::id);
        started.pid = match recorded {
            Some(_) => only_child(id)?,
            None => id as i32,
        };
        Ok(started)
    }

    /// The next line, read without taking anything behind it.
    fn read_line(&mut self) -> Result<String, String> {
        let stdout = self.child.as_mut().and_then(|c| c.stdout.as_mut());
        let stdout = stdout.ok_or("the guest has no standard output")?;
        let (mut line, mut byte) = (Vec::new(), [0]);
        while stdout.read(&mut byte).map_err(|e| e.to_string())? == 1 && byte != *b"\n" {
            line.extend(byte);
        }
        String::from_utf8(line).map_err(|e| e.to_string())
    }

    /// Writes one byte to its standard input.
    pub fn give_byte(&mut self) -> Result<(), String> {
        let stdin = self.child.as_mut().and_then(|c| c.stdin.as_mut());
        let stdin = stdin.ok_or("the guest has no standard input")?;
        stdin.write_all(b"x").map_err(|e| e.to_string())
    }

    /// Waits for the end. What was seen after the first line, and standard error.
    pub fn finish(mut self) -> Result<(Seen, String), String> {
        let child = self.child.take().ok_or("the guest was finished before")?;
        finish_child(child).map(|f| (f.seen, f.stderr))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            kill_group(child);
            let _ = child.wait();
        }
    }
}

/// The one child of a process, whichever of its threads made it.
fn only_child(pid: u32) -> Result<i32, String> {
    let say = |e: io::Error| format!("children of process {pid}: {e}");
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).map_err(say)? {
        let list = fs::read_to_string(task.map_err(say)?.path().join("children")).map_err(say)?;
        children.extend(list.split_whitespace().filter_map(|id| id.parse::<i32>().ok()));
    }
    match children[..] {
        [child] => Ok(child),
        _ => Err(format!("process {pid} has the children {children:?}")),
    }
}

/// The accesses of a recording, as text.
pub fn dump(trace: &Path, options: &[&str]) -> Result<String, String> {
    let mut command = prepare(tools::memtrail()?);
    command.arg("dump").args(options).arg(trace);
    text_of(command)
}

/// What a subcommand of memtrail says of a file, and its status; and what it prints. It runs where
/// the file is, so that nothing names this machine's directories.
pub fn transcript(subcommand: &[&str], trace: &Path) -> Result<(String, String), String> {
    let (Some(directory), Some(name)) = (trace.parent(), trace.file_name()) else {
        return Err(format!("{} is no file", trace.display()));
    };
    let mut command = prepare(tools::memtrail()?);
    command.args(subcommand).arg(name).current_dir(directory);
    let finished = finish(command)?;
    let said = format!("{}status {}\n", finished.stderr, finished.seen.status);
    Ok((said, String::from_utf8_lossy(&finished.seen.stdout).into_owned()))
}

/// The standard output of a command that must succeed.
pub fn text_of(mut command: Command) -> Result<String, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.process_group(0);
    let describe = format!("{command:?}");
    let finished = finish(command)?;
    match finished.seen.status {
        0 => String::from_utf8(finished.seen.stdout).map_err(|e| format!("{describe}: {e}")),
        status => Err(format!("{describe} ended with {status}; stderr:\n{}", finished.stderr)),
    }
}

/// A run that is translated and not recorded.
pub fn translated(guest: &Guest) -> Result<Seen, String> {
    let binary = guest.built().map_err(|e| e.to_string())?;
    let mut command = prepare(tools::memtrail()?);
    command.args(["record", "--no-aslr", "--probes", "none", "--"]);
    command.arg(&binary).args(&guest.args);
    finish(command).map(|f| f.seen)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn save_seen(path: &Path, seen: &Seen) -> io::Result<()> {
    let mut bytes = seen.status.to_le_bytes().to_vec();
    bytes.extend_from_slice(&seen.stdout);
    fs::write(path, bytes)
}

fn load_seen(path: &Path) -> Option<Seen> {
    let bytes = fs::read(path).ok()?;
    let (status, stdout) = bytes.split_first_chunk::<4>()?;
    Some(Seen {
        stdout: stdout.to_vec(),
        status: i32::from_le_bytes(*status),
    })
}
