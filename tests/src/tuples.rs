//! Descriptors, as `dump --descriptors` prints them, back to accesses.
//!
//! Knows nothing but the form of the tuples: every sequence id of a thread must come up exactly
//! once.
use crate::compare::{Line, Streams};
use memtrail_model::Kind;
use std::collections::BTreeMap;

/// Of a source: instruction and size.
type Source = (u64, u32);

/// Accesses by sequence id.
type Found = BTreeMap<u64, Line>;

/// All accesses that the tuples stand for, in order of their sequence ids.
pub fn expand(text: &[u8]) -> Result<Streams, String> {
    let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
    let mut sources: Vec<Source> = Vec::new();
    let mut threads: BTreeMap<u32, Found> = BTreeMap::new();
    let mut thread = 0;
    for line in text.lines() {
        let wrong = || format!("not understood: `{line}`");
        if let Some(rest) = line.strip_prefix("thread ") {
            thread = rest.split(',').next().and_then(|t| t.parse().ok()).ok_or_else(wrong)?;
        } else if let Some(rest) = line.strip_prefix("source ") {
            let (index, source) = source(rest).ok_or_else(wrong)?;
            if index != sources.len() {
                return Err(wrong());
            }
            sources.push(source);
        } else {
            let found = threads.entry(thread).or_default();
            let rest = tuple(line, (0, 0), &sources, found).ok_or_else(wrong)?;
            if !rest.is_empty() {
                return Err(wrong());
            }
        }
    }
    threads.into_iter().map(in_order).collect()
}

fn in_order((thread, found): (u32, Found)) -> Result<(u32, Vec<Line>), String> {
    match (0..).zip(found.keys()).find(|(i, id)| i != *id) {
        Some((missing, _)) => Err(format!("thread {thread}: no descriptor has sequence id {missing}")),
        None => Ok((thread, found.into_values().collect())),
    }
}

fn source(text: &str) -> Option<(usize, Source)> {
    let (index, rest) = text.split_once(": ")?;
    let mut words = rest.split(' ');
    let pc = number(words.next()?)?;
    let size = words.nth(1)?.parse().ok()?;
    Some((index.parse().ok()?, (pc, size)))
}

/// A number, decimal or hexadecimal, possibly negative.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse::<i64>().map(|n| n as u64).ok(),
    }
}

fn kind(text: &str) -> Option<Kind> {
    match text {
        "READ" => Some(Kind::Read),
        "WRITE" => Some(Kind::Write),
        "PREFETCH" => Some(Kind::Prefetch),
        _ => None,
    }
}

/// Adds the accesses of the tuple at the front, moved in memory and in sequence; returns what
/// follows it. `None` if it makes no sense, or an access is there twice.
fn tuple<'t>(text: &'t str, moved: (u64, u64), sources: &[Source], found: &mut Found) -> Option<&'t str> {
    let (name, rest) = text.split_once(" <")?;
    let mut add = |address: u64, kind: Kind, sequence: u64, index: u64| {
        let &(pc, size) = sources.get(index as usize)?;
        let line = Line {
            pc,
            kind,
            addr: address.wrapping_add(moved.0),
            size,
        };
        found
            .insert(sequence.wrapping_add(moved.1), line)
            .is_none()
            .then_some(())
    };
    match name {
        "IAD" => {
            let (fields, rest) = rest.split_once('>')?;
            let [address, event, sequence, index] = fields.split(", ").collect::<Vec<_>>()[..] else {
                return None;
            };
            add(number(address)?, kind(event)?, number(sequence)?, number(index)?)?;
            Some(rest)
        }
        "RSD" => {
            let (fields, rest) = rest.split_once('>')?;
            let [address, length, stride, event, sequence, between, index] = fields.split(", ").collect::<Vec<_>>()[..]
            else {
                return None;
            };
            let (address, stride) = (number(address)?, number(stride)?);
            let (sequence, between) = (number(sequence)?, number(between)?);
            for i in 0..number(length)? {
                let address = address.wrapping_add(i.wrapping_mul(stride));
                add(
                    address,
                    kind(event)?,
                    sequence.wrapping_add(i.wrapping_mul(between)),
                    number(index)?,
                )?;
            }
            Some(rest)
        }
        "PRSD" => {
            let mut fields = rest.splitn(6, ", ");
            let mut next = || fields.next();
            let (_, shift, _, between, length) = (next()?, next()?, next()?, next()?, next()?);
            let (inner, mut after) = (next()?, None);
            for i in 0..number(length)? {
                let address = moved.0.wrapping_add(i.wrapping_mul(number(shift)?));
                let sequence = moved.1.wrapping_add(i.wrapping_mul(number(between)?));
                after = tuple(inner, (address, sequence), sources, found);
                after?;
            }
            after?.strip_prefix('>')
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nests_are_expanded_in_order_of_sequence() {
        let text = "thread 3, process 0, accesses 0 to 7\nsource 0: 0x10 size 8 a+0x10\nsource 1: 0x14 size 4 a+0x14\n\
            PRSD <0x1000, 256, 1, 3, 2, RSD <0x1000, 2, -8, READ, 1, 1, 0>>\nRSD <0x50, 2, 0, WRITE, 0, 3, 1>\n\
            IAD <0x99, PREFETCH, 6, 0>\n";
        let line = |pc, kind, addr, size| Line { pc, kind, addr, size };
        let expected = vec![
            line(0x14, Kind::Write, 0x50, 4),
            line(0x10, Kind::Read, 0x1000, 8),
            line(0x10, Kind::Read, 0xff8, 8),
            line(0x14, Kind::Write, 0x50, 4),
            line(0x10, Kind::Read, 0x1100, 8),
            line(0x10, Kind::Read, 0x10f8, 8),
            line(0x10, Kind::Prefetch, 0x99, 8),
        ];
        assert_eq!(expand(text.as_bytes()), Ok(Streams::from([(3, expected)])));
        assert!(expand(text.replace("IAD <0x99, PREFETCH, 6", "IAD <0x99, READ, 7").as_bytes()).is_err());
        assert!(expand(text.replace("IAD <0x99, PREFETCH, 6", "IAD <0x99, READ, 5").as_bytes()).is_err());
    }
}
