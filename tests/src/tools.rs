//! Where the harness keeps its files and finds the programs it drives.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Cargo's target directory: the nearest one above this program that cargo has tagged.
pub fn target_directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let program = std::env::current_exe().unwrap_or_default();
        let tagged = program.ancestors().find(|d| d.join("CACHEDIR.TAG").exists());
        tagged.map_or_else(std::env::temp_dir, Path::to_owned)
    })
}

/// The profile to build programs with: the one this program was built with, so that nothing is
/// built twice. Without optimisation the recorder is too slow to test with: then it is `release`.
fn profile() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let inside = program.strip_prefix(target_directory()).ok();
    let first = inside.and_then(|p| p.iter().next()).unwrap_or_default();
    match first.to_string_lossy().as_ref() {
        "debug" | "" => "release".into(),
        profile => profile.into(),
    }
}

/// Built guests, recordings and cached oracle results.
pub fn work_directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = target_directory().join("guests");
        std::fs::create_dir_all(&directory).expect("the target directory is writable");
        directory
    })
}

/// The recorder: `MEMTRAIL_BIN`, or built here.
pub fn memtrail() -> Result<&'static Path, String> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BINARY
        .get_or_init(|| find("MEMTRAIL_BIN", "memtrail", "memtrail"))
        .as_deref()
        .map_err(Clone::clone)
}

/// The oracle: `MEMTRAIL_ORACLE_BIN`, or built here.
pub fn oracle() -> Result<&'static Path, String> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BINARY
        .get_or_init(|| find("MEMTRAIL_ORACLE_BIN", "memtrail-oracle", "memtrail-oracle"))
        .as_deref()
        .map_err(Clone::clone)
}

fn find(variable: &str, package: &str, program: &str) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(variable) {
        return std::fs::canonicalize(&path).map_err(|e| format!("{variable}={}: {e}", path.to_string_lossy()));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = profile();
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--profile", &profile, "-p", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target_directory())
        .status();
    match status {
        Ok(status) if status.success() => Ok(target_directory().join(profile).join(program)),
        Ok(_) => Err(format!("package {package} does not build; or set {variable}")),
        Err(e) => Err(format!("cannot run cargo to build {package}: {e}")),
    }
}
