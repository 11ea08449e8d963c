//! Sets made by hand and at random: merged, saved, damaged, and looked at.
use memtrail_model::Kind;
use memtrail_report::file::{load, save, FileError};
use memtrail_report::*;
use memtrail_simulate::reuse::Touches;
use memtrail_simulate::sweep::{SweepConfig, Swept};
use memtrail_simulate::{short, Charge, Classes, Hierarchy, PointCounts, Requests, Traffic};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn hierarchy() -> Hierarchy {
    Hierarchy::of(
        short::levels(&["L1=1K:64:2", "L2=4K:64:4:plru"])
            .unwrap()
            .into_iter()
            .collect(),
    )
}

fn reference(offset: u64) -> Entry {
    Entry::Ref(Box::new(Reference {
        module: Some("prog".into()),
        offset: Some(offset),
        kind: if offset % 2 == 0 { Kind::Read } else { Kind::Write },
        name: format!("x_{offset}"),
        source: Some("x[i]".into()),
        certain: true,
        variable: None,
        function: Some("main".into()),
        file: Some("/src/prog.c".into()),
        line: Some(offset as u32),
        pc: 0x1000 + offset,
        instance: 0,
        what: None,
    }))
}

fn object(number: u64, blocks: u64) -> Entry {
    let path = |word: &str| vec![format!("main ({word}.c:{number})"), "push (l.c:5)".to_string()];
    Entry::Object(Box::new(Object {
        name: "fresh (l.c:5)".into(),
        kind: "heap".into(),
        path: CallPath {
            calls: path("l"),
            sites: path("site"),
        },
        facts: Facts {
            blocks,
            bytes: Some(16),
            lifetime: u128::from(blocks) << 70,
            elements: BTreeMap::from([(16, blocks)]),
            patterns: BTreeMap::from([("regular".to_string(), 3 * blocks)]),
            strides: BTreeMap::from([(-8, blocks)]),
            ..Facts::default()
        },
        ..Object::default()
    }))
}

/// What a part of a run counted: by reference and object, with evictions.
#[derive(Clone, Debug)]
struct Part {
    /// Reference, object, hits, misses.
    counts: Vec<(u64, u64, u64, u64)>,
    /// Rows by their places above.
    evictions: Vec<(usize, usize, u64)>,
}

fn counts(hits: u64, misses: u64) -> PointCounts {
    PointCounts {
        hits,
        misses,
        spatial_hits: hits / 2,
        evictions: misses / 2,
        used_bytes: misses * 8,
        ..PointCounts::default()
    }
}

fn set(part: &Part) -> ResultSet {
    let row = |(at, &(reference, _, hits, misses)): (usize, &(u64, u64, u64, u64))| {
        let write = reference % 2 == 1;
        Row {
            key: vec![at as u32, at as u32],
            reads: if write { 0 } else { hits + misses },
            writes: if write { hits + misses } else { 0 },
            bytes: 8 * (hits + misses),
            levels: vec![counts(hits, misses), counts(misses, 0)],
        }
    };
    let mut levels = vec![LevelTotals::default(), LevelTotals::default()];
    for &(owner, evictor, n) in &part.evictions {
        *levels[0].evictors.entry((owner as u32, evictor as u32)).or_default() += n;
    }
    levels[0].caches = 1;
    levels[0].traffic = Traffic {
        reads: Requests {
            requests: part.counts.len() as u64,
            misses: 0,
        },
        ..Traffic::default()
    };
    let run = Run {
        sources: [Source {
            command: vec!["prog".into()],
            file: Some("prog.mtr".into()),
        }]
        .into(),
        config: "--cache".into(),
        hierarchy: hierarchy(),
        accesses: part.counts.iter().map(|c| c.2 + c.3).sum(),
        counted: Counted {
            evictors: Some(Charge::Owner),
            bytes: true,
            ..Counted::default()
        },
        ..Run::default()
    };
    let set = ResultSet {
        run,
        dimensions: vec![Dimension::Ref, Dimension::Object],
        entries: vec![
            part.counts.iter().map(|c| reference(c.0)).collect(),
            part.counts.iter().map(|c| object(c.1, 1)).collect(),
        ],
        rows: part.counts.iter().enumerate().map(row).collect(),
        levels,
        sweep: vec![Swept {
            config: SweepConfig::lru(1024, 64, 2),
            counts: Default::default(),
            skipped: part.counts.len() as u64,
        }],
        ..ResultSet::default()
    };
    set.canonical()
}

/// Of two parts, what both did together. Objects have one block for each row here, so that blocks
/// add up.
fn whole(parts: &[Part]) -> Part {
    let mut whole = Part {
        counts: Vec::new(),
        evictions: Vec::new(),
    };
    for part in parts {
        let before = whole.counts.len();
        whole.counts.extend(&part.counts);
        let moved = part.evictions.iter().map(|&(a, b, n)| (a + before, b + before, n));
        whole.evictions.extend(moved);
    }
    whole
}

fn part() -> impl Strategy<Value = Part> {
    let counts = proptest::collection::vec((0u64..6, 0u64..3, 0u64..100, 1u64..100), 1..12);
    counts.prop_flat_map(|counts| {
        let rows = counts.len();
        let evictions = proptest::collection::vec((0..rows, 0..rows, 1u64..9), 0..8);
        evictions.prop_map(move |evictions| Part {
            counts: counts.clone(),
            evictions,
        })
    })
}

fn saved(set: &ResultSet) -> Vec<u8> {
    let mut bytes = Vec::new();
    save(set.clone(), &mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_merge_to_the_whole_in_any_order(a in part(), b in part(), c in part()) {
        let mut expected = set(&whole(&[a.clone(), b.clone(), c.clone()]));
        // Each part had a cache of its own.
        expected.levels[0].caches = 3;
        let [a, b, c] = [set(&a), set(&b), set(&c)];
        let left = a.clone().merge(b.clone()).unwrap().merge(c.clone()).unwrap();
        let right = c.merge(b.merge(a).unwrap()).unwrap();
        prop_assert_eq!(&left, &expected);
        prop_assert_eq!(&right, &expected);
    }

    #[test]
    fn what_is_saved_is_read_again(part in part()) {
        let set = set(&part);
        prop_assert_eq!(load(&saved(&set)[..]).unwrap(), set);
    }

    /// By fewer dimensions the sums are the same.
    #[test]
    fn views_add_up(part in part()) {
        let set = set(&part);
        let total = set.total(0);
        for by in [&[Dimension::Object][..], &[Dimension::Object, Dimension::Ref], &[]] {
            let view = View::new(&set, by, Sort::Misses, None).unwrap();
            let misses: u64 = view.rows.iter().map(|row| row.levels[0].misses).sum();
            prop_assert_eq!(misses, total.misses);
            let evictions: u64 = view.evictors[0].values().sum();
            prop_assert_eq!(evictions, set.levels[0].evictors.values().sum::<u64>());
            prop_assert!(view.rows.windows(2).all(|w| w[0].levels[0].misses >= w[1].levels[0].misses));
        }
    }
}

/// Two references of two objects.
fn small() -> ResultSet {
    set(&Part {
        counts: vec![(2, 1, 10, 5), (3, 1, 0, 7), (2, 2, 4, 4)],
        evictions: vec![(0, 1, 2), (1, 0, 3), (2, 2, 1)],
    })
}

#[test]
fn a_table_is_exact() {
    let set = small();
    let view = View::new(&set, &[Dimension::Object], Sort::Misses, None).unwrap();
    let expected = "\
object                        kind  accesses      %  writes %  L1 misses      %    ratio  L2 misses  %    ratio      size  blocks   element  pattern
fresh (l.c:5) < main (l.c:1)  heap        22  73.33     31.82         12  75.00  0.54545          0  -  0.00000  16 bytes       2  16 bytes  regular, -8 in 33.33%
fresh (l.c:5) < main (l.c:2)  heap         8  26.67      0.00          4  25.00  0.50000          0  -  0.00000  16 bytes       1  16 bytes  regular, -8 in 33.33%
";
    assert_eq!(text::objects(&view, 20), expected);
    let view = View::new(&set, &[Dimension::Ref], Sort::Name, None).unwrap();
    let expected = "\
file:line  reference  source  hits  misses  miss ratio  temporal  spatial use  L2 misses
prog.c:2   x_2        x[i]      14       9     0.39130   0.50000      0.28125          0
prog.c:3   x_3        x[i]       0       7     1.00000   no hits      0.29167          0
";
    assert_eq!(text::counts(&view, 20), expected);
    let expected = "\
file:line  reference  source  evicted by             count  percent
prog.c:2   x_2        x[i]    prog.c:3    x_3  x[i]      2    66.67
                              prog.c:2    x_2  x[i]      1    33.33
prog.c:3   x_3        x[i]    prog.c:2    x_2  x[i]      3   100.00
";
    assert_eq!(text::evictors(&view, 20), expected);
    let value = json::with_evictors(json::table(&view, Dimension::Ref, "refs", 9), &view, 9);
    assert_eq!(value["refs"][0]["misses"]["L1"], 9);
    assert_eq!(value["refs"][0]["accessed_bytes"], 23 * 8);
    assert_eq!(
        value["evictors"][0],
        serde_json::json!({"level": "L1", "owner": 0, "evictor": 0, "count": 1})
    );
}

#[test]
fn what_a_set_lacks_is_named() {
    let set = small();
    let lacks = |by: &[Dimension], level| View::new(&set, by, Sort::Name, level).err().map(|e| e.to_string());
    assert_eq!(
        lacks(&[Dimension::Thread], None).unwrap(),
        "its counts are by ref, object, not by thread; --by thread with --save, on the recording, makes one that is"
    );
    assert_eq!(lacks(&[], Some("L9")).unwrap(), "--level L9: there are L1, L2");
    assert_eq!(
        View::new(&ResultSet::default(), &[], Sort::Name, None).err(),
        Some(Missing::Hierarchy)
    );
}

#[test]
fn different_things_are_not_merged() {
    let mut other = small();
    other.run.hierarchy.levels.pop();
    other.levels.pop();
    let error = small().merge(other).unwrap_err().to_string();
    let levels = "L1=1K:64:2:private L2=4K:64:4:plru:shared, and L1=1K:64:2:private";
    assert_eq!(
        error,
        format!("results with different caches cannot be merged: {levels}")
    );
    let mut other = small();
    other.dimensions[1] = Dimension::Line;
    assert!(small().merge(other).unwrap_err().to_string().contains("dimensions"));
}

#[test]
fn what_is_counted_otherwise_in_one_part_is_not_told() {
    let mut other = small();
    other.run.counted.evictors = Some(Charge::All);
    let merged = small().merge(other).unwrap();
    assert_eq!(merged.run.counted.evictors, None);
    assert!(merged.levels[0].evictors.is_empty());
}

/// With a checksum that fits.
fn sealed(lines: &[&str]) -> Vec<u8> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let crc = crc32fast::hash(text.as_bytes());
    format!("{text}{{\"end\":{{\"lines\":{},\"crc32\":{crc}}}}}\n", lines.len()).into_bytes()
}

#[test]
fn cut_anywhere_it_is_told() {
    let bytes = saved(&small());
    for end in 0..bytes.len() {
        let error = load(&bytes[..end]).unwrap_err();
        let begun = end >= file::MAGIC.len();
        match error {
            FileError::NotResults => assert!(!begun, "{end}"),
            FileError::CutOff { lines } => {
                assert_eq!(lines, bytes[..end].iter().filter(|b| **b == b'\n').count() as u64);
            }
            other => panic!("{end}: {other}"),
        }
    }
    let more = [&bytes[..], b"x"].concat();
    assert!(matches!(load(&more[..]), Err(FileError::More)));
}

#[test]
fn every_flipped_bit_is_told() {
    let bytes = saved(&small());
    for at in 0..bytes.len() {
        for bit in [0, 3, 6] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(load(&damaged[..]).is_err(), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn other_versions_are_refused() {
    let bytes = String::from_utf8(saved(&small())).unwrap();
    let other = bytes.replacen("\"memtrail_results\":1", "\"memtrail_results\":2", 1);
    let error = load(other.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "these are results of version 2; this memtrail reads version 1");
    let error = load(&b"\x7fELF"[..]).unwrap_err().to_string();
    assert_eq!(error, "these are no saved results");
}

/// Files that someone made up, with the right checksum: each has an error that names the line, and
/// none panics.
#[test]
fn lines_that_cannot_be_are_refused() {
    let text = String::from_utf8(saved(&small())).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let lines = &lines[..lines.len() - 1];
    assert_eq!(load(&sealed(lines)[..]).unwrap(), small());
    let first = |begin: &str| lines.iter().position(|line| line.starts_with(begin)).unwrap();
    let huge = u64::MAX.to_string();
    for (begin, from, to, why) in [
        ("{\"row\"", "\"key\":[0,0]", "\"key\":[0,9]", "there is no object 9"),
        (
            "{\"row\"",
            "\"key\":[0,0]",
            "\"key\":[0]",
            "a row of other than 2 dimensions and 2 levels",
        ),
        (
            "{\"row\"",
            "\"hits\":10",
            &format!("\"hits\":{huge}"),
            "counts that cannot be",
        ),
        (
            "{\"row\"",
            "\"spatial_hits\":5",
            "\"spatial_hits\":11",
            "counts that cannot be",
        ),
        ("{\"row\"", "\"reads\":15", "\"reads\":-1", "invalid value"),
        ("{\"row\"", "\"hits\"", "\"guesses\"", "unknown field"),
        ("{\"evicted\"", "\"level\":0", "\"level\":2", "there is no level 2 of 2"),
        (
            "{\"evicted\"",
            "\"evictor\":2",
            "\"evictor\":77",
            "there is no row 77 of 3",
        ),
        ("{\"entry\"", "{\"ref\":", "{\"mood\":", "unknown variant"),
        (
            "{\"entry\"",
            "\"kind\":\"read\"",
            "\"kind\":\"wish\"",
            "is no kind of access",
        ),
        (
            "{\"memtrail_results\"",
            "1K:64:2",
            "1K:64:0",
            "a set has at least one way",
        ),
        (
            "{\"memtrail_results\"",
            "[\"ref\",\"object\"]",
            "[\"object\",\"ref\"]",
            "line",
        ),
        ("{\"sweep\"", "\"ways\":2", "\"ways\":0", "a set has at least one way"),
    ] {
        let mut made_up: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let at = first(begin);
        assert!(made_up[at].contains(from), "{from} in {}", made_up[at]);
        made_up[at] = made_up[at].replacen(from, to, 1);
        let made_up: Vec<&str> = made_up.iter().map(String::as_str).collect();
        let error = load(&sealed(&made_up)[..]).unwrap_err();
        assert!(matches!(error, FileError::Line { .. }), "{to}: {error}");
        assert!(error.to_string().contains(why), "{to}: {error}");
    }
    let without = |begin: &str| {
        let at = first(begin);
        let left: Vec<&str> = lines
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != at)
            .map(|(_, line)| *line)
            .collect();
        load(&sealed(&left)[..]).unwrap_err()
    };
    for begin in ["{\"level\"", "{\"entry\"", "{\"row\""] {
        assert!(matches!(without(begin), FileError::Line { .. }), "{begin}");
    }
}

#[test]
fn reuse_distances_merge_by_bucket() {
    let reuse = |buckets: &[(u64, u64, u64)]| {
        let bucket = |&(from, to, reads): &(u64, u64, u64)| ReuseBucket {
            from,
            to,
            reads,
            writes: 1,
        };
        ResultSet {
            reuse: Some(Reuse {
                line: 64,
                touches: Touches { reads: 9, writes: 2 },
                first: Touches { reads: 1, writes: 0 },
                buckets: buckets.iter().map(bucket).collect(),
            }),
            ..ResultSet::default()
        }
    };
    let (short, long) = (
        reuse(&[(0, 0, 3)]),
        reuse(&[(0, 0, 1), (1, 1, 2), (2, 2, 5), (3, 3, 6)]),
    );
    let merged = short.clone().merge(long.clone()).unwrap();
    assert_eq!(merged, long.merge(short).unwrap());
    let buckets = merged.reuse.as_ref().unwrap().buckets.clone();
    assert_eq!((buckets[0].reads, buckets[0].writes, buckets.len()), (4, 2, 4));
    let told = text::sim(&merged, None, 20, false, false);
    assert!(told.contains("  2 to 3     11       2    59.09  100.00\n"), "{told}");
}

#[test]
fn classes_are_kept_where_they_were_counted() {
    let mut set = small();
    set.rows[0].levels[0].classes = Classes {
        compulsory: 4,
        capacity: 1,
        conflict: 0,
    };
    assert_eq!(set.clone().canonical().rows[0].levels[0].classes, Classes::default());
    set.run.counted.classes = true;
    assert_eq!(load(&saved(&set)[..]).unwrap(), set);
}
