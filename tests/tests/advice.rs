//! Advice, followed: programs with a known remedy, and programs without one.
//!
//! Each program of `advice/` is recorded and `advise` asked about a small cache. If the program has
//! a remedy, built in with `-DFIXED`, the best advice must be of that kind, and the misses that it
//! predicts must be those that the repaired program has, within 5%. Of the others nothing may be
//! advised.
use memtrail_tests::subject::Subject;
use serde_json::Value;

const CACHE: [&str; 2] = ["--cache", "L1=4K:64:4"];

fn subject(name: &str, flags: &[&str]) -> Subject {
    let source = format!("tests/advice/{name}.c");
    let kind = if flags.is_empty() { "advice" } else { "advice-fixed" };
    let flags = [&["-g", "-O1"], flags].concat();
    Subject::new(&format!("{kind}-{name}"), &source, &flags, &[]).unwrap_or_else(|why| panic!("{why}"))
}

/// What is advised, the best first.
fn advised(name: &str) -> (u64, Vec<Value>) {
    let table = subject(name, &[])
        .table("advise", &CACHE)
        .unwrap_or_else(|why| panic!("{why}"));
    let advice = table.found["advice"].as_array().cloned().unwrap_or_default();
    (table.found["misses"].as_u64().unwrap(), advice)
}

fn remedied(name: &str, change: &str, object: &str) {
    let (before, advice) = advised(name);
    let best = advice.first().unwrap_or_else(|| panic!("{name}: nothing is advised"));
    assert_eq!(best["change"], change, "{name}: {best:#}");
    assert!(
        best["object"].as_str().is_some_and(|o| o.starts_with(object)),
        "{name}: {best:#}"
    );
    assert_eq!(best["legal"], true);
    assert_eq!(best["before"]["misses"], before);
    let file = best["file"].as_str().unwrap_or_default();
    assert!(file.ends_with(&format!("{name}.c")), "{name}: {best:#}");
    let predicted = best["after"]["misses"].as_u64().unwrap();
    let found = subject(name, &["-DFIXED"])
        .simulated(&CACHE)
        .unwrap_or_else(|why| panic!("{why}"));
    let measured = found["levels"][0]["misses"].as_u64().unwrap();
    let off = predicted.abs_diff(measured) as f64 / measured as f64;
    assert!(off <= 0.05, "{name}: predicted {predicted}, measured {measured}");
    assert!(measured < before, "{name}: {measured} of {before}");
}

fn without_remedy(name: &str) {
    let (_, advice) = advised(name);
    assert!(advice.is_empty(), "{name}: {advice:#?}");
}

#[test]
fn loops_are_interchanged() {
    remedied("product", "interchange", "B");
    remedied("columns", "interchange", "a");
    remedied("adi", "interchange", "");
}

#[test]
fn loops_are_fused_and_tiled() {
    remedied("two_passes", "fuse", "");
    remedied("transposed", "tile", "b");
    remedied("pairs", "tile", "y");
}

#[test]
fn structures_are_taken_apart() {
    remedied("cold_fields", "split", "table");
    remedied("particles", "split", "p");
}

#[test]
fn conflicts_are_padded_away() {
    remedied("row_conflict", "pad", "a");
    remedied("array_conflict", "pad", "a");
}

#[test]
fn nothing_is_advised_where_nothing_helps() {
    for name in ["gather", "stream", "chase", "histogram", "wavefront"] {
        without_remedy(name);
    }
}

/// The same changes, asked for by hand.
#[test]
fn what_is_asked_for_is_what_is_advised() {
    let whatif = |name: &str, options: &[&str]| {
        let options = [&CACHE[..], options].concat();
        let table = subject(name, &[]).table("whatif", &options);
        table.unwrap_or_else(|why| panic!("{why}")).found
    };
    let misses = |value: &Value| value["levels"][0]["misses"].as_u64().unwrap();
    let (before, advice) = advised("cold_fields");
    let split = whatif("cold_fields", &["--split", "table:name,count,limit"]);
    assert_eq!(misses(&split["before"]), before);
    // The command takes each field apart, the advice the cold ones together: the keys are alike.
    let predicted = advice[0]["after"]["misses"].as_u64().unwrap();
    assert!(misses(&split["after"]).abs_diff(predicted) < 20, "{split:#}");
    let wavefront = whatif("wavefront", &["--interchange", "wavefront.c:7"]);
    assert_eq!(wavefront["legal"], false);
    let product = whatif("product", &["--interchange", "product.c:14"]);
    assert_eq!(product["legal"], true);
    assert!(
        misses(&product["after"]) < misses(&product["before"]) / 4,
        "{product:#}"
    );
    let moved = whatif("columns", &["--move", "a:0"]);
    // It no longer shares its first and last line with its neighbours.
    assert!(
        misses(&moved["before"]).abs_diff(misses(&moved["after"])) <= 2,
        "{moved:#}"
    );
}
