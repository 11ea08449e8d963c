//! Lists of accesses: reading them, narrowing them, and finding where two part.
//!
//! Threads are compared one by one, each in its own order: how threads
//! interleave is the scheduler's business. Of two lists that differ, the first
//! difference is what matters, shown with some lines around it from both sides.

use crate::run::Seen;
use memtrail_model::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    pub pc: u64,
    pub kind: Kind,
    pub addr: u64,
    pub size: u32,
}

/// Accesses of each thread, in its order.
pub type Streams = BTreeMap<u32, Vec<Line>>;

const CONTEXT: usize = 5;

/// Reads lines `thread pc kind addr size`.
pub fn parse(text: &[u8]) -> Result<Streams, String> {
    let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
    let mut streams = Streams::new();
    for line in text.lines() {
        let (thread, access) = parse_line(line).ok_or_else(|| format!("not an access: `{line}`"))?;
        streams.entry(thread).or_default().push(access);
    }
    Ok(streams)
}

fn parse_line(line: &str) -> Option<(u32, Line)> {
    let mut words = line.split(' ');
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let thread = words.next()?.parse().ok()?;
    let pc = hex(words.next()?)?;
    let kind = match words.next()? {
        "R" => Kind::Read,
        "W" => Kind::Write,
        "P" => Kind::Prefetch,
        _ => return None,
    };
    let addr = hex(words.next()?)?;
    let size = words.next()?.parse().ok()?;
    words
        .next()
        .is_none()
        .then_some((thread, Line { pc, kind, addr, size }))
}

/// Keeps accesses by code within the given ranges; threads with none left are dropped.
pub fn narrow(streams: &mut Streams, code: &[Range<u64>]) {
    for lines in streams.values_mut() {
        lines.retain(|line| code.iter().any(|range| range.contains(&line.pc)));
    }
    streams.retain(|_, lines| !lines.is_empty());
}

/// Where the kernel puts a position-independent executable without randomisation.
const PIE_BASE: u64 = 0x5555_5555_4000;

/// Address ranges of an executable's loadable segments, as loaded without randomisation.
pub fn executable_ranges(path: &Path) -> Result<Vec<Range<u64>>, String> {
    const ET_DYN: u64 = 3;
    const PT_LOAD: u64 = 1;
    let file = std::fs::read(path).map_err(|e| e.to_string())?;
    let number = |at: usize, bytes: usize| {
        let field = file.get(at..at + bytes).ok_or("truncated ELF file")?;
        let mut word = [0u8; 8];
        word[..bytes].copy_from_slice(field);
        Ok::<u64, String>(u64::from_le_bytes(word))
    };
    let base = if number(16, 2)? == ET_DYN { PIE_BASE } else { 0 };
    let (table, entry, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut ranges = Vec::new();
    for i in 0..count {
        let at = (table + i * entry) as usize;
        if number(at, 4)? == PT_LOAD {
            let start = base + number(at + 16, 8)?;
            ranges.push(start..start + number(at + 40, 8)?);
        }
    }
    Ok(ranges)
}

/// Complains if the runs looked different from outside.
pub fn same_outside(label: &str, native: &Seen, other: &Seen) -> Result<(), String> {
    if native.status != other.status {
        return Err(format!(
            "exit status: native {}, {label} {}",
            native.status, other.status
        ));
    }
    if native.stdout != other.stdout {
        let (a, b) = (
            String::from_utf8_lossy(&native.stdout),
            String::from_utf8_lossy(&other.stdout),
        );
        return Err(format!("stdout differs\n--- native\n{a}\n--- {label}\n{b}"));
    }
    Ok(())
}

/// Complains about the first difference between the true and the recorded accesses.
pub fn same_accesses(truth: &Streams, recorded: &Streams) -> Result<(), String> {
    let threads: BTreeSet<u32> = truth.keys().chain(recorded.keys()).copied().collect();
    for thread in threads {
        let empty = Vec::new();
        let expected = truth.get(&thread).unwrap_or(&empty);
        let found = recorded.get(&thread).unwrap_or(&empty);
        if expected == found {
            continue;
        }
        let at = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
        let mut message = format!(
            "thread {thread}: access {at} differs (expected {} in all, recorded {})\n",
            expected.len(),
            found.len()
        );
        excerpt(&mut message, "expected", expected, at);
        excerpt(&mut message, "recorded", found, at);
        return Err(message);
    }
    Ok(())
}

fn excerpt(out: &mut String, label: &str, lines: &[Line], at: usize) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "--- {label}");
    let end = lines.len().min(at + CONTEXT + 1);
    for (i, line) in lines.iter().enumerate().take(end).skip(at.saturating_sub(CONTEXT)) {
        let mark = if i == at { '>' } else { ' ' };
        let Line { pc, kind, addr, size } = line;
        let _ = writeln!(out, "{mark} {i:6}  {pc:#x} {kind} {addr:#x} {size}");
    }
    if at >= lines.len() {
        let _ = writeln!(out, "> {at:6}  (end)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_an_access_prints() {
        let access = memtrail_model::Access {
            thread: memtrail_model::Thread(3),
            pc: 0x401000,
            kind: Kind::Write,
            addr: 0x7fff_0000,
            size: 8,
            point: memtrail_model::Point::NONE,
        };
        let streams = parse(format!("{access}\n").as_bytes()).unwrap();
        assert_eq!(
            streams[&3],
            [Line {
                pc: 0x401000,
                kind: Kind::Write,
                addr: 0x7fff_0000,
                size: 8
            }]
        );
        assert!(parse(b"3 0x1 W 0x2\n").is_err());
        assert!(parse(b"3 0x1 X 0x2 8\n").is_err());
        assert!(parse(b"3 0x1 W 0x2 8 9\n").is_err());
    }

    #[test]
    fn finds_the_first_difference_of_a_thread() {
        let truth = parse(b"0 0x1 R 0x10 8\n0 0x2 R 0x18 8\n1 0x1 W 0x10 8\n").unwrap();
        let wrong = parse(b"0 0x1 R 0x10 8\n1 0x1 W 0x10 8\n0 0x2 R 0x18 4\n").unwrap();
        assert!(same_accesses(&truth, &truth).is_ok());
        let message = same_accesses(&truth, &wrong).unwrap_err();
        assert!(message.starts_with("thread 0: access 1 differs"), "{message}");
        let short = parse(b"0 0x1 R 0x10 8\n0 0x2 R 0x18 8\n").unwrap();
        assert!(same_accesses(&truth, &short)
            .unwrap_err()
            .starts_with("thread 1: access 0 differs"));
    }
}
