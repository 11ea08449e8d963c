//! Running memtrail.
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// In a directory, without input.
pub fn memtrail(dir: &TempDir, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_memtrail"))
        .current_dir(dir.path())
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
