//! TLBs, page walks and huge pages, in programs whose answer is known by construction: those of
//! paper 004, in `bench/pages/`, scaled down.
use memtrail_tests::subject::Subject;
use serde_json::Value;

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
    let named = |row: &&Value| {
        row["name"]
            .as_str()
            .is_some_and(|known| known.split(' ').next() == Some(name))
    };
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
