//! Attaching to running processes and letting them go, again and again: the guests in `tests/attach`
//! check themselves all the time, and what can be seen of them from outside is compared.
//!
//! `MEMTRAIL_ATTACH_CYCLES` says how often each is attached to (a few in the ordinary test run;
//! `cargo xtask long-test attach` does it a thousand times).
mod common;

use common::{memtrail, stderr};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const GUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/attach");
const PATIENCE: Duration = Duration::from_secs(120);

fn cycles() -> usize {
    let given = std::env::var("MEMTRAIL_ATTACH_CYCLES");
    given.map_or(4, |n| n.parse().expect("MEMTRAIL_ATTACH_CYCLES is a number"))
}

fn compile(dir: &TempDir, name: &str) -> PathBuf {
    let program = dir.path().join(name);
    let source = format!("{GUESTS}/{name}.c");
    let cc = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .output();
    let cc = cc.unwrap();
    assert!(cc.status.success(), "{}", stderr(&cc));
    program
}

/// A running program, which ends when its input does.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a program and waits for its first line.
    fn start(command: &mut Command) -> (Running, String) {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut running = Running { child, input, output };
        let line = running.line();
        (running, line)
    }

    fn guest(dir: &TempDir, name: &str) -> Running {
        Running::start(&mut Command::new(compile(dir, name))).0
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Ends it: the rest of what it printed, and its exit status.
    fn end(mut self) -> (String, Option<i32>) {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After `end` it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What can be seen of a process from outside: its mappings, and what its threads do with signals.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    maps: Vec<String>,
    signals: BTreeMap<String, Vec<String>>,
}

fn status_lines(path: &Path, names: &[&str]) -> Vec<String> {
    let status = fs::read_to_string(path.join("status")).unwrap_or_default();
    let wanted = |l: &&str| names.iter().any(|n| l.starts_with(n));
    status.lines().filter(wanted).map(str::to_string).collect()
}

impl Seen {
    fn of(pid: &str, names: &[&str]) -> Seen {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let task = |entry: fs::DirEntry| {
            let name = entry.file_name().to_str().unwrap().to_string();
            (name, status_lines(&entry.path(), names))
        };
        Seen {
            maps: maps.lines().map(str::to_string).collect(),
            signals: tasks.map(|e| task(e.unwrap())).collect(),
        }
    }
}

fn is_ours(line: &str) -> bool {
    line.contains("memtrail")
}

/// Attaches for a moment and lets go, and sees that nothing of ours is left.
fn cycle(dir: &TempDir, pid: &str, more: &[&str]) {
    let args = [&["attach", "--seconds", "0.05", "-f", "-o", "a.mtr"], more, &[pid]].concat();
    let done = memtrail(dir, &args);
    let said = stderr(&done);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("process {pid} runs natively again")), "{said}");
    let status = status_lines(Path::new(&format!("/proc/{pid}")), &["TracerPid", "State"]);
    assert!(status.contains(&"TracerPid:\t0".to_string()), "{status:?}");
    assert!(
        !status.iter().any(|l| l.contains("stopped") || l.contains("zombie")),
        "{status:?}"
    );
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    assert!(!maps.lines().any(is_ours), "{maps}");
}

fn check_deep(dir: &TempDir) {
    let checked = memtrail(dir, &["check", "--deep", "a.mtr"]);
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
}

fn info(dir: &TempDir) -> Value {
    let printed = memtrail(dir, &["info", "--json", "a.mtr"]);
    assert_eq!(printed.status.code(), Some(0), "{}", stderr(&printed));
    serde_json::from_slice(&printed.stdout).unwrap()
}

/// Cycles on a guest that must look the same afterwards in `names` of its threads' status, and in
/// its mappings if `maps`.
fn cycles_on(name: &str, names: &[&str], maps: bool) {
    let dir = tempfile::tempdir().unwrap();
    let guest = Running::guest(&dir, name);
    let pid = guest.pid();
    std::thread::sleep(Duration::from_millis(100));
    let before = Seen::of(&pid, names);
    for n in 0..cycles() {
        // Every access is hashed in some, and compared.
        cycle(&dir, &pid, if n == 0 { &["--verify"] } else { &[] });
        if n == 0 {
            check_deep(&dir);
        }
    }
    let after = Seen::of(&pid, names);
    if maps {
        assert_eq!(before.maps, after.maps);
    }
    for (task, lines) in &before.signals {
        if let Some(found) = after.signals.get(task) {
            assert_eq!(lines, found, "thread {task}");
        }
    }
    // It must still be able to do everything.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(guest.end(), ("ok\n".to_string(), Some(0)));
}

const ALL_SIGNALS: [&str; 5] = ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"];

#[test]
fn every_register_survives() {
    cycles_on("registers", &ALL_SIGNALS, true);
}

#[test]
fn sixteen_threads_in_every_kind_of_wait_go_on() {
    cycles_on("sixteen_threads", &ALL_SIGNALS, true);
}

#[test]
fn timers_and_nested_handlers_go_on() {
    // It may be in a handler at either look.
    cycles_on("timers_nested", &["SigIgn", "SigCgt"], true);
}

#[test]
fn threads_and_children_that_come_and_go() {
    // The C library's memory for threads is its own affair.
    cycles_on("come_and_go", &["SigIgn", "SigCgt"], false);
}

#[test]
fn what_is_recorded_is_what_the_program_does() {
    let dir = tempfile::tempdir().unwrap();
    let guest = Running::guest(&dir, "known_accesses");
    let pid = guest.pid();
    let done = memtrail(
        &dir,
        &["attach", "--accesses", "2000000", "--verify", "-o", "a.mtr", &pid],
    );
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    check_deep(&dir);
    let info = info(&dir);
    let number = |name: &str| info[name].as_u64().unwrap();
    assert!(number("accesses") >= 2_000_000, "{info}");
    // Before and after, of one thread.
    assert_eq!(
        (number("threads"), number("processes"), number("gaps")),
        (1, 1, 2),
        "{info}"
    );
    // The loop makes one of each; around it, 200,000 times more rarely, there are a few others.
    let (reads, writes) = (number("reads"), number("writes"));
    assert!(reads.abs_diff(writes) < reads / 1000, "{reads} reads, {writes} writes");
    let objects = memtrail(&dir, &["objects", "--json", "a.mtr"]);
    let objects: Value = serde_json::from_slice(&objects.stdout).unwrap();
    let rows = objects["objects"].as_array().unwrap();
    let named = |name: &str| rows.iter().find(|r| r["name"].as_str() == Some(name));
    let accesses = |row: &Value| row["accesses"].as_u64().unwrap();
    let table = named("table").unwrap_or_else(|| panic!("{objects:#}"));
    assert!(accesses(table) > number("accesses") / 1000 * 999, "{table}");
    let before = named("[heap before attach]").unwrap_or_else(|| panic!("{objects:#}"));
    assert!(accesses(before) > 0 && accesses(before) < 1000, "{before}");
    assert_eq!(guest.end(), ("ok\n".to_string(), Some(0)));
}

#[test]
fn children_that_are_forked_meanwhile_are_let_go_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut guest = Running::guest(&dir, "leaves_a_child");
    let pid = guest.pid();
    let mut attached = Command::new(env!("CARGO_BIN_EXE_memtrail"))
        .current_dir(dir.path())
        .args(["attach", "--verify", "-o", "a.mtr", &pid])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(attached.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, format!("memtrail: attached to process {pid}; ^C lets it go\n"));
    signal(&pid, "USR1");
    let child = guest.line();
    std::thread::sleep(Duration::from_millis(100));
    // As ^C does; a shell that runs tests in the background has SIGINT ignored.
    signal(&attached.id().to_string(), "TERM");
    assert_eq!(attached.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(
        rest.contains(&format!("process {child}, a child of it, runs natively again")),
        "{rest}"
    );
    for pid in [&pid, &child] {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        assert!(!maps.lines().any(is_ours), "{maps}");
    }
    check_deep(&dir);
    assert_eq!(info(&dir)["processes"].as_u64(), Some(2));
    assert_eq!(guest.end(), ("ok\n".to_string(), Some(0)));
}

fn signal(pid: &str, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), pid]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn the_end_of_the_process_ends_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let guest = Running::guest(&dir, "known_accesses");
    let pid = guest.pid();
    // The shell hands a descriptor on, as a user would.
    let script = format!(
        "exec {} attach --ready-fd 3 -o a.mtr {pid} 3>&1",
        env!("CARGO_BIN_EXE_memtrail")
    );
    let mut attached = Command::new("sh")
        .args(["-c", &script])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    attached.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    let second = memtrail(&dir, &["attach", "-o", "b.mtr", &pid]);
    assert_eq!(second.status.code(), Some(125));
    assert_eq!(
        stderr(&second),
        format!("memtrail: process {pid} is being recorded by memtrail already\n")
    );
    assert!(!dir.path().join("b.mtr").exists());
    assert_eq!(guest.end(), ("ok\n".to_string(), Some(0)));
    let done = attached.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(
        stderr(&done).contains(&format!("process {pid} has ended")),
        "{}",
        stderr(&done)
    );
    check_deep(&dir);
}

#[test]
fn a_process_that_cannot_be_attached_to_runs_on() {
    let dir = tempfile::tempdir().unwrap();
    let guest = Running::guest(&dir, "known_accesses");
    let pid = guest.pid();
    // Without a free descriptor there is no shared memory.
    let limited = Command::new("prlimit")
        .args(["--nofile=3", "--pid", &pid])
        .status()
        .unwrap();
    assert!(limited.success());
    let before = Seen::of(&pid, &ALL_SIGNALS);
    let done = memtrail(&dir, &["attach", "--seconds", "1", "-o", "a.mtr", &pid]);
    assert_eq!(done.status.code(), Some(125));
    let expected = "memtrail: memfd_create in the target failed: Too many open files (os error 24)\n";
    assert_eq!(stderr(&done), expected);
    assert!(!dir.path().join("a.mtr").exists());
    assert_eq!(before, Seen::of(&pid, &ALL_SIGNALS));
    assert_eq!(guest.end(), ("ok\n".to_string(), Some(0)));
}

#[test]
fn refusals_name_cause_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let attach = |pid: &str| {
        let done = memtrail(&dir, &["attach", "--seconds", "1", "-o", "a.mtr", pid]);
        assert_eq!(done.status.code(), Some(125));
        assert!(!dir.path().join("a.mtr").exists());
        stderr(&done)
    };
    assert_eq!(attach("8388608"), "memtrail: there is no process 8388608\n");
    // 2 is the kernel's own, unless it cannot be seen from a container.
    if fs::read_link("/proc/2/exe").is_err() && Path::new("/proc/2/status").exists() {
        let expected = "memtrail: process 2 is a thread of the kernel; memtrail records programs\n";
        assert_eq!(attach("2"), expected);
    }
    let guest = Running::guest(&dir, "known_accesses");
    let pid = guest.pid();
    let mut tracer = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "-p", &pid])
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let traced = || status_lines(Path::new(&format!("/proc/{pid}")), &["TracerPid"]) != ["TracerPid:\t0"];
    while !traced() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    let expected = format!(
        "memtrail: process {pid} is traced by process {} (strace), and a process has one tracer; end that one first\n",
        tracer.id()
    );
    assert_eq!(attach(&pid), expected);
    signal(&tracer.id().to_string(), "TERM");
    tracer.wait().unwrap();
    assert_eq!(guest.end(), ("ok\n".to_string(), Some(0)));
}

/// Several threads, in Python: an interpreter with locks, signals and a large heap of its own.
const PYTHON: &str = "
import hashlib, sys, threading, time
over = False
bad = []
rounds = [0] * 6
def works(i):
    want = hashlib.sha256(b'x' * (1000 + i)).hexdigest()
    while not over:
        if hashlib.sha256(b'x' * (1000 + i)).hexdigest() != want or sorted(range(300, 0, -1))[0] != 1: bad.append(i)
        rounds[i] += 1
def sleeps(i):
    while not over:
        begin = time.monotonic()
        time.sleep(0.02)
        if time.monotonic() - begin < 0.0199: bad.append(i)
        rounds[i] += 1
threads = [threading.Thread(target=works if i < 3 else sleeps, args=(i,)) for i in range(6)]
for t in threads: t.start()
print('running', flush=True)
sys.stdin.read()
over = True
for t in threads: t.join()
print('FAIL' if bad or min(rounds) < 3 else 'ok')
";

#[test]
fn python_with_threads_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (guest, line) = Running::start(Command::new("python3").args(["-c", PYTHON]));
    assert_eq!(line, "running");
    for _ in 0..cycles().div_ceil(2) {
        cycle(&dir, &guest.pid(), &[]);
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(guest.end(), ("ok\n".to_string(), Some(0)));
}

#[test]
fn redis_serves_on() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("redis.sock");
    let socket = socket.to_str().unwrap();
    let mut server = Command::new("redis-server")
        .args(["--port", "0", "--unixsocket", socket, "--save", "", "--dir"])
        .arg(dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let ask = |args: &[&str]| {
        let out = Command::new("redis-cli")
            .args(["-s", socket])
            .args(args)
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).trim().to_string()
    };
    while ask(&["ping"]) != "PONG" {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    let load = Command::new("redis-benchmark")
        .args(["-s", socket, "-q", "-n", "1000000000", "-c", "8", "-t", "set,get"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut load = load.unwrap();
    assert_eq!(ask(&["set", "kept", "through it all"]), "OK");
    for _ in 0..cycles().div_ceil(2) {
        cycle(&dir, &server.id().to_string(), &[]);
        assert_eq!(ask(&["get", "kept"]), "through it all");
    }
    assert!(load.try_wait().unwrap().is_none(), "the clients were let down");
    load.kill().unwrap();
    load.wait().unwrap();
    ask(&["shutdown", "nosave"]);
    assert_eq!(server.wait().unwrap().code(), Some(0));
}
