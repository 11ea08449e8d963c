//! Estimates from a few intervals, held to the whole recording: the stated confidence is checked.
use memtrail_tests::subject::Subject;
use std::process::Command;

const CACHES: [&str; 4] = ["--cache", "L1=4K:64:4", "--cache", "L2=64K:64:8"];

fn subject(name: &str) -> Subject {
    let source = format!("tests/advice/{name}.c");
    let subject = Subject::new(&format!("sampling-{name}"), &source, &["-g", "-O1"], &[]);
    subject.unwrap_or_else(|why| panic!("{why}"))
}

/// Ten samples of each of four programs, two levels: of 80 intervals at least 92% hold the truth.
#[test]
fn nineteen_of_twenty_intervals_hold_the_truth() {
    let (mut held, mut all) = (0, 0);
    for name in ["adi", "two_passes", "histogram", "chase"] {
        let subject = subject(name);
        for draw in 1..=10 {
            let draw = draw.to_string();
            let options = [&CACHES[..], &["--exact", "--interval", "5000", "--draw", &draw]].concat();
            let found = subject
                .table("estimate", &options)
                .unwrap_or_else(|why| panic!("{why}"))
                .found;
            for level in found["levels"].as_array().unwrap() {
                let number = |key: &str| level[key].as_f64().unwrap();
                held += u32::from((number("low")..=number("high")).contains(&number("exact")));
                all += 1;
            }
            // Two of each of at most 30 clusters.
            let sampled = found["sampled"].as_u64().unwrap();
            assert!((40..=60).contains(&sampled), "{sampled}");
        }
    }
    assert_eq!(all, 80);
    assert!(held >= 74, "{held} of {all} intervals hold the truth");
}

/// What the SimPoint tool reads: vectors and points have the same intervals, weights sum to 1.
#[test]
fn vectors_and_points_agree() {
    let subject = subject("product");
    let points = subject.table("simpoints", &["--interval", "100000"]);
    let points = points.unwrap_or_else(|why| panic!("{why}")).found;
    let mut bbv = Command::new(memtrail_tests::tools::memtrail().unwrap());
    let vectors = memtrail_tests::subject::output(bbv.args(["bbv", "--interval", "100000"]).arg(&subject.recording));
    let vectors = vectors.unwrap_or_else(|why| panic!("{why}"));
    let lines: Vec<&str> = vectors.lines().collect();
    assert_eq!(points["intervals"], lines.len());
    let sum = |line: &str| -> u64 {
        let entries = line.strip_prefix('T').unwrap().split_whitespace();
        let count = |entry: &str| entry.rsplit(':').next().unwrap().parse::<u64>().unwrap();
        entries.map(count).sum()
    };
    for line in &lines[..lines.len() - 1] {
        assert_eq!(sum(line), 100_000);
    }
    let weights = points["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["weight"].as_f64().unwrap());
    assert!((weights.sum::<f64>() - 1.0).abs() < 1e-9);
}
