//! TLBs, page walks and huge pages, in programs whose answer is known by construction: those of
//! paper 004, in `bench/pages/`, scaled down.
use memtrail_tests::subject::Subject;
use memtrail_tests::tools;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn recorded(name: &str, args: &[&str]) -> Subject {
    let source = format!("bench/pages/{name}.c");
    let made = Subject::new(&format!("pages-{name}"), &source, &["-O2", "-g", "-pthread"], args);
    made.unwrap_or_else(|why| panic!("{why}"))
}

fn pages(subject: &Subject, options: &[&str]) -> Value {
    let options = [&["--preset", "xeon-e5504"], options].concat();
    let told = subject.table("pages", &options);
    told.unwrap_or_else(|why| panic!("{why}")).found
}

/// The row of the heap block whose name begins so.
fn row<'a>(found: &'a Value, name: &str) -> &'a Value {
    let begins = |known: &str| known.split(' ').next() == Some(name);
    let named = |row: &&Value| row["kind"] == "heap" && row["name"].as_str().is_some_and(begins);
    let rows: Vec<&Value> = found["objects"].as_array().unwrap().iter().filter(named).collect();
    match rows[..] {
        [one] => one,
        ref others => panic!("{} rows of {name} in {found:#}", others.len()),
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn five_arrays_and_five_threads() {
    let subject = recorded("arrays", &["4"]);
    let found = pages(&subject, &["--function", "traverse"]);
    let lines = (4 << 20) / 64;
    for (a, name) in (0..).zip(["a0", "a1", "a2", "a3", "a4"]) {
        let row = row(&found, name);
        // The compiler keeps everything but the array in registers.
        assert_eq!(number(&row["writes"]), lines / 4 * a, "{row:#}");
        assert_eq!(number(&row["reads"]), lines - lines / 4 * a, "{row:#}");
        assert_eq!(number(&row["pages"]), 1024);
        assert_eq!(number(&row["tlb_misses"]), 1024);
        assert_eq!(number(&row["walks"]), 1024);
        // Two entries that point to tables, and up to two above, if the thread's stack is far away.
        let requests = number(&row["walk_requests"]);
        assert!((1024 + 2..=1024 + 4).contains(&requests), "{row:#}");
        // A line of eight entries comes from memory once; of the others some do.
        let memory = number(&row["walk_requests_served"]["memory"]);
        assert!((128..=128 + 4).contains(&memory), "{row:#}");
        let huge = &row["huge"];
        assert_eq!((number(&huge["tlb_misses"]), number(&huge["walks"])), (2, 2));
        assert!((2..=4).contains(&number(&huge["walk_requests"])), "{huge:#}");
        assert_eq!((number(&huge["huge_pages"]), number(&huge["bytes_wasted"])), (2, 0));
        let base = number(&found["total"]["translation_cycles"]);
        let saved = base - number(&huge["all"]["translation_cycles"]);
        assert_eq!(number(&huge["cycles_saved"]), saved);
        assert!(saved > 0);
    }
    let steps = found["best"]["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 5, "{steps:#?}");
    assert_eq!(number(&steps[4]["huge_pages"]), 10);
    let two = pages(&subject, &["--function", "traverse", "--huge-pages", "5"]);
    let steps = two["best"]["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "{steps:#?}");
}

#[test]
fn the_column_of_a_search_is_what_walks_are_for() {
    let subject = recorded("bfs", &["14", "16", "2", "1"]);
    let options = ["--function", "search", "--tlb", "L1=4K:16:4", "--tlb", "L1=2M:8:4"];
    let found = pages(&subject, &[&options[..], &["--tlb", "L2=4K:64:4"]].concat());
    let walks = |name: &str| number(&row(&found, name)["walks"]);
    let total = number(&found["total"]["walks"]);
    // 72.85% in the paper; nearly nothing of what is small or goes straight on.
    assert!(2 * walks("column") > total, "{found:#}");
    for name in ["visited", "oldq", "newq"] {
        assert!(20 * walks(name) < total, "{name}: {found:#}");
    }
    let first = found["best"]["steps"][0]["name"].as_str().unwrap();
    assert!(first.starts_with("column"), "{first}");
}

/// Runs memtrail, which must succeed; returns what it printed.
fn printed(args: &[&str], file: &Path) -> String {
    let output = Command::new(tools::memtrail().unwrap())
        .args(args)
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const ARRAYS: [&str; 5] = ["a0", "a1", "a2", "a3", "a4"];

/// Table II: every line is read once, and written back if it was written.
fn is_table_two(objects: &Value) {
    let lines = (4 << 20) / 64;
    for (a, name) in (0..).zip(ARRAYS) {
        let begins = |row: &&Value| {
            row["name"]
                .as_str()
                .is_some_and(|known| known.split(' ').next() == Some(name))
        };
        let row = objects.as_array().unwrap().iter().find(begins).unwrap();
        let counts = (number(&row["reads"]), number(&row["writes"]));
        assert_eq!(counts, (lines, lines / 4 * a), "{row:#}");
        let walks = number(&row["walks"]);
        assert!((128..=128 + 4).contains(&walks), "{row:#}");
    }
}

#[test]
fn a_memory_trace_is_the_table_of_the_paper_directly_and_as_if_it_were_snooped() {
    let source = "bench/pages/arrays.c";
    let subject = Subject::new("pages-snooped", source, &["-O2", "-g", "-pthread"], &["4"]);
    let subject = subject.unwrap_or_else(|why| panic!("{why}"));
    let options = ["--preset", "xeon-e5504", "--function", "traverse"];
    let direct = subject
        .table("memtrace", &options)
        .unwrap_or_else(|why| panic!("{why}"))
        .found;
    is_table_two(&direct["objects"]);

    let directory = tempfile::tempdir().unwrap();
    let snoop = directory.path().join("snoop");
    let to = ["--format", "snoop", "-o", snoop.to_str().unwrap()];
    printed(&[&["memtrace"], &options[..], &to].concat(), &subject.recording);
    let found: Value = serde_json::from_str(&printed(&["snooped", "--json"], &snoop)).unwrap();
    is_table_two(&found["objects"]);
    for none in ["lost_packets", "late_records", "unplaced"] {
        assert_eq!(number(&found[none]), 0, "{none}");
    }
    // Every request is there, and every one is somebody's, walks for directories perhaps excepted.
    let sum = |objects: &Value, key: &str| -> i64 { objects.as_array().unwrap().iter().map(|o| number(&o[key])).sum() };
    for key in ["reads", "writes", "walks"] {
        assert_eq!(sum(&found["objects"], key), sum(&direct["objects"], key), "{key}");
    }

    // The snooper loses packets, a tag among them: it says how many, and pages are found all the same.
    let memory = snoop.join("memory.txt");
    let text = std::fs::read_to_string(&memory).unwrap();
    let packets: Vec<&str> = text.lines().collect();
    let kept: Vec<&str> = packets
        .iter()
        .enumerate()
        .filter(|(at, _)| !(1..4).contains(at))
        .map(|(_, p)| *p)
        .collect();
    std::fs::write(&memory, kept.join("\n")).unwrap();
    let found: Value = serde_json::from_str(&printed(&["snooped", "--json"], &snoop)).unwrap();
    assert_eq!((number(&found["lost_packets"]), number(&found["gaps"])), (3, 1));
    assert_eq!((number(&found["late_records"]), number(&found["unplaced"])), (3, 0));
    is_table_two(&found["objects"]);
}

#[test]
fn a_binary_trace_holds_what_the_text_does() {
    let source = "bench/pages/arrays.c";
    let subject = Subject::new("pages-binary", source, &["-O2", "-g", "-pthread"], &["1"]);
    let subject = subject.unwrap_or_else(|why| panic!("{why}"));
    let options = ["memtrace", "--preset", "xeon-e5504", "--function", "traverse"];
    let text = printed(&options, &subject.recording);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    let to = ["--format", "binary", "-o", file.to_str().unwrap()];
    printed(&[&options[..], &to].concat(), &subject.recording);
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(&bytes[..16], b"MEMTRC01\x30\0\0\0\0\0\0\0");
    let long = |record: &[u8], at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
    let short = |record: &[u8], at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    let line = |record: &[u8]| {
        let flags = short(record, 44);
        let rw = if flags & 1 == 0 { 'R' } else { 'W' };
        let (paddr, time, vaddr) = (long(record, 0), long(record, 8), long(record, 16));
        let (object, space) = (short(record, 32), short(record, 40));
        let within = match flags & 4 {
            0 => format!("{} {}", short(record, 36), long(record, 24)),
            _ => "- -".to_string(),
        };
        format!(
            "{paddr:#x} {rw} {time} {space} {vaddr:#x} {object} {within} {}",
            flags >> 1 & 1
        )
    };
    let expected: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(expected.len() > 5 * 16384, "{}", expected.len());
    let found: Vec<String> = bytes[16..].chunks(48).map(line).collect();
    assert_eq!(found, expected);
    let table = std::fs::read(directory.path().join("trace.objects.json")).unwrap();
    let table: Value = serde_json::from_slice(&table).unwrap();
    assert!(table["objects"].as_array().unwrap().len() > 5);
}
