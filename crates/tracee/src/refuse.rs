//! Why a running process cannot be attached to, and what to do about it.
use crate::image::wrong_machine;
use std::fs;
use std::io::Read;

/// A process that cannot be attached to. Each says what is in the way and how to go around it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no process {pid}")]
    NoSuchProcess { pid: i32 },
    #[error("{pid} is a thread of process {process}; attach to {process}")]
    IsThread { pid: i32, process: i32 },
    #[error("process {pid} has ended already and waits for its parent (a zombie)")]
    Zombie { pid: i32 },
    #[error("process {pid} is a thread of the kernel; memtrail records programs")]
    KernelThread { pid: i32 },
    #[error("process {pid} is memtrail itself")]
    Itself { pid: i32 },
    #[error("process {pid} is traced by process {tracer} ({name}), and a process has one tracer; end that one first")]
    AlreadyTraced { pid: i32, tracer: i32, name: String },
    #[error("process {pid} is being recorded by memtrail already")]
    AlreadyRecorded { pid: i32 },
    #[error("process {pid} is {what}; memtrail records 64-bit x86-64 programs only")]
    WrongMachine { pid: i32, what: String },
    #[error("process {pid} runs 32-bit code; memtrail records 64-bit code only")]
    OtherMode { pid: i32 },
    #[error(
        "process {pid} has a seccomp filter, which may end it for what memtrail's runtime does; \
         if the filter is a container's ordinary one, try --allow-seccomp"
    )]
    Seccomp { pid: i32 },
    #[error("process {pid} belongs to user {owner}; attach as that user, or as root")]
    OtherUser { pid: i32, owner: u32 },
    #[error(
        "the kernel lets no process trace another that is not its child (kernel.yama.ptrace_scope is 1); \
         run memtrail as root, or: sysctl kernel.yama.ptrace_scope=0"
    )]
    ScopeChildren,
    #[error(
        "the kernel lets only those with CAP_SYS_PTRACE trace others (kernel.yama.ptrace_scope is 2); \
         run memtrail as root"
    )]
    ScopeAdministrators,
    #[error("the kernel lets nobody trace (kernel.yama.ptrace_scope is 3, until the next boot)")]
    ScopeNobody,
    #[error(
        "the kernel does not permit to trace process {pid}: it may not be dumped, or has capabilities \
         that memtrail lacks; run memtrail as root (in a container: with --cap-add SYS_PTRACE)"
    )]
    NotPermitted { pid: i32 },
    #[error("thread {tid} of process {pid} does not stop (it waits in the kernel for something); try again later")]
    DoesNotStop { pid: i32, tid: i32 },
}

/// A field of /proc/PID/status.
pub(crate) fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    let value = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    value.map(str::trim)
}

fn number<T: std::str::FromStr>(status: &str, name: &str) -> Option<T> {
    field(status, name)?.split_whitespace().next()?.parse().ok()
}

/// What can be seen of a process before it is touched.
pub fn refusal(pid: i32, allow_seccomp: bool) -> Option<Refusal> {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return Some(Refusal::NoSuchProcess { pid });
    };
    let process = number(&status, "Tgid").unwrap_or(pid);
    if process != pid {
        return Some(Refusal::IsThread { pid, process });
    }
    if pid == std::process::id() as i32 {
        return Some(Refusal::Itself { pid });
    }
    if field(&status, "State").is_some_and(|s| s.starts_with(['Z', 'X'])) && only_thread(pid) {
        return Some(Refusal::Zombie { pid });
    }
    if field(&status, "VmSize").is_none() && only_thread(pid) {
        return Some(Refusal::KernelThread { pid });
    }
    let tracer = number(&status, "TracerPid").unwrap_or(0);
    if tracer != 0 {
        let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
        let name = name.trim_end().to_string();
        return Some(Refusal::AlreadyTraced { pid, tracer, name });
    }
    if number(&status, "Seccomp").unwrap_or(0) != 0 && !allow_seccomp {
        return Some(Refusal::Seccomp { pid });
    }
    let mut header = [0; 64];
    let exe = fs::File::open(format!("/proc/{pid}/exe"));
    if exe.and_then(|mut f| f.read_exact(&mut header)).is_ok() {
        if let Some(what) = wrong_machine(&header) {
            return Some(Refusal::WrongMachine { pid, what });
        }
    }
    match fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) if maps.contains("/memfd:memtrail-session") => Some(Refusal::AlreadyRecorded { pid }),
        _ => None,
    }
}

fn only_thread(pid: i32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() <= 1)
}

/// Why the kernel said EPERM.
pub(crate) fn not_permitted(pid: i32) -> Refusal {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let (owner, user) = (number(&status, "Uid"), number::<u32>(&own, "Uid"));
    match (owner, user) {
        (Some(owner), Some(user)) if owner != user && user != 0 => return Refusal::OtherUser { pid, owner },
        _ => {}
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "1" => Refusal::ScopeChildren,
        "2" => Refusal::ScopeAdministrators,
        "3" => Refusal::ScopeNobody,
        _ => Refusal::NotPermitted { pid },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let status = "Name:\tx\nTgid:\t12\nNgid:\t0\nUid:\t1000\t1000\t1000\t1000\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(number(status, "Tgid"), Some(12));
        assert_eq!(number(status, "Uid"), Some(1000));
        assert_eq!(field(status, "Seccomp"), Some("2"));
        assert_eq!(field(status, "Secc"), None);
    }

    #[test]
    fn what_is_no_process_is_named() {
        // Process ids end below 2^22.
        let pid = 1 << 23;
        assert_eq!(refusal(pid, false), Some(Refusal::NoSuchProcess { pid }));
        let pid = std::process::id() as i32;
        assert_eq!(refusal(pid, false), Some(Refusal::Itself { pid }));
        let process = pid;
        let found = std::thread::spawn(|| {
            // SAFETY: gettid takes nothing.
            let tid = unsafe { libc::gettid() };
            (tid, refusal(tid, false))
        });
        let (tid, found) = found.join().unwrap();
        assert_eq!(found, Some(Refusal::IsThread { pid: tid, process }));
    }

    #[test]
    fn a_zombie_is_named() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        let begin = std::time::Instant::now();
        loop {
            let found = refusal(pid, false);
            if found == Some(Refusal::Zombie { pid }) {
                break;
            }
            assert!(begin.elapsed().as_secs() < 10, "{found:?}");
        }
        child.wait().unwrap();
    }
}
