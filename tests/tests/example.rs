//! The analysis in `examples/` builds outside of the workspace and finds what is there to be found.
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_example_analysis_finds_strides() {
    // Beside everything else, so that what both depend on is built once.
    let target = memtrail_tests::tools::target_directory();
    let manifest = root().join("examples/strides/Cargo.toml");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--manifest-path"]).arg(manifest);
    run(build.env("CARGO_TARGET_DIR", target));

    let folder = tempfile::tempdir().expect("a temporary folder");
    let (text, recording) = (folder.path().join("a.txt"), folder.path().join("a.mtr"));
    let mut lines = String::new();
    for i in 0..1000u64 {
        lines += &format!("0 0x401000 R {:#x} 8\n", 0x10_0000 + 8 * i);
        lines += &format!("0 0x401004 W {:#x} 4\n", 0x20_0000 + 4096 * (999 - i));
    }
    // One that jumps about: 600 times by 64, the other times by 200.
    for i in 0..900u64 {
        let addr = 0x30_0000 + 64 * i.min(600) + 200 * i.saturating_sub(600);
        lines += &format!("0 0x401008 R {addr:#x} 1\n");
    }
    std::fs::write(&text, lines).expect("written");
    let memtrail = memtrail_tests::tools::memtrail().expect("memtrail is built");
    run(Command::new(memtrail)
        .args(["import", "--format", "text", "-o"])
        .arg(&recording)
        .arg(&text));

    let found = run(Command::new(target.join("release/strides")).arg(&recording));
    let expected = "0x401000 R 1000 +8 1.000\n0x401004 W 1000 -4096 1.000\n0x401008 R 900 +64 0.667\n";
    assert_eq!(found, expected);
}
