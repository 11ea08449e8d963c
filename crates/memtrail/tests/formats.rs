//! `import` and `export` as users meet them: real programs, real traces of another tool, and
//! everything that can be wrong.
mod common;

use common::{memtrail, stderr};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use tempfile::{tempdir, TempDir};

/// What keeps accesses apart: no stack, fixed addresses, one of each kind of line.
const PLAIN: &str = "
    .globl _start
_start:
    mov $0x402000, %edi
    mov $40, %ecx
1:  mov (%rdi), %rax
    mov %rax, 512(%rdi)
    incl 1024(%rdi)
    movups 64(%rdi), %xmm0
    movb %al, 77(%rdi)
    add $8, %rdi
    dec %ecx
    jne 1b
    mov $60, %eax
    xor %edi, %edi
    syscall
    .bss
    .space 4096
";

/// What formats disagree about: repeated strings and prefetches.
const REPEATED: &str = "
    .globl _start
_start:
    mov $0x402000, %edi
    mov $0x402100, %esi
    mov $2, %ecx
    rep movsb
    xor %ecx, %ecx
    rep stosb
    prefetcht0 (%rdi)
    mov %eax, (%rdi)
    mov $60, %eax
    xor %edi, %edi
    syscall
    .bss
    .space 4096
";

/// Runs memtrail, which must succeed; returns what it printed.
fn good(dir: &TempDir, args: &[&str]) -> String {
    let output = memtrail(dir, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs memtrail, which must fail with this in its message.
fn bad(dir: &TempDir, args: &[&str], message: &str) {
    let output = memtrail(dir, args);
    assert_eq!(output.status.code(), Some(125), "{args:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
}

fn build(dir: &TempDir, name: &str, source: &str) {
    let file = format!("{name}.S");
    fs::write(dir.path().join(&file), source).unwrap();
    let built = Command::new("gcc")
        .current_dir(dir.path())
        .args([
            "-nostdlib",
            "-static",
            "-Wl,--build-id=none,-Ttext=0x401000,-Tbss=0x402000",
            "-o",
            name,
            &file,
        ])
        .status();
    assert!(built.unwrap().success());
}

/// Records a guest to `name.mtr`.
fn record(dir: &TempDir, name: &str, source: &str) {
    build(dir, name, source);
    good(
        dir,
        &["record", "-o", &format!("{name}.mtr"), "--", &format!("./{name}")],
    );
}

/// Lines of a dump, thread after thread.
fn dump(dir: &TempDir, file: &str) -> Vec<String> {
    good(dir, &["check", file]);
    let mut lines: Vec<String> = good(dir, &["dump", file]).lines().map(String::from).collect();
    lines.sort_by_key(|l| l.split(' ').next().and_then(|t| t.parse::<u32>().ok()));
    lines
}

/// lackey's own lines, without Valgrind's remarks.
fn lackey_lines(dir: &TempDir, command: &[&str]) -> String {
    let log = dir.path().join("valgrind.log");
    let status = Command::new("valgrind")
        .current_dir(dir.path())
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", log.display()))
        .args(command)
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let all = fs::read_to_string(log).unwrap();
    let lines = all.lines().filter(|l| !l.starts_with("==") && !l.is_empty());
    lines.map(|l| format!("{l}\n")).collect()
}

#[test]
fn a_recording_exported_is_what_lackey_prints() {
    let dir = tempdir().unwrap();
    record(&dir, "plain", PLAIN);
    let ours = good(&dir, &["export", "--format", "lackey", "plain.mtr"]);
    assert_eq!(ours.lines().count(), 2 + 40 * 13 + 3);
    assert_eq!(ours, lackey_lines(&dir, &["./plain"]));
}

#[test]
fn what_lackey_prints_is_imported_line_by_line() {
    let dir = tempdir().unwrap();
    let lines = lackey_lines(&dir, &["/bin/true"]);
    let accesses = lines.lines().filter(|l| !l.starts_with('I'));
    let modifies = lines.lines().filter(|l| l.starts_with(" M"));
    let (accesses, modifies) = (accesses.count(), modifies.count());
    assert!(accesses > 10_000, "{accesses}");
    good(&dir, &["import", "-o", "true.mtr", "valgrind.log"]);
    assert_eq!(dump(&dir, "true.mtr").len(), accesses + modifies);
    let again = good(&dir, &["export", "--format", "lackey", "true.mtr"]);
    // A load and a store of the same place may be told as such, or as one modify.
    let apart = |lines: &str| {
        let line = |l: &str| {
            l.strip_prefix(" M ")
                .map_or(format!("{l}\n"), |p| format!(" L {p}\n S {p}\n"))
        };
        lines.lines().map(line).collect::<String>()
    };
    assert!(apart(&again) == apart(&lines), "not what lackey printed");
}

#[test]
fn repeated_strings_and_prefetches() {
    let dir = tempdir().unwrap();
    record(&dir, "repeated", REPEATED);
    let output = memtrail(&dir, &["export", "--format", "lackey", "repeated.mtr"]);
    assert!(
        stderr(&output).contains("1 prefetches were left out"),
        "{}",
        stderr(&output)
    );
    let expected = "I  00401000,5
I  00401005,5
I  0040100a,5
I  0040100f,2
 L 00402100,1
 S 00402000,1
I  0040100f,2
 L 00402101,1
 S 00402001,1
I  00401011,2
I  00401013,2
I  00401015,3
I  00401018,2
 S 00402002,4
I  0040101a,5
I  0040101f,2
I  00401021,2
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    let fetches = good(
        &dir,
        &["export", "--format", "din", "--fetches", "--limit", "3", "repeated.mtr"],
    );
    let expected = "2 401000\n2 401005\n2 40100a\n2 40100f\n0 402100\n1 402000\n2 40100f\n0 402101\n";
    assert_eq!(fetches, expected);
    let bare = good(&dir, &["export", "--format", "din", "repeated.mtr"]);
    assert_eq!(bare, "0 402100\n1 402000\n0 402101\n1 402001\n1 402002\n");
    good(&dir, &["export", "--format", "raw", "-o", "addresses", "repeated.mtr"]);
    let addresses: Vec<u8> = [0x402100u64, 0x402000, 0x402101, 0x402001, 0x402002, 0x402002]
        .iter()
        .flat_map(|a| a.to_le_bytes())
        .collect();
    assert_eq!(fs::read(dir.path().join("addresses")).unwrap(), addresses);
    // drmemtrace: header and markers, then type, size and address of each record.
    good(
        &dir,
        &["export", "--format", "drmemtrace", "-o", "traces", "repeated.mtr"],
    );
    let bytes = fs::read(dir.path().join("traces/thread-00000.trace")).unwrap();
    let records: Vec<(u16, u16, u64)> = bytes
        .chunks_exact(12)
        .map(|r| {
            let (kind, size) = (u16::from_le_bytes([r[0], r[1]]), u16::from_le_bytes([r[2], r[3]]));
            (kind, size, u64::from_le_bytes(r[4..].try_into().unwrap()))
        })
        .collect();
    let kinds: Vec<u16> = records[..9].iter().map(|r| r.0).collect();
    assert_eq!(kinds, [25, 28, 28, 22, 24, 28, 28, 28, 28]);
    let expected = [
        (10, 5, 0x401000),
        (10, 5, 0x401005),
        (10, 5, 0x40100a),
        (10, 2, 0x40100f),
        (0, 1, 0x402100),
        (1, 1, 0x402000),
        (29, 2, 0x40100f),
        (0, 1, 0x402101),
        (1, 1, 0x402001),
        (10, 2, 0x401011),
        (10, 2, 0x401013),
        (10, 3, 0x401015),
    ];
    assert_eq!(records[9..21], expected);
    assert_eq!((records[21].0, records[21].2), (2, 0x402002));
    let kinds: Vec<u16> = records[22..].iter().map(|r| r.0).collect();
    assert_eq!(kinds, [10, 1, 10, 10, 10, 23, 26]);
}

/// Each format takes a recording of several threads there and back.
#[test]
fn recordings_survive_every_format() {
    let dir = tempdir().unwrap();
    let script = "echo one | cat";
    good(&dir, &["record", "-o", "a.mtr", "--", "sh", "-c", script]);
    let all = dump(&dir, "a.mtr");
    assert!(all.iter().any(|l| l.starts_with("2 ")), "one thread only");

    good(&dir, &["export", "--format", "text", "-o", "a.text", "a.mtr"]);
    assert!(fs::read_to_string(dir.path().join("a.text")).unwrap() == good(&dir, &["dump", "a.mtr"]));
    good(&dir, &["import", "-o", "text.mtr", "a.text"]);
    assert!(dump(&dir, "text.mtr") == all);

    good(&dir, &["export", "--format", "drmemtrace", "-o", "a.dir", "a.mtr"]);
    good(&dir, &["import", "-o", "drmemtrace.mtr", "a.dir"]);
    assert!(dump(&dir, "drmemtrace.mtr") == all);

    // One thread at a time; prefetches are not expressed.
    let is_kept = |l: &&String| l.split(' ').nth(2) != Some("P");
    for thread in ["0", "1"] {
        let mine = format!("{thread} ");
        let kept: Vec<String> = all
            .iter()
            .filter(|l| l.starts_with(&mine))
            .filter(is_kept)
            .cloned()
            .collect();
        let as_thread_0 = |l: &String| format!("0{}", &l[thread.len()..]);
        let mut expected: Vec<String> = kept.iter().map(as_thread_0).collect();
        let args = [
            "export", "--format", "lackey", "--thread", thread, "-f", "-o", "a.lackey", "a.mtr",
        ];
        good(&dir, &args);
        good(&dir, &["import", "-f", "-o", "lackey.mtr", "a.lackey"]);
        assert!(dump(&dir, "lackey.mtr") == expected);

        // Sizes are not expressed either, and without fetches no instructions.
        let args = [
            "export",
            "--format",
            "din",
            "--fetches",
            "--thread",
            thread,
            "-f",
            "-o",
            "a.din",
            "a.mtr",
        ];
        good(&dir, &args);
        good(&dir, &["import", "--size", "2", "-f", "-o", "din.mtr", "a.din"]);
        for line in &mut expected {
            line.truncate(line.rfind(' ').unwrap());
            line.push_str(" 2");
        }
        assert!(dump(&dir, "din.mtr") == expected);
        let args = [
            "export", "--format", "din", "--thread", thread, "-f", "-o", "a.din", "a.mtr",
        ];
        good(&dir, &args);
        good(&dir, &["import", "--size", "2", "-f", "-o", "din.mtr", "a.din"]);
        for line in &mut expected {
            let (head, tail) = (&line[..2], line[2..].split_once(' ').unwrap().1);
            *line = format!("{head}0x0 {tail}");
        }
        assert!(dump(&dir, "din.mtr") == expected);
    }
}

#[test]
fn several_inputs_are_several_threads() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("a"), "0 10\n").unwrap();
    fs::write(dir.path().join("b"), "1 20\n").unwrap();
    good(&dir, &["import", "--format", "din", "-o", "ab.mtr", "a", "b"]);
    assert_eq!(dump(&dir, "ab.mtr"), ["0 0x0 R 0x10 4", "1 0x0 W 0x20 4"]);
    let info: String = good(&dir, &["info", "ab.mtr"]);
    assert!(info.contains("import --format din a b"), "{info}");
    assert!(info.lines().any(|l| l == "threads          2"), "{info}");
}

#[test]
fn every_command_accepts_what_was_imported() {
    let dir = tempdir().unwrap();
    record(&dir, "plain", PLAIN);
    good(&dir, &["export", "--format", "lackey", "-o", "a.lackey", "plain.mtr"]);
    good(&dir, &["import", "-o", "a.mtr", "a.lackey"]);
    good(&dir, &["check", "--deep", "a.mtr"]);
    let hash = |file| good(&dir, &["dump", "--hash", file]);
    assert_eq!(hash("a.mtr"), hash("plain.mtr"));
    let part = |file| good(&dir, &["dump", "--from", "100", "--to", "120", file]);
    assert_eq!(part("a.mtr"), part("plain.mtr"));
    assert_eq!(part("a.mtr").lines().count(), 20);
    for form in ["--descriptors", "--tree"] {
        assert!(!good(&dir, &["dump", form, "a.mtr"]).is_empty());
    }
    let count = |file| {
        let info = good(&dir, &["info", file]);
        let of_interest = ["accesses", "reads", "writes", "prefetches", "bytes", "instructions"];
        let lines = info
            .lines()
            .filter(|l| of_interest.iter().any(|n| l.starts_with(&format!("{n} "))));
        lines.map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(count("a.mtr").len(), 6);
    assert_eq!(count("a.mtr"), count("plain.mtr"));
}

#[test]
fn standard_input_and_names_by_default() {
    let dir = tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_memtrail"))
        .current_dir(dir.path())
        .args(["import", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"I  10,2\n L 20,8\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = stderr(&output);
    assert!(said.contains("- looks like lackey"), "{said}");
    assert!(said.contains("1 accesses in memtrail.import.mtr"), "{said}");
    assert_eq!(dump(&dir, "memtrail.import.mtr"), ["0 0x10 R 0x20 8"]);
    fs::write(dir.path().join("a.txt"), "3 0x1 W 0x2 4\n").unwrap();
    good(&dir, &["import", "a.txt"]);
    assert_eq!(dump(&dir, "memtrail.a.txt.mtr"), ["3 0x1 W 0x2 4"]);
}

#[test]
fn wrong_inputs_are_named_and_leave_nothing_behind() {
    let dir = tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    put("lackey", b"I  10,2\n L 20,8\n L 20\n");
    put("din", b"0 10\n9 10\n");
    put("text", b"0 0x1 R 0x2 8\n0 0x1 Q 0x2 8\n");
    put("nothing", b"");
    put("no access", b"I  10,2\n");
    put("prose", b"Once upon a time\n");
    put("packed", b"\x1f\x8b\x08\0");
    put("cut.trace", b"\x19\0\0\0\x03\0\0\0\0\0\0\0\x0a\0");
    fs::create_dir(dir.path().join("directory")).unwrap();
    put("fine", b"0 10\n");
    good(&dir, &["import", "-o", "fine.mtr", "fine"]);
    let before = fs::read_dir(dir.path()).unwrap().count();
    let import = |args: &[&str], message: &str| {
        let args: Vec<&str> = ["import", "-o", "out.mtr"].iter().chain(args).copied().collect();
        bad(&dir, &args, message);
    };
    import(&["lackey"], "lackey: line 3: ");
    import(
        &["din"],
        "din: line 2: a label from 0 to 4 and a hexadecimal address expected, not \"9 10\"",
    );
    import(
        &["text"],
        "text: line 2: thread 0xPC R|W|P 0xADDRESS size expected, not \"0 0x1 Q 0x2 8\"",
    );
    import(&["--format", "lackey", "text"], "text: line 1: ");
    import(&["nothing"], "nothing: it is empty");
    import(&["no access"], "no access: there is no access in it");
    import(
        &["prose"],
        "prose: cannot tell its format; give --format lackey, din, drmemtrace or text",
    );
    import(&["packed"], "packed: ");
    import(
        &["cut.trace"],
        "cut.trace: byte 12: a record of 12 bytes expected, not the end after 2",
    );
    import(&["fine.mtr"], "fine.mtr: it is a recording already");
    import(&["missing"], "missing: No such file");
    import(&["fine", "missing"], "missing: No such file");
    import(&["directory"], "directory: there are no files NAME.trace in it");
    import(
        &["--format", "din", "directory"],
        "directory: it is a directory; only drmemtrace has those",
    );
    bad(
        &dir,
        &["import", "-o", "fine.mtr", "fine"],
        "fine.mtr exists; use -f to overwrite it",
    );
    bad(
        &dir,
        &["import", "-f", "-o", "fine", "fine"],
        "it would be overwritten while it is read",
    );
    bad(&dir, &["import", "--format", "din", "--size", "0", "fine"], "--size");
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        before,
        "a file was left behind"
    );
}

#[test]
fn wrong_exports_are_refused() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("a"), "0 10\n").unwrap();
    good(&dir, &["import", "-o", "a.mtr", "a"]);
    fs::write(dir.path().join("precious"), "precious").unwrap();
    let export = |args: &[&str], message: &str| {
        let args: Vec<&str> = ["export", "--format"].iter().chain(args).copied().collect();
        bad(&dir, &args, message);
    };
    export(
        &["text", "-o", "precious", "a.mtr"],
        "precious exists; use -f to overwrite it",
    );
    export(
        &["text", "-f", "-o", "a.mtr", "a.mtr"],
        "it would be overwritten while it is read",
    );
    export(&["text", "--thread", "5", "a.mtr"], "there is no thread 5 in it");
    export(
        &["text", "--limit", "0", "-o", "empty", "a.mtr"],
        "there was no access to export",
    );
    export(&["text", "--fetches", "a.mtr"], "--fetches is for din");
    export(&["text", "a"], "not a memtrail recording");
    export(&["text", "-o", "/dev/full", "-f", "a.mtr"], "cannot write /dev/full");
    export(&["drmemtrace", "a.mtr"], "give a directory with -o");
    export(
        &["drmemtrace", "-o", ".", "a.mtr"],
        ". is not empty; use -f to replace the traces in it",
    );
    assert!(!dir.path().join("empty").exists());
    assert_eq!(fs::read(dir.path().join("precious")).unwrap(), b"precious");
    good(&dir, &["export", "--format", "text", "-f", "-o", "precious", "a.mtr"]);
    assert_eq!(fs::read(dir.path().join("precious")).unwrap(), b"0 0x0 R 0x10 4\n");
    // Old traces go, other files stay.
    fs::write(dir.path().join("old.trace"), "old").unwrap();
    good(&dir, &["export", "--format", "drmemtrace", "-f", "-o", ".", "a.mtr"]);
    assert!(!dir.path().join("old.trace").exists());
    assert!(dir.path().join("thread-00000.trace").exists() && dir.path().join("precious").exists());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let dir = tempdir().unwrap();
    record(&dir, "plain", PLAIN);
    // Many times what a pipe holds.
    good(&dir, &["export", "--format", "text", "-o", "a.text", "plain.mtr"]);
    let text = fs::read_to_string(dir.path().join("a.text")).unwrap().repeat(100);
    fs::write(dir.path().join("a.text"), text).unwrap();
    good(&dir, &["import", "-o", "long.mtr", "a.text"]);
    for format in ["text", "lackey", "din", "raw"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_memtrail"))
            .current_dir(dir.path())
            .args(["export", "--format", format, "long.mtr"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}: {}", stderr(&output));
        assert_eq!(stderr(&output), "");
    }
}
