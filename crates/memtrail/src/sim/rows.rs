//! Counts by reference: what users see of reference points.
//!
//! The simulator counts by point: an instruction, its length and size, and a kind. Points of one instruction and kind are one reference. References that did
//! nothing are left out.
use super::args::SortBy;
use memtrail_model::Kind;
use memtrail_simulate::{Hierarchy, Level, LevelCounts, PointCounts};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// A place in the program, and what it does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Address of the instruction; one of several, if processes have it in different places.
    pub pc: u64,
    /// Its code address, which tells it from all others.
    pub code: u64,
    /// File and offset in it, if the instruction is from a file.
    pub place: Option<(String, u64)>,
    pub kind: Kind,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some((module, offset)) => write!(f, "{module}+{offset:#x}"),
            None => write!(f, "{:#x}", self.pc),
        }
    }
}

/// The word for a kind of access.
pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Prefetch => "prefetch",
        Kind::Fetch => "fetch",
    }
}

/// A reference and what it did at each level.
#[derive(Clone, Debug)]
pub struct Row {
    pub reference: Reference,
    pub levels: Vec<PointCounts>,
    /// By level: which other rows evicted its lines, how often; most often first.
    pub evictors: Vec<Vec<(usize, u64)>>,
}

/// What makes a reference: its code address and its kind.
type Key = (u64, Kind);

/// All references, those that did nothing among them.
pub fn rows(points: &[Reference], counts: &[LevelCounts]) -> Vec<Row> {
    let mut numbers: HashMap<Key, usize> = HashMap::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut row_of = Vec::with_capacity(points.len());
    for (i, point) in points.iter().enumerate() {
        let number = *numbers.entry((point.code, point.kind)).or_insert_with(|| {
            rows.push(Row {
                reference: point.clone(),
                levels: vec![PointCounts::default(); counts.len()],
                evictors: vec![Vec::new(); counts.len()],
            });
            rows.len() - 1
        });
        row_of.push(number);
        for (sum, level) in rows[number].levels.iter_mut().zip(counts) {
            *sum += level.points.get(i).copied().unwrap_or_default();
        }
    }
    for (at, level) in counts.iter().enumerate() {
        let mut pairs: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for (&(owner, evictor), &n) in &level.evictors {
            *pairs
                .entry((row_of[owner as usize], row_of[evictor as usize]))
                .or_default() += n;
        }
        for ((owner, evictor), n) in pairs {
            rows[owner].evictors[at].push((evictor, n));
        }
    }
    rows
}

/// The higher miss ratio first, without rounding; of equal ones the one with more misses.
pub fn by_miss_ratio(a: &PointCounts, b: &PointCounts) -> Ordering {
    let cross = |x: &PointCounts, y: &PointCounts| u128::from(x.misses) * u128::from(y.accesses().max(1));
    cross(b, a).cmp(&cross(a, b)).then(b.misses.cmp(&a.misses))
}

/// Sorts rows, leaves idle ones out, and keeps evictors pointing to the right ones.
pub fn sort(rows: Vec<Row>, by: SortBy, level: impl Fn(Kind) -> usize) -> Vec<Row> {
    let count = rows.len();
    let mut active = vec![false; count];
    for (i, row) in rows.iter().enumerate() {
        active[i] |= row.levels.iter().any(|l| l.accesses() > 0 || l.evictions > 0);
        for &(evictor, _) in row.evictors.iter().flatten() {
            active[evictor] = true;
        }
    }
    let mut numbered: Vec<(usize, Row)> = rows.into_iter().enumerate().filter(|(i, _)| active[*i]).collect();
    let at = |row: &Row| row.levels[level(row.reference.kind)];
    let place = |row: &Row| (row.reference.place.clone(), row.reference.pc, row.reference.kind);
    numbered.sort_by_cached_key(|(_, row)| place(row));
    match by {
        SortBy::Address => {}
        SortBy::Misses => numbered.sort_by_key(|(_, row)| Reverse((at(row).misses, at(row).accesses()))),
        SortBy::Accesses => numbered.sort_by_key(|(_, row)| Reverse(at(row).accesses())),
        SortBy::Hits => numbered.sort_by_key(|(_, row)| Reverse(at(row).hits)),
        SortBy::Evictions => numbered.sort_by_key(|(_, row)| Reverse(at(row).evictions)),
        SortBy::MissRatio => numbered.sort_by(|(_, a), (_, b)| by_miss_ratio(&at(a), &at(b))),
    }
    let mut new = vec![usize::MAX; count];
    for (now, (before, _)) in numbered.iter().enumerate() {
        new[*before] = now;
    }
    let renumber = |(_, mut row): (usize, Row)| {
        for evictors in &mut row.evictors {
            evictors.iter_mut().for_each(|(evictor, _)| *evictor = new[*evictor]);
            evictors.sort_by_key(|&(evictor, n)| (Reverse(n), evictor));
        }
        row
    };
    numbered.into_iter().map(renumber).collect()
}

/// The first level that accesses of a kind meet.
pub fn first_level(hierarchy: &Hierarchy, kind: Kind) -> usize {
    let holds = |level: &Level| match kind {
        Kind::Fetch => level.holds.instructions(),
        _ => level.holds.data(),
    };
    hierarchy.levels.iter().position(holds).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(pc: u64, place: Option<(&str, u64)>, kind: Kind) -> Reference {
        Reference {
            pc,
            code: place.map_or(pc, |(_, offset)| 1 << 48 | offset),
            place: place.map(|(module, offset)| (module.to_string(), offset)),
            kind,
        }
    }

    fn counts(hits: u64, misses: u64, evictions: u64) -> PointCounts {
        PointCounts {
            hits,
            misses,
            evictions,
            ..PointCounts::default()
        }
    }

    fn names(rows: &[Row]) -> Vec<String> {
        let name = |row: &Row| format!("{} {}", row.reference, kind_word(row.reference.kind));
        rows.iter().map(name).collect()
    }

    /// Two processes have `a` in different places; the last point did nothing but evict, the one before nothing at all.
    fn example() -> (Vec<Reference>, Vec<LevelCounts>) {
        let points = vec![
            reference(0x1010, Some(("a", 0x10)), Kind::Read),
            reference(0x1010, Some(("a", 0x10)), Kind::Write),
            reference(0x9010, Some(("a", 0x10)), Kind::Read),
            reference(0x5000, None, Kind::Read),
            reference(0x1020, Some(("a", 0x20)), Kind::Read),
            reference(0x1030, Some(("a", 0x30)), Kind::Prefetch),
        ];
        let mut first = LevelCounts {
            points: vec![counts(5, 1, 1), counts(2, 2, 1), counts(3, 1, 2), counts(0, 1, 0)],
            ..LevelCounts::default()
        };
        first.evictors = [((0, 1), 1), ((1, 5), 1), ((2, 0), 1), ((2, 1), 1)].into();
        (points, vec![first])
    }

    #[test]
    fn one_place_in_a_file_is_one_reference() {
        let (points, counts) = example();
        let rows = sort(rows(&points, &counts), SortBy::Address, |_| 0);
        assert_eq!(
            names(&rows),
            ["0x5000 read", "a+0x10 read", "a+0x10 write", "a+0x30 prefetch"]
        );
        let read = &rows[1];
        assert_eq!(read.reference.pc, 0x1010);
        assert_eq!(
            (read.levels[0].hits, read.levels[0].misses, read.levels[0].evictions),
            (8, 2, 3)
        );
        assert_eq!(read.evictors[0], [(2, 2), (1, 1)]);
        assert_eq!(rows[2].evictors[0], [(3, 1)]);
    }

    #[test]
    fn rows_are_sorted_by_what_is_asked_for() {
        let (points, counts) = example();
        let first = |by| names(&sort(rows(&points, &counts), by, |_| 0))[0].clone();
        assert_eq!(first(SortBy::Misses), "a+0x10 read");
        assert_eq!(first(SortBy::Accesses), "a+0x10 read");
        assert_eq!(first(SortBy::Hits), "a+0x10 read");
        assert_eq!(first(SortBy::Evictions), "a+0x10 read");
        assert_eq!(first(SortBy::MissRatio), "0x5000 read");
        let all = names(&sort(rows(&points, &counts), SortBy::MissRatio, |_| 0));
        assert_eq!(all, ["0x5000 read", "a+0x10 write", "a+0x10 read", "a+0x30 prefetch"]);
    }

    #[test]
    fn fetches_meet_other_levels_first() {
        let levels = memtrail_simulate::short::levels(&["D=1K:64:1:data", "I=1K:64:1:instructions", "L2=2K:64:1"]);
        let hierarchy = Hierarchy::of(levels.unwrap());
        assert_eq!(first_level(&hierarchy, Kind::Write), 0);
        assert_eq!(first_level(&hierarchy, Kind::Fetch), 1);
    }
}
