//! Can this machine record? Each requirement looked at by itself, with the cause and the cure.
use crate::{launch, Command, Error};
use memtrail_ring::SESSION_BYTES;

/// How a requirement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    /// Works, but worth knowing.
    Note,
    /// Recording will fail.
    Bad,
}

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub name: &'static str,
    pub verdict: Verdict,
    pub what: String,
    /// What to do about it, if anything.
    pub advice: Option<String>,
}

impl Finding {
    fn good(name: &'static str, what: impl Into<String>) -> Finding {
        Finding {
            name,
            verdict: Verdict::Good,
            what: what.into(),
            advice: None,
        }
    }
    fn but(self, verdict: Verdict, advice: impl Into<String>) -> Finding {
        Finding {
            verdict,
            advice: Some(advice.into()),
            ..self
        }
    }
}

/// Looks at everything recording needs, short of recording.
pub fn examine() -> Vec<Finding> {
    vec![
        machine(),
        kernel(),
        ptrace_scope(),
        tracer(),
        seccomp(),
        trace_a_child(),
        memfd(),
        fsgsbase(),
        extended_state(),
        limit("address space", libc::RLIMIT_AS as i32, "ulimit -v unlimited"),
        limit("file size", libc::RLIMIT_FSIZE as i32, "ulimit -f unlimited"),
    ]
}

fn machine() -> Finding {
    let found = Finding::good("machine", std::env::consts::ARCH);
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return found;
    }
    found.but(Verdict::Bad, "memtrail records on x86-64 Linux only")
}

/// pidfd_open came with 5.3, the youngest thing we need.
const OLDEST: (u32, u32) = (5, 3);

fn kernel() -> Finding {
    kernel_of(&std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())
}

fn kernel_of(release: &str) -> Finding {
    let found = Finding::good("kernel", release.trim());
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|n| n.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => found,
        (Some(_), Some(_)) => found.but(Verdict::Bad, "Linux 5.3 or later is needed"),
        _ => found.but(Verdict::Note, "mount /proc: recording needs it"),
    }
}

fn ptrace_scope() -> Finding {
    let text = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    ptrace_scope_of(text.as_deref(), capable_of_ptrace())
}

fn ptrace_scope_of(text: Option<&str>, capable: bool) -> Finding {
    let name = "ptrace_scope";
    let Some(text) = text else {
        return Finding::good(name, "no Yama: not restricted");
    };
    match text.trim() {
        "0" => Finding::good(name, "0: not restricted"),
        "1" => Finding::good(name, "1: children may be traced, which is enough"),
        "2" => {
            let advice = "run as root, or: sysctl kernel.yama.ptrace_scope=1";
            let verdict = if capable { Verdict::Note } else { Verdict::Bad };
            Finding::good(name, "2: only CAP_SYS_PTRACE may trace").but(verdict, advice)
        }
        other => Finding::good(name, format!("{other}: nobody may trace")).but(
            Verdict::Bad,
            "set kernel.yama.ptrace_scope below 3 at boot; it cannot be lowered at run time",
        ),
    }
}

fn status_field(name: &str) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.trim_start_matches(':').trim().to_string())
}

fn capable_of_ptrace() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    status_field("CapEff")
        .and_then(|hex| u64::from_str_radix(&hex, 16).ok())
        .is_some_and(|caps| caps >> CAP_SYS_PTRACE & 1 == 1)
}

fn tracer() -> Finding {
    match status_field("TracerPid").as_deref() {
        None | Some("0") => Finding::good("TracerPid", "0: nobody traces us"),
        Some(pid) => Finding::good("TracerPid", format!("process {pid} traces us")).but(
            Verdict::Note,
            "a debugger or strace that follows children keeps memtrail from tracing them: run without it",
        ),
    }
}

fn seccomp() -> Finding {
    match status_field("Seccomp").as_deref() {
        None | Some("0") => Finding::good("seccomp", "no filter"),
        Some(_) => Finding::good("seccomp", "a filter is active").but(
            Verdict::Note,
            "if tracing fails below, allow ptrace in the container (docker: --cap-add=SYS_PTRACE)",
        ),
    }
}

/// The proof: fork a child and seize it, as every recording does.
fn trace_a_child() -> Finding {
    let command = Command {
        program: "true".into(),
        args: Vec::new(),
        fixed_addresses: false,
    };
    match launch(&command) {
        Ok(_) => Finding::good("ptrace", "a child can be traced"),
        Err(Error::System { call, source }) => Finding::good("ptrace", format!("{call}: {source}")).but(
            Verdict::Bad,
            "look at ptrace_scope, TracerPid and seccomp above; in a container add SYS_PTRACE",
        ),
        Err(error) => Finding::good("ptrace", error.to_string()).but(Verdict::Bad, "a child cannot be started"),
    }
}

fn memfd() -> Finding {
    match crate::sys::memfd(c"memtrail-doctor") {
        Ok(_) => Finding::good("memfd", "shared memory can be made"),
        Err(error) => {
            Finding::good("memfd", error.to_string()).but(Verdict::Bad, "allow memfd_create (seccomp, vm.memfd_noexec)")
        }
    }
}

fn fsgsbase() -> Finding {
    const HWCAP2_FSGSBASE: u64 = 2;
    // SAFETY: getauxval takes a number and returns one.
    fsgsbase_of(unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE != 0)
}

fn fsgsbase_of(have: bool) -> Finding {
    if have {
        return Finding::good("FSGSBASE", "user code can set segment bases");
    }
    Finding::good("FSGSBASE", "segment bases cannot be set by user code").but(
        Verdict::Bad,
        "a processor since Ivy Bridge and Linux 5.9 have it; do not boot with nofsgsbase",
    )
}

fn extended_state() -> Finding {
    const AVX512: u64 = 0xe0;
    let xcr0 = crate::xsave_table().xcr0;
    let vectors = match xcr0 {
        x if x & AVX512 == AVX512 => "AVX-512",
        x if x & 4 != 0 => "AVX",
        _ => "SSE",
    };
    Finding::good("vectors", format!("{vectors}, XCR0 {xcr0:#x}"))
}

/// The session is a large and nearly empty file that is mapped: two limits know only its size.
fn limit(name: &'static str, resource: i32, cure: &str) -> Finding {
    // SAFETY: zero bytes are a valid rlimit, and getrlimit fills it.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(resource as _, &mut limit);
        limit.rlim_cur
    };
    if limit == libc::RLIM_INFINITY {
        return Finding::good(name, "not limited");
    }
    let found = Finding::good(name, format!("limited to {} MB", limit >> 20));
    if limit > 2 * SESSION_BYTES as u64 {
        return found;
    }
    found.but(
        Verdict::Bad,
        format!("memtrail reserves much and uses little of it: {cure}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Bad, Good, Note};

    /// Causes that this machine does not have.
    #[test]
    fn causes_are_recognised() {
        for (finding, verdict, says) in [
            (kernel_of("6.1.0-13-amd64\n"), Good, ""),
            (kernel_of("5.3.0"), Good, ""),
            (kernel_of("5.2.99"), Bad, "Linux 5.3 or later"),
            (kernel_of("4.19.0-21-amd64"), Bad, "Linux 5.3 or later"),
            (kernel_of(""), Note, "mount /proc"),
            (ptrace_scope_of(None, false), Good, ""),
            (ptrace_scope_of(Some("0\n"), false), Good, ""),
            (ptrace_scope_of(Some("1\n"), false), Good, ""),
            (
                ptrace_scope_of(Some("2\n"), true),
                Note,
                "sysctl kernel.yama.ptrace_scope=1",
            ),
            (
                ptrace_scope_of(Some("2\n"), false),
                Bad,
                "sysctl kernel.yama.ptrace_scope=1",
            ),
            (ptrace_scope_of(Some("3\n"), true), Bad, "cannot be lowered"),
            (fsgsbase_of(true), Good, ""),
            (fsgsbase_of(false), Bad, "nofsgsbase"),
        ] {
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert!(finding.advice.as_deref().unwrap_or("").contains(says), "{finding:?}");
        }
    }

    #[test]
    fn a_machine_that_runs_these_tests_can_record() {
        for finding in examine() {
            assert_ne!(finding.verdict, Verdict::Bad, "{finding:?}");
            assert_eq!(finding.advice.is_some(), finding.verdict != Verdict::Good);
        }
    }
}
