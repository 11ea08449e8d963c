//! What can go wrong from outside: each has a clear message, a status, and leaves nothing behind.
//!
//! Every memtrail runs in a process group of its own, and this process adopts what it leaves
//! behind. So a test can wait for the whole group to end, whoever it belonged to, and see how each
//! process ended: a hang or a zombie fails the test.
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::{tempdir, TempDir};

const MEMTRAIL: &str = env!("CARGO_BIN_EXE_memtrail");
const GONE: &str = "memtrail: the collector is gone; the program goes on unrecorded\n";
const PATIENCE: Duration = Duration::from_secs(90);

/// A running memtrail with its targets.
struct Run {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

/// How the processes of a group ended (`128 + N` after signal N), by process id; and what they
/// wrote.
struct Ends {
    statuses: Vec<(i32, i32)>,
    stdout: String,
    stderr: String,
}

impl Ends {
    fn of(&self, pid: i32) -> i32 {
        let found = self.statuses.iter().find(|e| e.0 == pid);
        found
            .unwrap_or_else(|| panic!("process {pid} is not in {:?}", self.statuses))
            .1
    }
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: kill takes numbers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "kill {pid}");
}

impl Run {
    fn start(dir: &Path, args: &[&str]) -> Run {
        Run::of(Command::new(MEMTRAIL).current_dir(dir).args(args))
    }

    fn of(command: &mut Command) -> Run {
        // SAFETY: prctl with numbers: orphans of ours become our children.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Run { child, stdout }
    }

    fn memtrail(&self) -> i32 {
        self.child.id() as i32
    }

    /// The first line of a target tells its process id.
    fn target(&mut self) -> i32 {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim()
            .parse()
            .unwrap_or_else(|_| panic!("no process id in {line:?}"))
    }

    fn tell(&mut self, line: &str) {
        // Whoever has ended cannot hear it; how it ended is seen later.
        let _ = writeln!(self.child.stdin.as_mut().unwrap(), "{line}");
    }

    /// Kills memtrail and waits until it is dead, but leaves the zombie: a target must not take
    /// that for life.
    fn kill_collector(&self) {
        kill(self.memtrail(), libc::SIGKILL);
        // SAFETY: zero bytes are a valid siginfo, which waitid fills.
        let r = unsafe {
            let mut info = std::mem::zeroed();
            libc::waitid(
                libc::P_PID,
                self.memtrail() as u32,
                &mut info,
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        assert_eq!(r, 0);
    }

    /// Waits until the whole group has ended.
    fn ends(mut self) -> Ends {
        drop(self.child.stdin.take());
        let group = self.child.id() as i32;
        let mut stderr = self.child.stderr.take().unwrap();
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).map(|_| text)
        });
        let mut stdout = String::new();
        let (mut statuses, begin) = (Vec::new(), Instant::now());
        loop {
            let mut status = 0;
            // SAFETY: waitpid writes the status.
            let pid = unsafe { libc::waitpid(-group, &mut status, libc::WNOHANG) };
            match pid {
                0 if begin.elapsed() > PATIENCE => {
                    kill(-group, libc::SIGKILL);
                    panic!("it hangs; ended so far: {statuses:?}");
                }
                0 => std::thread::sleep(Duration::from_millis(5)),
                -1 => break,
                _ if libc::WIFSIGNALED(status) => statuses.push((pid, 128 + libc::WTERMSIG(status))),
                _ => statuses.push((pid, libc::WEXITSTATUS(status))),
            }
        }
        // SAFETY: signal 0 only asks.
        assert_eq!(unsafe { libc::kill(-group, 0) }, -1, "a process is left");
        self.stdout.read_to_string(&mut stdout).unwrap();
        for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            let name = entry.file_name();
            assert!(!name.to_string_lossy().contains("memtrail"), "{name:?} is left");
        }
        Ends {
            statuses,
            stdout,
            stderr: said.join().unwrap().unwrap(),
        }
    }
}

/// Runs memtrail to its end and expects exactly this status and these words on stderr.
fn expect(dir: &Path, args: &[&str], status: i32, stderr: &str) {
    expect_of(Command::new(MEMTRAIL).current_dir(dir).args(args), status, stderr);
}

fn expect_of(command: &mut Command, status: i32, stderr: &str) {
    let run = Run::of(command);
    let me = run.memtrail();
    let ends = run.ends();
    assert_eq!((ends.of(me), ends.stderr.as_str()), (status, stderr), "{command:?}");
}

fn compile(dir: &TempDir, name: &str, source: &str) -> String {
    let (c, program) = (dir.path().join(format!("{name}.c")), dir.path().join(name));
    fs::write(&c, source).unwrap();
    let cc = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(&c)
        .output()
        .unwrap();
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
    program.to_str().unwrap().to_string()
}

fn executable(dir: &TempDir, name: &str, contents: &[u8], mode: u32) -> String {
    let path = dir.path().join(name);
    fs::write(&path, contents).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_string()
}

/// Tells its pid; then `busy N` rounds of memory traffic, `wait` for a line, `threads N` at once,
/// `spawn N` one after the other, `forks N`; prints a sum and exits with 7.
const TARGET: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile unsigned table[1 << 16];
static unsigned busy(long n) {
    unsigned x = 1, sum = 0;
    for (long i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        if (x & 0x10000) sum += table[x >> 16]; else sum += 2 * table[x >> 16] + 1;
    }
    return sum;
}
static void *thread(void *n) { return (void *)(long)busy((long)n); }
int main(int count, char **args) {
    setvbuf(stdout, 0, _IONBF, 0);
    printf("%d\n", getpid());
    unsigned sum = 0;
    for (int i = 1; i < count; i += 2) {
        long n = atol(args[i + 1]);
        void *result;
        pthread_t ids[64], one;
        if (!strcmp(args[i], "busy")) sum += busy(n);
        else if (!strcmp(args[i], "wait")) getchar();
        else if (!strcmp(args[i], "threads")) {
            for (int t = 0; t < 64; t++) pthread_create(&ids[t], 0, thread, (void *)n);
            for (int t = 0; t < 64; t++) pthread_join(ids[t], &result), sum += (unsigned)(long)result;
        } else if (!strcmp(args[i], "spawn")) {
            for (long t = 0; t < n; t++) {
                if (pthread_create(&one, 0, thread, (void *)10)) return 99;
                pthread_join(one, 0);
            }
        } else if (!strcmp(args[i], "forks")) {
            for (long t = 0; t < n; t++) {
                int status = 0;
                pid_t child = fork();
                if (child == 0) { busy(10); _exit(3); }
                waitpid(child, &status, 0);
                if (WEXITSTATUS(status) != 3) return 98;
            }
        }
    }
    printf("%u\n", sum);
    return 7;
}
"#;

fn native(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_once('\n').unwrap().1.to_string()
}

/// Time on the processor of a process, in ticks.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Waits until a process has run for a while: a quarter of a second of processor time, in ticks of
/// 10 ms.
fn wait_until_busy(pid: i32) {
    let begin = Instant::now();
    while ticks(pid) < 25 {
        assert!(begin.elapsed() < PATIENCE, "the target does not run");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a process makes no headway any more.
fn wait_until_stuck(pid: i32) {
    let (begin, mut still, mut last) = (Instant::now(), 0, ticks(pid));
    while still < 5 {
        std::thread::sleep(Duration::from_millis(100));
        let now = ticks(pid);
        still = if now == last { still + 1 } else { 0 };
        last = now;
        assert!(begin.elapsed() < PATIENCE, "the ring never fills");
    }
}

/// Kills the collector of a run in the given way; everything must come out as without it.
fn kill_collector(args: &[&str], when: impl FnOnce(&mut Run, i32)) {
    let dir = tempdir().unwrap();
    let program = compile(&dir, "target", TARGET);
    let all = [&["record", "-o", "a", "--", &program], args].concat();
    let mut run = Run::start(dir.path(), &all);
    let (me, pid) = (run.memtrail(), run.target());
    when(&mut run, pid);
    let ends = run.ends();
    assert_eq!(ends.of(me), 128 + libc::SIGKILL);
    assert_eq!(ends.of(pid), 7, "{}", ends.stderr);
    assert_eq!(ends.stderr, GONE);
    assert_eq!(ends.stdout, native(&program, args));
    let info = Command::new(MEMTRAIL)
        .current_dir(dir.path())
        .args(["info", "a"])
        .output()
        .unwrap();
    assert_eq!(info.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&info.stderr).contains("cut off"));
}

#[test]
fn collector_killed_while_the_target_is_busy() {
    kill_collector(&["busy", "100000000"], |run, pid| {
        wait_until_busy(pid);
        run.kill_collector();
    });
}

#[test]
fn collector_killed_while_the_target_waits_for_space() {
    kill_collector(&["busy", "50000000"], |run, pid| {
        kill(run.memtrail(), libc::SIGSTOP);
        wait_until_stuck(pid);
        run.kill_collector();
    });
}

#[test]
fn collector_killed_while_the_target_sleeps_in_a_system_call() {
    kill_collector(&["wait", "0"], |run, pid| {
        wait_until_stuck(pid);
        run.kill_collector();
        run.tell("go on");
    });
}

#[test]
fn collector_killed_while_many_threads_run() {
    kill_collector(&["threads", "2000000", "spawn", "50"], |run, pid| {
        kill(run.memtrail(), libc::SIGSTOP);
        wait_until_stuck(pid);
        run.kill_collector();
    });
}

/// Nobody gives back slots any more, so they must not be needed: there are 4096.
#[test]
fn threads_and_processes_without_a_collector_have_no_limit() {
    kill_collector(&["wait", "0", "forks", "2100", "spawn", "4200"], |run, _| {
        run.kill_collector();
        run.tell("go on");
    });
}

#[test]
fn collector_killed_while_a_shell_runs_programs() {
    let dir = tempdir().unwrap();
    let script = "echo $$; read x; /bin/echo one; (/bin/echo two; exit 3); echo $?; exec /bin/echo three";
    let mut run = Run::start(dir.path(), &["record", "-o", "a", "--", "sh", "-c", script]);
    let pid = run.target();
    run.kill_collector();
    run.tell("x");
    let ends = run.ends();
    assert_eq!(
        (ends.of(pid), ends.stdout.as_str(), ends.stderr.as_str()),
        (0, "one\ntwo\n3\nthree\n", GONE)
    );
}

#[test]
fn collector_killed_when_discarding() {
    let dir = tempdir().unwrap();
    let script = "echo $$; read x; /bin/echo one; exit 4";
    let mut run = Run::start(dir.path(), &["record", "--discard", "--", "sh", "-c", script]);
    let pid = run.target();
    run.kill_collector();
    run.tell("x");
    let ends = run.ends();
    assert_eq!(
        (ends.of(pid), ends.stdout.as_str(), ends.stderr.as_str()),
        (4, "one\n", GONE)
    );
}

#[test]
fn target_killed_while_many_threads_run() {
    let dir = tempdir().unwrap();
    let program = compile(&dir, "target", TARGET);
    let mut run = Run::start(
        dir.path(),
        &["record", "-o", "a", "--", &program, "threads", "1000000000"],
    );
    let (me, pid) = (run.memtrail(), run.target());
    wait_until_busy(pid);
    kill(pid, libc::SIGKILL);
    let ends = run.ends();
    assert_eq!(ends.of(me), 137, "{}", ends.stderr);
    assert!(ends.stderr.contains(" accesses in a ("), "{}", ends.stderr);
    let check = Command::new(MEMTRAIL)
        .current_dir(dir.path())
        .args(["check", "a"])
        .output()
        .unwrap();
    assert_eq!(
        check.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&check.stderr)
    );
}

/// What is said when storing fails half-way.
fn stopped(cause: &str, error: &str, file: &str) -> String {
    format!(
        "memtrail: recording has stopped; the target goes on unrecorded\n\
         memtrail: {cause}\n\
         memtrail: cannot store what was recorded: {error}\n\
         memtrail: {file} holds what was recorded until then; memtrail info {file} reads it\n"
    )
}

/// A file system of 1 MB, in a mount namespace of its own so that nothing stays mounted.
#[test]
fn the_disk_is_full_half_way() {
    let dir = tempdir().unwrap();
    let program = compile(&dir, "target", TARGET);
    fs::create_dir(dir.path().join("disk")).unwrap();
    // SAFETY: geteuid takes nothing.
    let flags = if unsafe { libc::geteuid() } == 0 { "-m" } else { "-Urm" };
    let script = format!(
        "mount -t tmpfs -o size=1m none disk || {{ echo 'cannot mount: run as root or allow user namespaces'; exit 99; }}\n\
         {MEMTRAIL} record -o disk/a -- {program} busy 30000000; echo $?; {MEMTRAIL} info disk/a | grep ^file"
    );
    let mut run = Run::of(
        Command::new("unshare")
            .current_dir(dir.path())
            .args([flags, "sh", "-c", &script]),
    );
    run.target();
    let ends = run.ends();
    let sum = native(&program, &["busy", "30000000"]);
    assert_eq!(
        ends.stdout,
        format!("{sum}125\nfile             1.0 MB\n"),
        "{}",
        ends.stderr
    );
    let said = stopped("the disk is full", "No space left on device (os error 28)", "disk/a");
    assert!(ends.stderr.starts_with(&said), "{}", ends.stderr);
    assert!(
        ends.stderr[said.len()..].contains("this recording was cut off"),
        "{}",
        ends.stderr
    );
}

#[test]
fn the_file_may_not_grow_half_way() {
    let dir = tempdir().unwrap();
    let program = compile(&dir, "target", TARGET);
    let mut run = Run::start(
        dir.path(),
        &["record", "-o", "a", "--", &program, "wait", "0", "busy", "30000000"],
    );
    let (me, pid) = (run.memtrail(), run.target());
    let limit = libc::rlimit {
        rlim_cur: 1 << 20,
        rlim_max: 1 << 20,
    };
    // SAFETY: prlimit reads the limit.
    let r = unsafe { libc::prlimit(me, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
    assert_eq!(r, 0);
    run.tell("go on");
    let ends = run.ends();
    let said = stopped(
        "the limit on file sizes is reached (ulimit -f)",
        "File too large (os error 27)",
        "a",
    );
    assert_eq!((ends.of(me), ends.stderr), (125, said));
    // It was memtrail's child, and memtrail reports its own failure: its output tells that it ended
    // well.
    assert!(!ends.statuses.iter().any(|e| e.0 == pid));
    assert_eq!(ends.stdout, native(&program, &["busy", "30000000"]));
}

#[test]
fn no_space_at_all() {
    let dir = tempdir().unwrap();
    let said = "memtrail: cannot write /dev/full: No space left on device (os error 28)\n";
    expect(
        dir.path(),
        &["record", "-f", "-o", "/dev/full", "--", "true"],
        125,
        said,
    );
}

#[test]
fn limits_that_are_too_low() {
    let dir = tempdir().unwrap();
    for (limit, said) in [
        (
            "ulimit -f 100",
            "memtrail: cannot make the shared memory (ulimit -f is too low): File too large (os error 27)\n",
        ),
        (
            "ulimit -v 4000000",
            "memtrail: cannot make the shared memory: Cannot allocate memory (os error 12)\n",
        ),
    ] {
        let script = format!("{limit}; exec {MEMTRAIL} record -o a -- true");
        expect_of(
            Command::new("sh").current_dir(dir.path()).args(["-c", &script]),
            125,
            said,
        );
        let script = format!("{limit}; exec {MEMTRAIL} doctor");
        let doctor = Command::new("sh").args(["-c", &script]).output().unwrap();
        let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert_eq!(doctor.status.code(), Some(1), "{text}");
        assert!(
            text.contains("memtrail reserves much and uses little of it: ulimit -"),
            "{text}"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a file is left");
    }
}

/// A system call is forbidden by seccomp: what containers do.
fn forbid(command: &mut Command, number: libc::c_long) -> &mut Command {
    let load = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let filter = [
        load(0x20, 0), // the number
        libc::sock_filter {
            code: 0x15,
            jt: 0,
            jf: 1,
            k: number as u32,
        },
        load(0x06, 0x0005_0000 | libc::EPERM as u32), // an error
        load(0x06, 0x7fff_0000),                      // allowed
    ];
    // SAFETY: prctl is async-signal-safe, and the filter is moved into the closure.
    unsafe {
        command.pre_exec(move || {
            let mut filter = filter;
            let program = libc::sock_fprog {
                len: filter.len() as u16,
                filter: filter.as_mut_ptr(),
            };
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            match libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    }
}

#[test]
fn tracing_is_forbidden() {
    let dir = tempdir().unwrap();
    let said = "memtrail: PTRACE_SEIZE failed: Operation not permitted (os error 1)\n\
                memtrail: memtrail doctor may tell why, and what to do\n";
    let mut command = Command::new(MEMTRAIL);
    command
        .current_dir(dir.path())
        .args(["record", "-o", "a", "--", "true"]);
    expect_of(forbid(&mut command, libc::SYS_ptrace), 125, said);
    assert!(!dir.path().join("a").exists());
    let doctor = forbid(Command::new(MEMTRAIL).arg("doctor"), libc::SYS_ptrace)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert_eq!(doctor.status.code(), Some(1), "{text}");
    assert!(text.contains("note  seccomp        a filter is active"), "{text}");
    assert!(
        text.contains("BAD   ptrace         PTRACE_SEIZE: Operation not permitted"),
        "{text}"
    );
}

#[test]
fn shared_memory_is_forbidden() {
    let dir = tempdir().unwrap();
    let said = "memtrail: cannot make the shared memory: Operation not permitted (os error 1)\n";
    let mut command = Command::new(MEMTRAIL);
    command
        .current_dir(dir.path())
        .args(["record", "-o", "a", "--", "true"]);
    expect_of(forbid(&mut command, libc::SYS_memfd_create), 125, said);
    let doctor = forbid(Command::new(MEMTRAIL).arg("doctor"), libc::SYS_memfd_create)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert_eq!(doctor.status.code(), Some(1), "{text}");
    assert!(text.contains("BAD   memfd"), "{text}");
}

/// Somebody traces memtrail itself: worth a note, no hindrance.
#[test]
fn a_tracer_is_noticed() {
    // ptrace belongs to a thread: all of it happens on this one.
    let mut command = Command::new(MEMTRAIL);
    command.arg("doctor").stdout(Stdio::piped());
    // SAFETY: PTRACE_TRACEME takes nothing.
    unsafe {
        command.pre_exec(|| {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            Ok(())
        });
    }
    let tracer = std::thread::spawn(move || {
        // Not `spawn`: the exec stops, and spawn waits for the exec to succeed, which it has by
        // then.
        #[allow(clippy::zombie_processes)] // waited for below, as its tracer
        let mut child = command.spawn().unwrap();
        let pid = child.id() as i32;
        let mut status = 0;
        loop {
            // SAFETY: waitpid writes the status; PTRACE_CONT takes numbers.
            unsafe {
                assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                if !libc::WIFSTOPPED(status) {
                    break;
                }
                let signal = libc::WSTOPSIG(status);
                let signal = if signal == libc::SIGTRAP { 0 } else { signal };
                libc::ptrace(libc::PTRACE_CONT, pid, 0, signal as usize);
            }
        }
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        (libc::WEXITSTATUS(status), text)
    });
    let (status, text) = tracer.join().unwrap();
    assert!(text.contains("note  TracerPid      process "), "{text}");
    assert_eq!(status, 0, "{text}");
}

/// A copy of memtrail that runs as nobody, if we are root: root may do everything.
fn as_nobody(dir: &TempDir) -> Command {
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy: PathBuf = dir.path().join("memtrail");
    fs::copy(MEMTRAIL, &copy).unwrap();
    let mut command = Command::new(copy);
    // SAFETY: geteuid takes nothing.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(65534).gid(65534);
    }
    command.current_dir(dir.path());
    command
}

#[test]
fn programs_that_may_be_executed_but_not_read() {
    let dir = tempdir().unwrap();
    let secret = executable(
        &dir,
        "secret",
        &fs::read(fs::canonicalize("/bin/true").unwrap()).unwrap(),
        0o111,
    );
    let out = tempdir().unwrap();
    fs::set_permissions(out.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let file = out.path().join("a");
    let said = format!("memtrail: {secret}: cannot be recorded without permission to read it\n");
    expect_of(
        as_nobody(&dir).args(["record", "-o"]).arg(&file).args(["--", &secret]),
        126,
        &said,
    );
    assert!(!file.exists(), "a file is left");
    // Met later, it runs unrecorded.
    let script = format!("{secret}; echo $?");
    let done = as_nobody(&dir)
        .args(["record", "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", &script])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(
        (done.status.code(), done.stdout.as_slice()),
        (Some(0), &b"0\n"[..]),
        "{said}"
    );
    assert!(
        said.contains("goes on unrecorded: cannot be recorded without permission to read it\n"),
        "{said}"
    );
}

#[test]
fn no_permission() {
    let dir = tempdir().unwrap();
    let program = executable(&dir, "plain", b"#!/bin/sh\n", 0o644);
    fs::create_dir(dir.path().join("closed")).unwrap();
    fs::set_permissions(dir.path().join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    let said = format!("memtrail: {program}: cannot execute: Permission denied (os error 13)\n");
    expect_of(
        as_nobody(&dir).args(["record", "-o", "/dev/null", "-f", "--", &program]),
        126,
        &said,
    );
    let said = "memtrail: cannot create closed/a: Permission denied (os error 13)\n";
    expect_of(
        as_nobody(&dir).args(["record", "-o", "closed/a", "--", "true"]),
        125,
        said,
    );
}

#[test]
fn outputs_that_cannot_be() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("precious"), "precious").unwrap();
    for (output, said) in [
        (
            "/no/such/a",
            "cannot create /no/such/a: No such file or directory (os error 2)",
        ),
        ("precious", "precious exists; use -f to overwrite it"),
        ("precious/a", "cannot create precious/a: Not a directory (os error 20)"),
    ] {
        expect(
            dir.path(),
            &["record", "-o", output, "--", "true"],
            125,
            &format!("memtrail: {said}\n"),
        );
    }
    let said = "memtrail: cannot create .: Is a directory (os error 21)\n";
    expect(dir.path(), &["record", "-f", "-o", ".", "--", "true"], 125, said);
}

#[test]
fn programs_that_are_none() {
    let dir = tempdir().unwrap();
    let header = |machine: u8| [&b"\x7fELF\x02\x01\x01"[..], &[0; 9], &[2, 0, machine, 0], &[0; 44]].concat();
    for (name, contents, status, said) in [
        (
            "text",
            &b"echo no interpreter\n"[..],
            126,
            "cannot execute: not a program, and no '#!' line names its interpreter",
        ),
        (
            "empty",
            b"",
            126,
            "cannot execute: not a program, and no '#!' line names its interpreter",
        ),
        (
            "script",
            b"#! /no/such/interpreter -x\n",
            127,
            "cannot execute: its interpreter /no/such/interpreter does not exist",
        ),
        (
            "arm",
            &header(183),
            126,
            "a program for another machine (ELF machine 183); memtrail records 64-bit x86-64 programs only",
        ),
    ] {
        let program = executable(&dir, name, contents, 0o755);
        let args = ["record", "-o", "a", "--", &program];
        expect(dir.path(), &args, status, &format!("memtrail: {program}: {said}\n"));
        assert!(!dir.path().join("a").exists(), "a file is left");
    }
    // A program whose loader is missing.
    let program = compile(&dir, "odd", "int main(void) { return 0; }");
    let mut elf = fs::read(&program).unwrap();
    let at = elf.windows(6).position(|w| w == b"/lib64").unwrap();
    elf[at + 1] = b'L';
    let program = executable(&dir, "loaderless", &elf, 0o755);
    let said =
        format!("memtrail: {program}: cannot execute: its interpreter /Lib64/ld-linux-x86-64.so.2 does not exist\n");
    expect(dir.path(), &["record", "-o", "a", "--", &program], 127, &said);
}

#[test]
fn instructions_that_nobody_knows() {
    let dir = tempdir().unwrap();
    // 06 (push es) does not exist in 64-bit code.
    let source = |handler: &str| {
        format!(
            "#define _GNU_SOURCE\n#include <signal.h>\n#include <stdio.h>\n#include <ucontext.h>\n\
             static void skip(int n, siginfo_t *i, void *c) {{ ((ucontext_t *)c)->uc_mcontext.gregs[REG_RIP] += 1; }}\n\
             int main(void) {{\n{handler}\n__asm__ volatile(\".byte 0x06\"); puts(\"went on\"); return 5; }}\n"
        )
    };
    let bad = compile(&dir, "bad", &source(""));
    let run = Run::start(dir.path(), &["record", "-o", "a", "--", &bad]);
    let me = run.memtrail();
    let ends = run.ends();
    assert_eq!(ends.of(me), 128 + libc::SIGILL, "{}", ends.stderr);
    let first = ends.stderr.lines().next().unwrap();
    assert!(first.starts_with("memtrail: unknown instruction at 0x"), "{first}");
    assert!(
        first.contains(", bytes 0x06") && first.ends_with(": delivering SIGILL"),
        "{first}"
    );
    // With a handler it is the program's own business.
    let handled = "struct sigaction a = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO}; sigaction(SIGILL, &a, 0);";
    let good = compile(&dir, "good", &source(handled));
    let run = Run::start(dir.path(), &["record", "-f", "-o", "a", "--", &good]);
    let me = run.memtrail();
    let ends = run.ends();
    assert_eq!((ends.of(me), ends.stdout.as_str()), (5, "went on\n"), "{}", ends.stderr);
    assert!(!ends.stderr.contains("unknown"), "{}", ends.stderr);
}

/// On a terminal there is a line that tells how far it is; it is gone at the end. Elsewhere there
/// is none (as all the tests above show, which compare every word).
#[test]
fn progress_is_shown_on_terminals() {
    use std::os::fd::{FromRawFd, OwnedFd};
    let dir = tempdir().unwrap();
    let program = compile(&dir, "target", TARGET);
    let (mut master, mut slave) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: openpty fills the two descriptors, which are ours then.
    let (master, slave) = unsafe {
        assert_eq!(
            libc::openpty(&mut master, &mut slave, null, null.cast(), null.cast()),
            0
        );
        (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    };
    let mut child = Command::new(MEMTRAIL)
        .current_dir(dir.path())
        .env("TERM", "xterm")
        .args(["record", "-o", "a", "--", &program, "busy", "40000000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(slave)
        .spawn()
        .unwrap();
    let reader = std::thread::spawn(move || {
        let (mut text, mut piece) = (Vec::new(), [0; 4096]);
        let mut master = fs::File::from(master);
        // The other end is closed: EIO.
        while let Ok(n @ 1..) = master.read(&mut piece) {
            text.extend_from_slice(&piece[..n]);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let text = reader.join().unwrap();
    let lines = text.matches(" bits each), ").count();
    assert!(lines >= 1, "{text:?}");
    assert!(text.contains("B written ("), "{text:?}");
    assert!(text.contains(" times the target's own"), "{text:?}");
    let last = text.rsplit(" bits each), ").next().unwrap();
    assert!(
        last.contains("accesses in a (") && last.contains("\u{1b}[2K"),
        "the line stays: {text:?}"
    );
}
