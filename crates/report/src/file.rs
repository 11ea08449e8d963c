//! Saved results: JSON Lines, as `docs/results-format.md` says.
//!
//! The first line tells that these are results, the version, the run and the dimensions; the last
//! how many lines there are and a checksum of all before it. Whatever is read is checked: a set
//! that comes out has the form that every set has, or there is an error that names the line.
use crate::entry::{Dimension, Entry};
use crate::set::{LevelTotals, Pairs, ResultSet, Reuse, Row, Run};
use crc32fast::Hasher;
use memtrail_simulate::reuse::Curve;
use memtrail_simulate::sweep::Swept;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// How a file of results begins.
pub const MAGIC: &[u8] = b"{\"memtrail_results\":";

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("these are no saved results")]
    NotResults,
    #[error("these are results of version {found}; this memtrail reads version {VERSION}")]
    Version { found: u64 },
    #[error("line {line}: {why}")]
    Line { line: u64, why: String },
    #[error("the results are cut off after line {lines}: the last line is missing")]
    CutOff { lines: u64 },
    #[error("the results are damaged: their checksum is {found:#010x}, and should be {expected:#010x}")]
    Checksum { found: u32, expected: u32 },
    #[error("something follows the last line of the results")]
    More,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    memtrail_results: u64,
    dimensions: Vec<Dimension>,
    run: Run,
}

/// Of the first line, what tells whether the rest can be read.
#[derive(Deserialize)]
struct Versioned {
    memtrail_results: u64,
}

#[derive(Serialize, Deserialize)]
struct Pair {
    level: usize,
    owner: u32,
    evictor: u32,
    count: u64,
}

#[derive(Serialize, Deserialize)]
struct WrittenCurves {
    line: u32,
    curves: Vec<Curve>,
}

/// A line after the first.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Level(LevelTotals),
    Entry(Entry),
    Row(Row),
    Evicted(Pair),
    Premature(Pair),
    Sweep(Swept),
    Curves(WrittenCurves),
    Reuse(Reuse),
    End { lines: u64, crc32: u32 },
}

struct Lines<W> {
    out: W,
    hasher: Hasher,
    lines: u64,
}

impl<W: Write> Lines<W> {
    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.hasher.update(&bytes);
        self.lines += 1;
        self.out.write_all(&bytes)
    }

    fn pairs(&mut self, level: usize, pairs: &Pairs, line: impl Fn(Pair) -> Line) -> io::Result<()> {
        pairs.iter().try_for_each(|(&(owner, evictor), &count)| {
            let pair = Pair {
                level,
                owner,
                evictor,
                count,
            };
            self.write(&line(pair))
        })
    }
}

/// Writes a set.
pub fn save(set: ResultSet, out: impl Write) -> io::Result<()> {
    let mut lines = Lines {
        out,
        hasher: Hasher::new(),
        lines: 0,
    };
    lines.write(&Head {
        memtrail_results: VERSION.into(),
        dimensions: set.dimensions,
        run: set.run,
    })?;
    let pairs: Vec<(Pairs, Pairs)> = set
        .levels
        .iter()
        .map(|l| (l.evictors.clone(), l.premature.clone()))
        .collect();
    set.levels
        .into_iter()
        .try_for_each(|level| lines.write(&Line::Level(level)))?;
    let entries = set.entries.into_iter().flatten();
    entries.map(Line::Entry).try_for_each(|line| lines.write(&line))?;
    set.rows.into_iter().try_for_each(|row| lines.write(&Line::Row(row)))?;
    for (level, (evictors, premature)) in pairs.iter().enumerate() {
        lines.pairs(level, evictors, Line::Evicted)?;
        lines.pairs(level, premature, Line::Premature)?;
    }
    set.sweep
        .into_iter()
        .try_for_each(|swept| lines.write(&Line::Sweep(swept)))?;
    if let Some((line, curves)) = set.curves {
        lines.write(&Line::Curves(WrittenCurves { line, curves }))?;
    }
    set.reuse.map_or(Ok(()), |reuse| lines.write(&Line::Reuse(reuse)))?;
    let end = Line::End {
        lines: lines.lines,
        crc32: lines.hasher.clone().finalize(),
    };
    lines.write(&end)?;
    lines.out.flush()
}

/// Whether a file that begins like this holds results.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads a set.
pub fn load(mut from: impl BufRead) -> Result<ResultSet, FileError> {
    let mut hasher = Hasher::new();
    let mut bytes = Vec::new();
    from.read_until(b'\n', &mut bytes)?;
    if !begins(&bytes) {
        return Err(FileError::NotResults);
    }
    if bytes.last() != Some(&b'\n') {
        return Err(FileError::CutOff { lines: 0 });
    }
    let wrong = |line: u64, why: &dyn ToString| FileError::Line {
        line,
        why: why.to_string(),
    };
    let versioned: Versioned = serde_json::from_slice(&bytes).map_err(|e| wrong(1, &e))?;
    if versioned.memtrail_results != u64::from(VERSION) {
        return Err(FileError::Version {
            found: versioned.memtrail_results,
        });
    }
    let head: Head = serde_json::from_slice(&bytes).map_err(|e| wrong(1, &e))?;
    hasher.update(&bytes);
    let mut set = ResultSet {
        entries: vec![Vec::new(); head.dimensions.len()],
        dimensions: head.dimensions,
        run: head.run,
        ..ResultSet::default()
    };
    let mut line = 1;
    loop {
        bytes.clear();
        from.read_until(b'\n', &mut bytes)?;
        if bytes.last() != Some(&b'\n') {
            return Err(FileError::CutOff { lines: line });
        }
        line += 1;
        let parsed: Line = serde_json::from_slice(&bytes).map_err(|e| wrong(line, &e))?;
        if let Line::End { lines, crc32 } = parsed {
            let found = hasher.finalize();
            if found != crc32 {
                return Err(FileError::Checksum { found, expected: crc32 });
            }
            if lines != line - 1 {
                return Err(wrong(
                    line,
                    &format_args!("there are {} lines before it, not {lines}", line - 1),
                ));
            }
            break;
        }
        hasher.update(&bytes);
        take(&mut set, parsed).map_err(|why| wrong(line, &why))?;
    }
    bytes.clear();
    if from.read_until(b'\n', &mut bytes)? > 0 {
        return Err(FileError::More);
    }
    checked(set).map_err(|why| wrong(line, &why))
}

fn take(set: &mut ResultSet, line: Line) -> Result<(), String> {
    match line {
        Line::Level(level) => set.levels.push(level),
        Line::Entry(entry) => {
            let dimension = entry.dimension();
            let at = set.dimensions.iter().position(|&d| d == dimension);
            let at = at.ok_or_else(|| format!("an entry of {dimension}, which is no dimension of these results"))?;
            set.entries[at].push(entry);
        }
        Line::Row(row) => {
            if row.key.len() != set.dimensions.len() || row.levels.len() != set.levels.len() {
                let (dimensions, levels) = (set.dimensions.len(), set.levels.len());
                return Err(format!(
                    "a row of other than {dimensions} dimensions and {levels} levels"
                ));
            }
            for ((&id, entries), dimension) in row.key.iter().zip(&set.entries).zip(&set.dimensions) {
                if id as usize >= entries.len() {
                    return Err(format!("there is no {dimension} {id}"));
                }
            }
            set.rows.push(row);
        }
        Line::Evicted(pair) => pair.put(set, |level| &mut level.evictors)?,
        Line::Premature(pair) => pair.put(set, |level| &mut level.premature)?,
        Line::Sweep(swept) => {
            swept.config.check().map_err(|e| e.to_string())?;
            set.sweep.push(swept);
        }
        Line::Curves(WrittenCurves { line, curves }) => set.curves = Some((line, curves)),
        Line::Reuse(reuse) => set.reuse = Some(reuse),
        Line::End { .. } => {}
    }
    Ok(())
}

impl Pair {
    fn put(self, set: &mut ResultSet, pairs: impl Fn(&mut LevelTotals) -> &mut Pairs) -> Result<(), String> {
        let (rows, levels) = (set.rows.len(), set.levels.len());
        let level = set.levels.get_mut(self.level);
        let level = level.ok_or_else(|| format!("there is no level {} of {levels}", self.level))?;
        if let Some(row) = [self.owner, self.evictor].into_iter().find(|&row| row as usize >= rows) {
            return Err(format!("there is no row {row} of {rows}"));
        }
        pairs(level).insert((self.owner, self.evictor), self.count);
        Ok(())
    }
}

/// Whether a level's counts make sense, and can be added up.
fn can_be_added(set: &ResultSet, level: usize) -> bool {
    let mut sum = 0;
    let sensible = set.rows.iter().map(|row| &row.levels[level]).all(|counts| {
        let classes = [
            counts.classes.compulsory,
            counts.classes.capacity,
            counts.classes.conflict,
        ];
        let all = [
            counts.hits,
            counts.misses,
            counts.evictions,
            counts.used_bytes,
            counts.writebacks,
        ];
        let all = all.into_iter().chain(classes).chain([counts.prefetch_hits]);
        sum += all.map(u128::from).sum::<u128>();
        counts.spatial_hits <= counts.hits
    });
    sensible && sum <= u64::MAX.into()
}

/// What can only be told at the end.
fn checked(set: ResultSet) -> Result<ResultSet, String> {
    let accesses: u128 = set
        .rows
        .iter()
        .map(|row| u128::from(row.reads) + u128::from(row.writes))
        .sum();
    let bytes: u128 = set.rows.iter().map(|row| u128::from(row.bytes)).sum();
    let pairs = set
        .levels
        .iter()
        .flat_map(|level| level.evictors.values().chain(level.premature.values()));
    let pairs: u128 = pairs.map(|&n| u128::from(n)).sum();
    let counts = (0..set.levels.len()).all(|level| can_be_added(&set, level));
    if !counts || accesses.max(bytes).max(pairs) > u64::MAX.into() {
        return Err("counts that cannot be: too large to be added up, or more spatial hits than hits".to_string());
    }
    let (levels, simulated) = (set.levels.len(), set.run.hierarchy.levels.len());
    if levels != simulated {
        return Err(format!("{levels} levels were counted of {simulated}"));
    }
    let mut dimensions = set.dimensions.clone();
    dimensions.sort_unstable();
    dimensions.dedup();
    if dimensions != set.dimensions {
        return Err("the dimensions are not in their order, each once".to_string());
    }
    let canonical = set.clone().canonical();
    match canonical == set {
        true => Ok(set),
        false => Err("entries or rows are not in their order, each once".to_string()),
    }
}
