//! Where the project's files are, and how its own tools are started.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace root: the parent of this package.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A cargo command at the workspace root, with the cargo that runs us.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// The recorder to measure: `MEMTRAIL_BIN`, or else a fresh release build.
pub fn memtrail() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("MEMTRAIL_BIN") {
        let path = PathBuf::from(path);
        return std::path::absolute(&path).map_err(|e| format!("MEMTRAIL_BIN {}: {e}", path.display()));
    }
    let status = cargo(&["build", "--release", "--quiet", "--package", "memtrail"])
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err("memtrail does not build".into());
    }
    Ok(target_dir().join("release/memtrail"))
}

/// An example of a package, in a fresh release build.
pub fn example(package: &str, name: &str) -> Result<PathBuf, String> {
    let arguments = ["build", "--release", "--quiet", "--package", package, "--example", name];
    let status = cargo(&arguments).status().map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err(format!("the example {name} of {package} does not build"));
    }
    Ok(target_dir().join("release/examples").join(name))
}

/// The first line of a command's standard output, or "?" where it cannot be had.
pub fn first_line_of(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|o| o.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or("?").trim().to_string()
}

/// The machine a measurement was made on, in one line.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown CPU", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores, Linux {}", first_line_of("uname", &["-r"]))
}

/// Today, UTC, as YYYY-MM-DD.
pub fn today() -> String {
    first_line_of("date", &["-u", "+%F"])
}
