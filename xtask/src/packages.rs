//! Debian packages a command needs: find what is missing, say so, install it.
//!
//! A test that skips itself because a tool is missing is a test that nobody
//! runs. So nothing is skipped: what is missing is installed with apt-get, and
//! where that is not possible the error names the command to run by hand.

use std::path::Path;
use std::process::Command;

/// A package, and a program in it by which its presence shows. Empty: ask dpkg.
pub type Package = (&'static str, &'static str);

/// The directories programs under test are taken from: the distribution's, so
/// that version managers' shims cannot slip in between.
pub const PATH: &str = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What `cargo xtask test` needs beyond cargo.
pub const FOR_TESTS: &[Package] = &[
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("gfortran", "gfortran"),
    ("clang", "clang"),
    ("llvm", "llvm-dwp"),
    ("dwz", "dwz"),
    ("libc6-dev", ""),
    ("binutils", "objdump"),
    ("valgrind", "valgrind"),
    ("chromium", "chromium"),
    ("qemu-user", "qemu-x86_64"),
    ("util-linux", "setarch"),
    ("sqlite3", "sqlite3"),
    ("gzip", "gzip"),
    ("xz-utils", "xz"),
    ("bzip2", "bzip2"),
    ("perl", "perl"),
    ("mawk", "mawk"),
    ("bash", "bash"),
    ("openmpi-bin", "mpirun"),
    ("libopenmpi-dev", "mpicc"),
    ("python3", "python3"),
    ("python3-zstandard", ""),
    ("python3-venv", ""),
    ("python3-dev", ""),
    ("git", "git"),
    ("strace", "strace"),
    ("redis-server", "redis-server"),
    ("redis-tools", "redis-benchmark"),
];

/// Is this package there?
fn present((package, program): Package) -> bool {
    if !program.is_empty() {
        return PATH.split(':').any(|dir| Path::new(dir).join(program).exists());
    }
    let query = Command::new("dpkg-query")
        .args(["-W", "-f=${Status}", package])
        .output();
    query.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("install ok installed"))
}

/// Installs what is missing of `wanted`. Says what it does on stderr.
pub fn ensure(wanted: &[Package]) -> Result<(), String> {
    let mut missing: Vec<&str> = wanted.iter().filter(|p| !present(**p)).map(|p| p.0).collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    let root = effective_uid() == Some(0);
    let sudo: &[&str] = if root { &[] } else { &["sudo"] };
    let by_hand = format!(
        "{}apt-get update && {}apt-get install -y {}",
        if root { "" } else { "sudo " },
        if root { "" } else { "sudo " },
        missing.join(" ")
    );
    eprintln!("xtask: installing missing Debian packages: {}", missing.join(" "));
    let run = |args: &[&str]| {
        let words: Vec<&str> = sudo.iter().chain(args).copied().collect();
        Command::new(words[0])
            .args(&words[1..])
            .status()
            .is_ok_and(|s| s.success())
    };
    let install: Vec<&str> = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "-y",
        "-q",
    ]
    .into_iter()
    .chain(["--no-install-recommends"])
    .chain(missing.iter().copied())
    .collect();
    // A package list may be present and good: update only when the first try fails.
    let done = run(&install) || (run(&["apt-get", "update", "-q"]) && run(&install));
    let still: Vec<&str> = wanted.iter().filter(|p| !present(**p)).map(|p| p.0).collect();
    if done && still.is_empty() {
        Ok(())
    } else if done {
        Err(format!("apt-get succeeded, but still missing: {}", still.join(" ")))
    } else {
        Err(format!("cannot install packages; run: {by_hand}"))
    }
}

/// The effective user, from /proc: no need for a system call of our own.
fn effective_uid() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_shell_is_present_and_nonsense_is_not() {
        assert!(super::present(("bash", "bash")));
        assert!(!super::present(("no-such-package", "no-such-program")));
    }
}
