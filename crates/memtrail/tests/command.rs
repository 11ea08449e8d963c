//! The command as users meet it: statuses, messages, files. Each test runs real programs.
mod common;

use common::{memtrail, stderr};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::{tempdir, TempDir};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs memtrail and expects a status and a part of a message.
fn expect(args: &[&str], status: i32, message: &str) {
    let dir = tempdir().unwrap();
    let output = memtrail(&dir, args);
    assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
    assert!(stderr(&output).contains(message), "{}", stderr(&output));
    if (125..=127).contains(&status) {
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 0, "a file was left behind");
    }
}

fn executable(dir: &TempDir, name: &str, contents: &[u8]) -> String {
    let path = dir.path().join(name);
    fs::write(&path, contents).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn the_exit_status_is_the_targets() {
    expect(&["record", "-o", "a", "--", "true"], 0, "accesses in a");
    expect(
        &["record", "-o", "a", "--", "sh", "-c", "exit 7"],
        7,
        "next: memtrail a",
    );
    expect(&["record", "-o", "a", "sh", "-c", "kill -9 $$"], 137, "accesses");
    expect(&["record", "-o", "a", "sh", "-c", "kill -TERM $$"], 143, "accesses");
}

/// Every experiment and stage has its row, and what has no probe says so.
#[test]
fn overhead_is_told_by_experiment_and_stage() {
    let dir = tempdir().unwrap();
    let rows = |args: &[&str]| {
        let output = memtrail(
            &dir,
            &[&["overhead", "-n", "1", "--json"], args, &["--", "true"]].concat(),
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stderr(&output);
        let table = said.find("\n{").map(|at| &said[at..]).unwrap_or_default();
        let found: serde_json::Value = serde_json::from_str(table).unwrap();
        for row in found["rows"].as_array().unwrap() {
            assert!(row["wall_seconds"].as_f64().unwrap() > 0.0, "{row}");
        }
        let words = |list: &serde_json::Value| -> Vec<String> {
            let names = list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap());
            names.map(str::to_string).collect()
        };
        assert_eq!(words(&found["not_measured"]), ["experiment 0", "unbuffered", "chained"]);
        words(&found["rows"])
    };
    let first = [
        "native",
        "translation",
        "experiment 1, buffered",
        "experiment 1, delayed",
        "experiment 1, loops",
        "counted, loops",
    ];
    assert_eq!(rows(&[]), [&first[..], &["experiment 2, loops"]].concat());
    let simulated = ["experiment 2, buffered", "experiment 2, delayed", "experiment 2, loops"];
    assert_eq!(rows(&["--all-stages"]), [&first[..], &simulated].concat());
}

#[test]
fn programs_that_cannot_run_get_the_statuses_of_env() {
    expect(
        &["record", "--", "no-such-program"],
        127,
        "no-such-program: command not found",
    );
    expect(&["record", "--", "/no/such/program"], 127, "command not found");
    expect(
        &["record", "--", "/etc/passwd"],
        126,
        "cannot execute: Permission denied",
    );
    expect(&["record", "--", "/etc"], 126, "cannot execute");
    let dir = tempdir().unwrap();
    let script = executable(&dir, "script", b"echo no interpreter\n");
    expect(&["record", "--", &script], 126, "no '#!' line names its interpreter");
}

/// `exit(7)` for i386, as small as it gets.
fn i386_program() -> Vec<u8> {
    let mut elf = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend([2, 0, 3, 0]);
    for word in [1u32, 0x0804_8054, 0x34, 0, 0] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend([0x34, 0, 0x20, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    for word in [1u32, 0, 0x0804_8000, 0x0804_8000, 0x60, 0x60, 5, 0x1000] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend([0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80]);
    elf
}

#[test]
fn programs_for_32_bits_are_refused_by_name() {
    let dir = tempdir().unwrap();
    let program = executable(&dir, "old", &i386_program());
    expect(&["record", "--", &program], 126, "64-bit x86-64 programs only");
}

#[test]
fn bad_outputs_are_told_before_anything_runs() {
    let dir = tempdir().unwrap();
    let witness = dir.path().join("witness");
    let touch = format!("touch {}", witness.display());
    for (output, message) in [
        ("/no/such/directory/a.mtr", "cannot create /no/such/directory/a.mtr"),
        ("precious", "precious exists; use -f to overwrite it"),
        ("/dev/full", "/dev/full exists"),
    ] {
        fs::write(dir.path().join("precious"), "precious").unwrap();
        let args = ["record", "-o", output, "--", "sh", "-c", &touch];
        let done = memtrail(&dir, &args);
        assert_eq!(done.status.code(), Some(125), "{}", stderr(&done));
        assert!(stderr(&done).contains(message), "{}", stderr(&done));
        assert!(!witness.exists(), "the program ran");
    }
    // A command that cannot run does not cost the old recording either.
    let done = memtrail(&dir, &["record", "-f", "-o", "precious", "--", "no-such-program"]);
    assert_eq!(done.status.code(), Some(127));
    assert_eq!(fs::read(dir.path().join("precious")).unwrap(), b"precious");
    let done = memtrail(&dir, &["record", "-f", "-o", "precious", "--", "true"]);
    assert_eq!(done.status.code(), Some(0));
    let done = memtrail(&dir, &["check", "precious"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
}

#[test]
fn the_default_name_tells_program_and_process() {
    let dir = tempdir().unwrap();
    let done = memtrail(&dir, &["--", "sh", "-c", "echo $$"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let pid = stdout(&done).trim().to_string();
    let name = format!("memtrail.sh.{pid}.mtr");
    assert!(dir.path().join(&name).exists(), "no {name}");
    assert!(stderr(&done).contains("reads, "), "no summary");
    // Our words, then the short answer.
    let told = stderr(&done);
    let (words, answer) = told.split_once("\n\n").unwrap();
    assert!(words.lines().all(|l| l.starts_with("memtrail: ")), "{words}");
    assert!(answer.contains("\nWhat to look at first\n"), "{answer}");
}

#[test]
fn streams_pass_through_untouched() {
    let dir = tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_memtrail"))
        .current_dir(dir.path())
        .args(["record", "-o", "a", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let text = "line\0with all bytes \u{ff}\n".repeat(1000);
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), text);
}

/// The signal dispositions and masks a program starts with must be those it would have without us.
#[test]
fn programs_start_with_the_callers_signals() {
    let dir = tempdir().unwrap();
    let grep = ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"];
    let native = Command::new(grep[0]).args(&grep[1..]).output().unwrap();
    let recorded = memtrail(&dir, &[&["record", "--discard", "--"], &grep[..]].concat());
    assert_eq!(stdout(&recorded), stdout(&native));
}

#[test]
fn info_dump_and_check_agree() {
    let dir = tempdir().unwrap();
    memtrail(&dir, &["record", "-o", "a", "--", "true"]);
    let info = memtrail(&dir, &["info", "--json", "a"]);
    let value: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    for key in [
        "accesses",
        "reads",
        "writes",
        "prefetches",
        "bytes",
        "instructions",
        "blocks",
        "threads",
        "processes",
        "file_bytes",
        "bits_per_access",
    ] {
        assert!(value[key].is_number(), "{key}");
    }
    let size = fs::metadata(dir.path().join("a")).unwrap().len();
    assert_eq!(value["file_bytes"].as_u64(), Some(size));
    let dump = stdout(&memtrail(&dir, &["dump", "a"]));
    let reads = dump.lines().filter(|l| l.contains(" R ")).count();
    assert_eq!(value["accesses"].as_u64(), Some(dump.lines().count() as u64));
    assert_eq!(value["reads"].as_u64(), Some(reads as u64));
    let first = stdout(&memtrail(&dir, &["dump", "--limit", "3", "a"]));
    assert_eq!(first.lines().count(), 3);
    assert!(dump.starts_with(&first));
    assert_eq!(stdout(&memtrail(&dir, &["dump", "--thread", "0", "a"])), dump);
    assert_eq!(stdout(&memtrail(&dir, &["dump", "--thread", "9", "a"])), "");
    let checked = memtrail(&dir, &["check", "a"]);
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
}

#[test]
fn recordings_cut_off_or_damaged_are_recognised() {
    let dir = tempdir().unwrap();
    memtrail(&dir, &["record", "-o", "a", "--", "true"]);
    let bytes = fs::read(dir.path().join("a")).unwrap();
    fs::write(dir.path().join("cut"), &bytes[..bytes.len() * 2 / 3]).unwrap();
    let info = memtrail(&dir, &["info", "cut"]);
    assert_eq!(info.status.code(), Some(0), "{}", stderr(&info));
    assert!(stderr(&info).contains("cut off"), "{}", stderr(&info));
    assert_eq!(memtrail(&dir, &["check", "cut"]).status.code(), Some(1));
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    fs::write(dir.path().join("bad"), damaged).unwrap();
    let check = memtrail(&dir, &["check", "bad"]);
    assert_eq!(check.status.code(), Some(125));
    assert!(stderr(&check).contains("damaged"), "{}", stderr(&check));
    let dump = memtrail(&dir, &["dump", "bad"]);
    assert_eq!(dump.status.code(), Some(125));
    assert!(stderr(&dump).contains("damaged"), "{}", stderr(&dump));
    let check = memtrail(&dir, &["info", "/etc/passwd"]);
    assert!(stderr(&check).contains("not a memtrail recording"));
}

#[test]
fn children_are_followed_unless_told_otherwise() {
    let dir = tempdir().unwrap();
    let processes = |args: &[&str]| {
        let done = memtrail(&dir, args);
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        let info = memtrail(&dir, &["info", "--json", "a"]);
        let value: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
        value["processes"].as_u64().unwrap()
    };
    let script = "/bin/true; (/bin/true; /bin/true); exec /bin/true";
    let plain = "/bin/true; exec /bin/true";
    assert!(processes(&["record", "-f", "-o", "a", "--", "sh", "-c", script]) >= 4);
    let alone = ["record", "-f", "-o", "a", "--no-follow", "--", "sh", "-c", plain];
    assert_eq!(processes(&alone), 1);
}

fn wait_for(path: &Path) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(30) {
        if path.exists() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn doctor_finds_this_machine_able() {
    let dir = tempdir().unwrap();
    let done = memtrail(&dir, &["doctor", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(value["can_record"], true, "{value:#}");
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn points_only_ever_shrink() {
    let dir = tempdir().unwrap();
    let shell = fs::canonicalize("/bin/sh").unwrap();
    let done = memtrail(&dir, &["points", "--json", shell.to_str().unwrap()]);
    let value: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let n = |key: &str| value[key].as_u64().unwrap();
    assert!(n("memory_instructions") > 1000, "{value:#}");
    assert!(n("after_chaining") <= n("memory_instructions"));
    assert!(n("after_delaying") < n("after_chaining"));
    assert!(n("after_loops") <= n("after_delaying"));
    assert!(
        n("affine_loops") > 0 && n("values_after_loops") < n("values"),
        "{value:#}"
    );
    let done = memtrail(&dir, &["points", "/etc/passwd"]);
    assert_eq!(done.status.code(), Some(125));
}

#[test]
fn summaries_hold_times_and_totals() {
    let dir = tempdir().unwrap();
    let args = ["record", "-o", "a", "--summary", "s.json", "--", "sh", "-c", "exit 3"];
    assert_eq!(memtrail(&dir, &args).status.code(), Some(3));
    let text = fs::read_to_string(dir.path().join("s.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in [
        "target_user_seconds",
        "target_system_seconds",
        "wall_seconds",
        "ring_words",
    ] {
        assert!(value[key].is_number(), "{key}");
    }
    assert_eq!(value["exit_status"], 3);
}

#[test]
fn wrong_usage_is_our_failure() {
    expect(&["record"], 125, "required");
    expect(&["record", "--probes", "magic", "--", "true"], 125, "magic");
}

#[test]
fn told_to_stop_it_keeps_what_it_has_and_lets_the_target_go_on() {
    let dir = tempdir().unwrap();
    let (ready, done) = (dir.path().join("ready"), dir.path().join("done"));
    let script = format!(
        "touch {}; i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; touch {}",
        ready.display(),
        done.display()
    );
    let child = Command::new(env!("CARGO_BIN_EXE_memtrail"))
        .current_dir(dir.path())
        .args(["record", "-o", "a", "--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(wait_for(&ready));
    let kill = Command::new("kill").arg(child.id().to_string()).status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
    assert!(stderr(&output).contains("goes on unrecorded"), "{}", stderr(&output));
    let check = memtrail(&dir, &["check", "a"]);
    assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
    assert!(wait_for(&done), "the target did not go on");
}
