//! Runs made by hand, explained and compared.
use memtrail_explain::answer::{Answer, Look, NoAnswer};
use memtrail_explain::diff::{Diff, DiffError, Rule};
use memtrail_model::Kind;
use memtrail_report::{Counted, Dimension, Entry, Facts, Object, Reference, ResultSet, Row, Run, Source};
use memtrail_simulate::{short, Hierarchy, PointCounts};
use std::collections::BTreeMap;

/// A reference: module, function, line, words, accesses, misses.
type Made<'t> = (&'t str, &'t str, u32, Option<&'t str>, u64, u64);

fn reference(offset: u64, made: &Made<'_>) -> Entry {
    let &(module, function, line, words, ..) = made;
    Entry::Ref(Box::new(Reference {
        module: Some(module.into()),
        offset: Some(offset),
        kind: Kind::Read,
        name: format!("x_{offset}"),
        source: words.map(str::to_string),
        certain: true,
        variable: None,
        function: Some(function.into()),
        file: (line > 0).then(|| "/src/slow.c".into()),
        line: (line > 0).then_some(line),
        pc: offset,
        instance: 0,
        what: words.is_none().then(|| "spill".into()),
    }))
}

fn object(name: &str) -> Entry {
    Entry::Object(Box::new(Object {
        name: name.into(),
        kind: "static".into(),
        facts: Facts {
            bytes: Some(2_097_152),
            blocks: 1,
            patterns: BTreeMap::from([("regular".to_string(), 9)]),
            strides: BTreeMap::from([(4096, 9)]),
            ..Facts::default()
        },
        ..Object::default()
    }))
}

/// `shift` moves all addresses, as another build would.
fn set(shift: u64, made: &[Made<'_>]) -> ResultSet {
    let row = |(at, made): (usize, &Made<'_>)| {
        let (accesses, misses) = (made.4, made.5);
        let counts = PointCounts {
            hits: accesses - misses,
            misses,
            evictions: misses,
            used_bytes: 8 * misses,
            ..PointCounts::default()
        };
        Row {
            key: vec![at as u32, 0],
            reads: accesses,
            bytes: 8 * accesses,
            levels: vec![counts],
            ..Row::default()
        }
    };
    let references = made
        .iter()
        .enumerate()
        .map(|(at, made)| reference(shift + 16 * at as u64, made));
    let levels = short::levels(&["L1=32K:64:8".to_string()]).unwrap();
    ResultSet {
        run: Run {
            sources: [Source {
                command: vec!["./slow".into()],
                file: Some("slow.mtr".into()),
            }]
            .into(),
            config: "--cache".into(),
            hierarchy: Hierarchy::of(levels),
            accesses: made.iter().map(|made| made.4).sum(),
            counted: Counted {
                bytes: true,
                ..Counted::default()
            },
            ..Run::default()
        },
        dimensions: vec![Dimension::Ref, Dimension::Object],
        entries: vec![references.collect(), vec![object("B")]],
        rows: made.iter().enumerate().map(row).collect(),
        levels: vec![Default::default()],
        ..ResultSet::default()
    }
    .canonical()
}

const SLOW: &[Made<'static>] = &[
    ("slow", "multiply", 9, Some("A[i][k]"), 262_144, 4096),
    ("slow", "multiply", 9, Some("B[k][j]"), 131_072, 131_072),
    // The compiler made two of it.
    ("slow", "multiply", 9, Some("B[k][j]"), 131_072, 131_072),
    ("slow", "multiply", 8, None, 1000, 10),
    ("libc.so.6", "__memset_avx2_unaligned", 0, None, 5000, 500),
    ("ld-linux-x86-64.so.2", "do_lookup_x", 0, None, 7000, 700),
];

#[test]
fn the_short_answer_names_what_misses_in_the_words_of_the_source() {
    let set = set(0, SLOW);
    let answer = Answer::of(&set, false).unwrap();
    let text = answer.text(
        "slow.mtr",
        Look {
            width: Some(100),
            colour: false,
        },
    );
    let expected = "\
./slow: 537,288 reads, 0 writes, 4.3 MB
the caches you named would do this:
  L1   32K  267,450 misses,   50% of its accesses: 17.1 MB fetched, an eighth of it used

What to look at first
1. B[k][j]  slow.c:9 in multiply
   262,144 of 262,144 reads miss L1: 98% of the cost of all misses
   an eighth of each line it brings in is used before it has to go; data: B (static, 2.1 MB,
   regular, mostly +4096 bytes)
2. A[i][k]  slow.c:9 in multiply
   4,096 of 262,144 reads miss L1: 2% of the cost of all misses
   an eighth of each line it brings in is used before it has to go; data: B (static, 2.1 MB,
   regular, mostly +4096 bytes)
and 1 more
libraries and start-up code: 12,000 accesses, 0.4% of the misses (--all)

Next
  memtrail advise slow.mtr                 # changes that would help, each tried on the recording
  memtrail lines slow.mtr                  # the source, with misses beside each line
  memtrail report slow.mtr -o report.html  # all of it, to look at in a browser
";
    assert_eq!(text, expected);
    let value = answer.json("slow.mtr");
    assert_eq!(value["first"][0]["reference"], "B[k][j]");
    assert_eq!(value["first"][0]["misses"]["L1"], 262_144);
    assert_eq!(value["first"][0]["spatial_use"], 0.125);
    assert_eq!(value["libraries"]["accesses"], 12_000);
}

#[test]
fn advice_stands_below_what_it_is_for() {
    let set = set(0, SLOW);
    let mut answer = Answer::of(&set, false).unwrap();
    answer.advise(|thing| match thing.words.as_str() {
        "B[k][j]" => vec!["interchange the loops j and k: 8 times fewer misses".into()],
        _ => Vec::new(),
    });
    let text = answer.text("slow.mtr", Look::default());
    assert!(
        text.contains("   → interchange the loops j and k: 8 times fewer misses\n2. A[i][k]"),
        "{text}"
    );
}

#[test]
fn libraries_are_shown_if_asked_for_or_if_they_matter() {
    let set = set(0, SLOW);
    let all = Answer::of(&set, true).unwrap();
    assert_eq!((all.first.len(), all.others, all.foreign.things), (2, 3, 0));
    let matters = [("libc.so.6", "__memset_avx2_unaligned", 0, None, 5000, 500), SLOW[0]];
    let set = self::set(0, &matters);
    let answer = Answer::of(&set, false).unwrap();
    assert_eq!(answer.first[1].words, "memset");
    assert!(answer.wants_paths());
}

#[test]
fn every_line_fits_whatever_names_are_long() {
    let long = "very_long_name".repeat(700);
    let made: Vec<Made<'_>> = vec![("slow", &long, 9, Some(&long), 100, 50)];
    let set = set(0, &made);
    let answer = Answer::of(&set, false).unwrap();
    for width in [60, 80, 100, 120] {
        let text = answer.text(
            "slow.mtr",
            Look {
                width: Some(width),
                colour: false,
            },
        );
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width.max(90), "{widest} columns in {width}:\n{text}");
    }
}

#[test]
fn colour_is_all_that_colour_adds() {
    let set = set(0, SLOW);
    let answer = Answer::of(&set, false).unwrap();
    let plain = answer.text(
        "slow.mtr",
        Look {
            width: Some(100),
            colour: false,
        },
    );
    let mut coloured = answer.text(
        "slow.mtr",
        Look {
            width: Some(100),
            colour: true,
        },
    );
    assert!(coloured.contains("\x1b[1mB[k][j]\x1b[0m"));
    for code in ["\x1b[1m", "\x1b[2m", "\x1b[0m"] {
        coloured = coloured.replace(code, "");
    }
    assert_eq!(coloured, plain);
}

#[test]
fn what_has_no_references_has_no_answer() {
    let mut set = set(0, SLOW);
    set.levels.clear();
    assert_eq!(Answer::of(&set, false).unwrap_err(), NoAnswer::Caches);
    let set = ResultSet {
        levels: vec![Default::default()],
        ..ResultSet::default()
    };
    assert_eq!(Answer::of(&set, false).unwrap_err(), NoAnswer::References);
}

#[test]
fn the_same_run_does_not_differ() {
    let diff = Diff::of(&set(0, SLOW), &set(0, SLOW), 0).unwrap();
    assert!(diff.is_empty());
    assert_eq!(diff.text(("a.mtr", "a.mtr"), false, None), "no difference\n");
    assert_eq!(diff.json("a.mtr", "a.mtr")["rows"].as_array().unwrap().len(), 0);
}

#[test]
fn another_build_does_not_differ() {
    let moved: Vec<Made<'_>> = SLOW
        .iter()
        .map(|&(module, function, line, words, accesses, misses)| {
            let line = if line > 0 { line + 100 } else { 0 };
            (module, function, line, words, accesses, misses)
        })
        .collect();
    let diff = Diff::of(&set(0, SLOW), &set(0x5000, &moved), 0).unwrap();
    assert!(diff.is_empty(), "{:?}", diff.rows);
}

#[test]
fn what_changed_is_told_in_every_dimension() {
    let mut better = SLOW.to_vec();
    // Lines have moved, and the loops were interchanged.
    better.iter_mut().filter(|made| made.2 > 0).for_each(|made| made.2 += 2);
    better[1].5 = 16_384;
    better[2].5 = 16_384;
    // The dynamic linker had other addresses.
    better[5].5 = 701;
    let diff = Diff::of(&set(0, SLOW), &set(0x70, &better), 0).unwrap();
    let text = diff.text(("old.mtr", "new.mtr"), false, Some(100));
    let expected = "\
new.mtr misses L1 86% less often than old.mtr: 267,450 → 38,075
new.mtr makes as many accesses as old.mtr: 537,288

by object  L1 misses before   after    change      %  accesses
B                   267,450  38,075  -229,375  -85.8   537,288

by reference                            L1 misses before   after    change      %  accesses
B[k][j] read (slow.c:11, was slow.c:9)           262,144  32,768  -229,376  -87.5   262,144
libraries and start-up code: 1 reference, misses changed by 1 in all (--all)

by line                   L1 misses before   after    change      %  accesses
slow.c:11 (was slow.c:9)           266,240  36,864  -229,376  -86.2   524,288
[no line known]                      1,200   1,201        +1   +0.1    12,000

by function  L1 misses before   after    change      %  accesses
multiply              266,250  36,874  -229,376  -86.2   525,288
libraries and start-up code: 1 function, misses changed by 1 in all (--all)
";
    assert_eq!(text, expected);
    let value = diff.json("old.mtr", "new.mtr");
    let rows = value["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    assert_eq!(rows[0]["name"], "B");
    assert_eq!(rows[0]["dimension"], "object");
    assert_eq!(rows[1]["dimension"], "reference");
    assert_eq!(rows[1]["before"]["misses"], 262_144);
    assert_eq!(rows[1]["after"]["misses"], 32_768);
    assert_eq!(rows[1]["after"]["levels"]["L1"]["hits"], 262_144 - 32_768);
    let fails = |rule: &str| diff.fails(&rule.parse::<Rule>().unwrap()).unwrap();
    assert_eq!(fails("L1.misses>+2%"), None);
    assert_eq!(
        fails("L1.misses<-50%").unwrap(),
        "L1.misses<-50%: 267,450 before, 38,075 after"
    );
    assert_eq!(fails("accesses>+0"), None);
    assert!(fails("L1.misses>38074").is_some());
    assert!(fails("L1.misses>38075").is_none());
    assert!(diff.fails(&"L7.misses>1".parse().unwrap()).is_err());
    // The other way round it is a failure.
    let worse = Diff::of(&set(0x70, &better), &set(0, SLOW), 0).unwrap();
    let failed = worse.fails(&"L1.misses>+2%".parse().unwrap()).unwrap();
    assert_eq!(failed.unwrap(), "L1.misses>+2%: 38,075 before, 267,450 after");
}

#[test]
fn what_is_in_one_run_only_is_new_or_gone() {
    let diff = Diff::of(&set(0, &SLOW[..2]), &set(0, &SLOW[1..2]), 0).unwrap();
    let gone = diff.rows.iter().find(|row| row.name.starts_with("A[i][k]")).unwrap();
    assert_eq!((gone.before.misses(0), gone.after.misses(0)), (4096, 0));
    let text = diff.text(("old", "new"), true, None);
    assert!(text.contains("gone"), "{text}");
    let total: u64 = diff
        .rows
        .iter()
        .filter(|row| row.dimension == Dimension::Ref)
        .map(|row| row.before.accesses() - row.after.accesses())
        .sum();
    assert_eq!(total, 262_144);
}

#[test]
fn different_caches_cannot_be_compared() {
    let mut other = set(0, SLOW);
    other.run.hierarchy = Hierarchy::of(short::levels(&["L1=16K:64:8".to_string()]).unwrap());
    assert!(matches!(
        Diff::of(&set(0, SLOW), &other, 0),
        Err(DiffError::Caches { .. })
    ));
}
