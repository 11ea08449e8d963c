//! What reading a recording takes: neither ptrace, nor the injected image, nor an x86 decoder.
use std::process::Command;

/// The packages that `package` needs to be built, without those of its tests.
fn needs(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}", "--package", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_string();
    listed.lines().map(name).collect()
}

#[test]
fn readers_link_neither_the_recorder_nor_a_decoder() {
    const RECORDER: [&str; 4] = ["memtrail-collect", "memtrail-tracee", "memtrail-translate", "iced-x86"];
    for reader in [
        "memtrail-decode",
        "memtrail-descriptor",
        "memtrail-trace",
        "memtrail-replay",
        "memtrail-formats",
        "memtrail-simulate",
        "memtrail-analyze",
    ] {
        let needs = needs(reader);
        assert!(needs.iter().any(|n| n == reader), "{reader}: {needs:?}");
        for part in RECORDER {
            assert!(!needs.iter().any(|n| n == part), "{reader} links {part}");
        }
    }
    // The question is one that can be answered with yes.
    assert!(RECORDER
        .iter()
        .all(|part| needs("memtrail-collect").contains(&part.to_string())));
}
