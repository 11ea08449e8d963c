//! Threads with caches of their own are simulated side by side, and count what they count together.
mod common;

use common::{memtrail, stderr};
use serde_json::Value;
use tempfile::tempdir;

#[test]
fn threads_apart_count_what_they_count_together() {
    let dir = tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = memtrail(&dir, args);
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    };
    run(&["record", "-o", "a.mtr", "--", "sh", "-c", "/bin/true; /bin/true"]);
    let sim = |cache: &str, more: &[&str]| {
        let args = [&["sim", "--json", "--evictors", "--cache", cache], more, &["a.mtr"]].concat();
        let mut value: Value = serde_json::from_slice(&run(&args)).unwrap();
        value["skipped"].take();
        value
    };
    // A limit, even one that is never reached, keeps the order of threads.
    let together = &["--limit", "1000000000000"];
    let apart = sim("L1=4K:64:2", &[]);
    assert_eq!(apart, sim("L1=4K:64:2", together));
    assert!(apart["accesses"].as_u64().unwrap() > 10_000);
    // In a shared cache they are in each other's way.
    assert_ne!(sim("L1=4K:64:2:shared", &[])["levels"], apart["levels"]);
}
