//! Runs one program under watch: its own process group, a timeout, its CPU time,
//! and a look at what it left behind.
//!
//! Problem: the recorder is a tree of processes, and the failures that matter
//! most (a target that hangs, a collector that outlives it, shared memory that
//! nobody unlinks) do not show in an exit status.
//!
//! Idea: we are the *subreaper* of all we start, so a process whose parents are
//! gone becomes our child instead of init's, however it detached itself. After
//! the program ends, every child of ours that is not the program is an orphan
//! of it. Orphans get [`GRACE`] to end by themselves; those still alive then are
//! killed and reported.
//!
//! Invariant: [`run`] returns with no process of its tree left. It must therefore
//! not run twice at the same time in one process; [`start_beside`] is the exception
//! for a driver and waits for it by pid.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an orphan may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// How a program ended, in the shell's terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub i32);

impl Status {
    fn from_wait(raw: i32) -> Status {
        if libc::WIFSIGNALED(raw) {
            Status(128 + libc::WTERMSIG(raw))
        } else {
            Status(libc::WEXITSTATUS(raw))
        }
    }

    pub fn success(self) -> bool {
        self.0 == 0
    }
}

/// What to run, and with what around it.
pub struct Job<'a> {
    pub argv: Vec<String>,
    pub dir: &'a Path,
    pub env: Vec<(String, String)>,
    pub stdin: Option<PathBuf>,
    /// Where standard output and error go; `None` is /dev/null.
    pub stdout: Option<PathBuf>,
    pub stderr: Option<PathBuf>,
    pub timeout: Duration,
}

impl<'a> Job<'a> {
    pub fn new<S: AsRef<str>>(argv: &[S], dir: &'a Path) -> Job<'a> {
        Job {
            argv: argv.iter().map(|a| a.as_ref().to_string()).collect(),
            dir,
            env: Vec::new(),
            stdin: None,
            stdout: None,
            stderr: None,
            timeout: Duration::from_secs(600),
        }
    }

    fn command(&self) -> Result<Command, String> {
        let (program, args) = self.argv.split_first().ok_or("empty command")?;
        let mut command = Command::new(OsStr::new(program));
        command.args(args).current_dir(self.dir).process_group(0);
        for (key, value) in &self.env {
            command.env(key, value);
        }
        let read = |path: &PathBuf| File::open(path).map_err(|e| format!("{}: {e}", path.display()));
        let write = |path: &PathBuf| File::create(path).map_err(|e| format!("{}: {e}", path.display()));
        command.stdin(match &self.stdin {
            Some(path) => read(path)?.into(),
            None => Stdio::null(),
        });
        for (path, set) in [
            (&self.stdout, Command::stdout as fn(&mut Command, Stdio) -> &mut Command),
            (&self.stderr, Command::stderr),
        ] {
            set(
                &mut command,
                match path {
                    Some(path) => write(path)?.into(),
                    None => Stdio::null(),
                },
            );
        }
        Ok(command)
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Finished {
    pub status: Status,
    pub wall: Duration,
    /// User + system time of the program and of the descendants it waited for.
    pub cpu: Duration,
    /// The most memory that one of them had at once.
    pub peak_bytes: u64,
    pub timed_out: bool,
    /// Descendants that outlived the program and the grace period.
    pub leftover_processes: Vec<String>,
    /// Entries of /dev/shm that were not there before.
    pub leftover_shm: Vec<String>,
}

/// Runs `job` to its end, at most until its timeout.
pub fn run(job: &Job) -> Result<Finished, String> {
    become_subreaper();
    let shm_before = shm_entries();
    let begin = Instant::now();
    let child = job.command()?.spawn().map_err(|e| format!("{}: {e}", job.argv[0]))?;
    let pid = child.id() as libc::pid_t;
    let (status, usage, timed_out) = wait_watched(pid, job.timeout)?;
    let wall = begin.elapsed();
    let leftover_processes = reap_orphans(if timed_out { Duration::ZERO } else { GRACE });
    let leftover_shm = shm_after(&shm_before);
    let cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    let status = Status::from_wait(status);
    Ok(Finished {
        status,
        wall,
        cpu,
        // Linux counts kilobytes.
        peak_bytes: (usage.ru_maxrss as u64) << 10,
        timed_out,
        leftover_processes,
        leftover_shm,
    })
}

/// Starts a helper that runs beside a later [`run`]. The caller must `join_beside` it after that
/// run; it must not count on it as an orphan before (see [`DRIVERS`]).
pub fn start_beside(job: &Job) -> Result<Child, String> {
    let child = job.command()?.spawn().map_err(|e| format!("{}: {e}", job.argv[0]))?;
    DRIVERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(child.id() as libc::pid_t);
    Ok(child)
}

/// Waits for a helper, at most `timeout`, then kills its group.
pub fn join_beside(child: Child, timeout: Duration) -> Result<Status, String> {
    let pid = child.id() as libc::pid_t;
    let (status, _, _) = wait_watched(pid, timeout)?;
    DRIVERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|p| *p != pid);
    Ok(Status::from_wait(status))
}

/// Direct children of ours that are no orphans of the program under watch.
static DRIVERS: Mutex<Vec<libc::pid_t>> = Mutex::new(Vec::new());

fn become_subreaper() {
    // SAFETY: prctl with PR_SET_CHILD_SUBREAPER takes integers and touches no memory of ours.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// Blocks in wait4 while a second thread holds the watch. Killing the group ends the program; what
/// left the group is an orphan and dealt with there.
fn wait_watched(pid: libc::pid_t, timeout: Duration) -> Result<(i32, libc::rusage, bool), String> {
    let ended = (Mutex::new(false), Condvar::new());
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let guard = ended.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (guard, _) = ended
                .1
                .wait_timeout_while(guard, timeout, |ended| !*ended)
                .unwrap_or_else(PoisonError::into_inner);
            // The lock is held: the pid cannot have been reaped and reused meanwhile without
            // `ended`.
            let expired = !*guard;
            if expired {
                kill(-pid);
                kill(pid);
            }
            expired
        });
        let mut status = 0;
        // SAFETY: rusage is a plain C struct of integers, for which all zeros is a valid value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let waited = loop {
            // SAFETY: both pointers are to live locals of the right type.
            let waited = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
            if waited != -1 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break waited;
            }
        };
        *ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        ended.1.notify_all();
        let expired = watch.join().map_err(|_| "the watch thread panicked")?;
        if waited != pid {
            return Err(format!("wait4: {}", io::Error::last_os_error()));
        }
        Ok((status, usage, expired))
    })
}

fn kill(pid: libc::pid_t) {
    // SAFETY: kill takes two integers; `pid` is a child of ours that is not reaped yet, or its
    // group.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
    }
}

/// Reaps what the program left; kills and names what is still alive after `grace`.
fn reap_orphans(grace: Duration) -> Vec<String> {
    let deadline = Instant::now() + grace;
    let mut named = Vec::new();
    loop {
        let mut alive = Vec::new();
        for (pid, state, name) in children() {
            if state == 'Z' {
                let mut status = 0;
                // SAFETY: the pointer is to a live local; the pid is a zombie child of ours.
                unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
            } else {
                alive.push((pid, name));
            }
        }
        if alive.is_empty() {
            return named;
        }
        if Instant::now() >= deadline {
            for (pid, name) in alive {
                kill(pid);
                let entry = format!("{name} ({pid})");
                if !named.contains(&entry) {
                    named.push(entry);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Our children that are not drivers: pid, state, name.
fn children() -> Vec<(libc::pid_t, char, String)> {
    let me = std::process::id();
    let drivers = DRIVERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: libc::pid_t = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let (state, parent, name) = parse_stat(&stat)?;
            (parent == me && !drivers.contains(&pid)).then_some((pid, state, name))
        })
        .collect()
}

/// `pid (name) state ppid …`; the name may hold blanks and parentheses.
fn parse_stat(stat: &str) -> Option<(char, u32, String)> {
    let open = stat.find('(')?;
    let close = stat.rfind(')')?;
    let mut rest = stat.get(close + 1..)?.split_whitespace();
    let state = rest.next()?.chars().next()?;
    let parent = rest.next()?.parse().ok()?;
    Some((state, parent, stat.get(open + 1..close)?.to_string()))
}

fn shm_entries() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/dev/shm") else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect()
}

fn shm_after(before: &[String]) -> Vec<String> {
    shm_entries()
        .into_iter()
        .filter(|name| !before.contains(name))
        .collect()
}

fn seconds(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Held by every test that has children: [`run`] takes all children of this process for its own.
#[cfg(test)]
pub fn with_children() -> std::sync::MutexGuard<'static, ()> {
    static CHILDREN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, timeout: Duration) -> Finished {
        let mut job = Job::new(&["sh", "-c", script], Path::new("/"));
        job.timeout = timeout;
        run(&job).expect("sh runs")
    }

    /// One test: `run` must not run twice at the same time (module head).
    #[test]
    fn statuses_timeouts_and_leftovers() {
        let _alone = super::with_children();
        let long = Duration::from_secs(20);
        assert_eq!(sh("exit 3", long).status, Status(3));
        assert_eq!(sh("kill -TERM $$", long).status, Status(128 + 15));

        let hang = sh("sleep 60", Duration::from_millis(200));
        assert!(hang.timed_out);
        assert_eq!(hang.status, Status(128 + 9));

        let quiet = sh("(sleep 0.2 &)", long);
        assert_eq!(quiet.leftover_processes, Vec::<String>::new());

        let left = sh("setsid sleep 60 &", long);
        assert_eq!(left.leftover_processes.len(), 1, "{left:?}");
        assert!(left.leftover_processes[0].starts_with("sleep"));
    }

    #[test]
    fn names_with_parentheses() {
        assert_eq!(parse_stat("12 (a) b) S 7 1"), Some(('S', 7, "a) b".into())));
    }
}
