//! What general compressors make of the same accesses.
//!
//! They get the bare addresses, 8 bytes each, little-endian, in the order of replay: less than a
//! trace holds (no instruction, no kind, no size, no thread), so the comparison favours them.
//! `split` goes the way of the specialised address compressors: addresses separated by thread and
//! instruction, each sequence replaced by its differences, all sequences one after the other, zstd
//! -3. What it would need to interleave them again, the control flow, is not counted.
//!
//! They take minutes where a recording takes seconds, and recordings repeat to the address
//! (`super`). So what they made is kept in `target/`, under a digest of exactly what they were
//! given, and used again.

use super::Made;
use crate::packages::PATH;
use crate::project::first_line_of;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The column's name, the command, and which of the two files it packs.
struct Peer {
    name: &'static str,
    argv: &'static [&'static str],
    input: &'static str,
}

/// One thread each: side by side with a trace of one stream.
const PEERS: &[Peer] = &[
    Peer {
        name: "gzip -6",
        argv: &["gzip", "-6", "-c"],
        input: BARE,
    },
    Peer {
        name: "zstd -3",
        argv: &["zstd", "-q", "-3", "--single-thread", "-c"],
        input: BARE,
    },
    Peer {
        name: "zstd -19",
        argv: &["zstd", "-q", "-19", "--single-thread", "-c"],
        input: BARE,
    },
    Peer {
        name: XZ,
        argv: &["xz", "-6", "-T1", "-c"],
        input: BARE,
    },
    Peer {
        name: "split",
        argv: &["zstd", "-q", "-3", "--single-thread", "-c"],
        input: SPLIT,
    },
];

/// The one every trace must beat.
pub const XZ: &str = "xz -6";

const BARE: &str = "addresses.bin";
const SPLIT: &str = "split.bin";

pub fn names() -> impl Iterator<Item = &'static str> {
    PEERS.iter().map(|p| p.name)
}

/// What the peers were given, and the bytes each made of it.
#[derive(Clone, Debug)]
pub struct Packed {
    pub accesses: u64,
    pub bytes: Vec<(&'static str, u64)>,
}

impl Packed {
    /// Bits per access of the peer called `name`.
    pub fn bits(&self, name: &str) -> Option<f64> {
        let (_, bytes) = self.bytes.iter().find(|(peer, _)| *peer == name)?;
        Some(*bytes as f64 * 8.0 / self.accesses as f64)
    }

    pub fn json(&self) -> Value {
        let one = |(name, bytes): &(&str, u64)| (name.to_string(), Value::from(*bytes));
        let bytes: serde_json::Map<String, Value> = self.bytes.iter().map(one).collect();
        json!({"accesses": self.accesses, "bytes": bytes})
    }
}

/// The peers' own names for themselves.
pub fn versions() -> Vec<String> {
    let line = |program| first_line_of(program, &["--version"]);
    let tidy = |line: String| line.trim_matches('*').trim().to_string();
    ["gzip", "zstd", "xz"].map(line).map(tidy).into()
}

/// One access as the peers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference {
    thread: u32,
    pc: u64,
    address: u64,
}

/// What tells one sequence of accesses from another: two multiplicative hashes of all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digest([u64; 2]);

impl Digest {
    const MULTIPLIERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

    fn add(&mut self, reference: Reference) {
        for (state, multiplier) in self.0.iter_mut().zip(Digest::MULTIPLIERS) {
            for word in [u64::from(reference.thread), reference.pc, reference.address] {
                *state = (state.rotate_left(23) ^ word).wrapping_mul(multiplier);
            }
        }
    }
}

/// Stretches of a long run that the peers get: what a program does first is rarely what it does
/// most.
const STRETCHES: u64 = 4;

/// Where a stretch begins, as `dump --from` takes it, and how many accesses it has.
type Stretch = (String, u64);

/// Stretches of `limit` accesses in all, evenly over a run. Several threads have no numbers of
/// accesses in common: theirs begin at times.
fn stretches(made: &Made, limit: u64) -> Vec<Stretch> {
    if made.accesses <= limit {
        return vec![("0".to_string(), limit)];
    }
    let begin = |i: u64| match made.threads {
        1 => (made.accesses / STRETCHES * i).to_string(),
        _ => format!("{}ms", (made.wall * 1000.0) as u64 / STRETCHES * i),
    };
    (0..STRETCHES).map(|i| (begin(i), limit / STRETCHES)).collect()
}

/// Packs at most `limit` accesses of `recording`, which was made so, with every peer; `dir` is for
/// large files while it lasts.
pub fn pack(memtrail: &Path, recording: &Path, made: &Made, limit: u64, dir: &Path) -> Result<Packed, String> {
    let packed = pack_in(memtrail, recording, &stretches(made, limit), dir);
    for name in [BARE, SPLIT] {
        // Where it failed, or the answer was known, not every file is there.
        let _ = std::fs::remove_file(dir.join(name));
    }
    packed
}

fn pack_in(memtrail: &Path, recording: &Path, stretches: &[Stretch], dir: &Path) -> Result<Packed, String> {
    let (bare, split) = (dir.join(BARE), dir.join(SPLIT));
    let create = |path: &Path| {
        let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok::<_, String>(BufWriter::with_capacity(1 << 20, file))
    };
    let failed = |e: std::io::Error| format!("{}: {e}", dir.display());
    let mut out = create(&bare)?;
    let mut columns = Columns::default();
    let (mut accesses, mut digest) = (0, Digest([1, 2]));
    for stretch in stretches {
        replay(memtrail, recording, stretch, |reference| {
            accesses += 1;
            digest.add(reference);
            columns.push(reference);
            out.write_all(&reference.address.to_le_bytes())
        })?;
    }
    out.flush().map_err(failed)?;
    let known = dir.join(format!("peers-{:016x}{:016x}.json", digest.0[0], digest.0[1]));
    if let Some(packed) = recall(&known, accesses) {
        return Ok(packed);
    }
    let mut out = create(&split)?;
    columns.write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    // They hold most of the memory; the compressors want it.
    drop(columns);

    let bytes: Result<Vec<(&'static str, u64)>, String> = std::thread::scope(|scope| {
        let started: Vec<_> = PEERS
            .iter()
            .map(|peer| scope.spawn(move || Ok((peer.name, packed_size(peer.argv, &dir.join(peer.input))?))))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().map_err(|_| "a peer panicked")?;
        started.into_iter().map(join).collect()
    });
    let packed = Packed {
        accesses,
        bytes: bytes?,
    };
    remember(&known, &packed)?;
    Ok(packed)
}

/// What the same peers made of the same accesses before.
fn recall(known: &Path, accesses: u64) -> Option<Packed> {
    let json: Value = serde_json::from_str(&std::fs::read_to_string(known).ok()?).ok()?;
    let same = json.get("accesses")?.as_u64()? == accesses && json.get("versions")? == &json!(versions());
    let one = |peer: &Peer| Some((peer.name, json.get("bytes")?.get(peer.name)?.as_u64()?));
    let bytes = PEERS.iter().map(one).collect::<Option<Vec<_>>>()?;
    same.then_some(Packed { accesses, bytes })
}

fn remember(known: &Path, packed: &Packed) -> Result<(), String> {
    let mut raw = packed.json();
    raw["versions"] = json!(versions());
    std::fs::write(known, raw.to_string()).map_err(|e| format!("{}: {e}", known.display()))
}

/// Addresses by thread and instruction, as differences, in the order in which the instructions
/// first appear.
#[derive(Default)]
struct Columns {
    index: HashMap<(u32, u64), usize>,
    columns: Vec<(u64, Vec<u8>)>,
}

impl Columns {
    fn push(&mut self, reference: Reference) {
        let next = self.columns.len();
        let at = *self.index.entry((reference.thread, reference.pc)).or_insert(next);
        if at == next {
            self.columns.push((0, Vec::new()));
        }
        let (last, bytes) = &mut self.columns[at];
        bytes.extend(reference.address.wrapping_sub(*last).to_le_bytes());
        *last = reference.address;
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        self.columns.iter().try_for_each(|(_, bytes)| out.write_all(bytes))
    }
}

/// Where accesses come from: calls `each` with those of a stretch of `recording`, in order.
fn replay(
    memtrail: &Path,
    recording: &Path,
    (from, limit): &Stretch,
    mut each: impl FnMut(Reference) -> std::io::Result<()>,
) -> Result<(), String> {
    let mut dump = Command::new(memtrail)
        .args(["dump", "--from", from, "--limit", &limit.to_string()])
        .arg(recording)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("memtrail dump: {e}"))?;
    let stdout = dump.stdout.take().ok_or("memtrail dump: no output")?;
    let mut lines = BufReader::with_capacity(1 << 20, stdout);
    let mut line = String::new();
    let mut go = || loop {
        line.clear();
        if lines.read_line(&mut line).map_err(|e| format!("memtrail dump: {e}"))? == 0 {
            return Ok(());
        }
        let reference = parse(&line).ok_or_else(|| format!("memtrail dump printed `{}`", line.trim_end()))?;
        each(reference).map_err(|e| format!("writing addresses: {e}"))?;
    };
    let replayed: Result<(), String> = go();
    drop(lines);
    let status = dump.wait().map_err(|e| format!("memtrail dump: {e}"))?;
    replayed?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("memtrail dump: {status}")),
    }
}

/// `thread pc kind address size`
fn parse(line: &str) -> Option<Reference> {
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let mut words = line.split_ascii_whitespace();
    let thread = words.next()?.parse().ok()?;
    let pc = hex(words.next()?)?;
    let address = hex(words.nth(1)?)?;
    words.next()?;
    words.next().is_none().then_some(Reference { thread, pc, address })
}

/// Bytes that `argv` makes of `input`; they are counted, not kept.
fn packed_size(argv: &[&str], input: &Path) -> Result<u64, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", argv[0]);
    let mut child = Command::new(argv[0])
        .args(&argv[1..])
        .env("PATH", PATH)
        .stdin(File::open(input).map_err(failed)?)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut stdout = child.stdout.take().ok_or("no output")?;
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        match stdout.read(&mut buffer).map_err(failed)? {
            0 => break,
            some => total += some as u64,
        }
    }
    let status = child.wait().map_err(failed)?;
    match status.success() {
        true => Ok(total),
        false => Err(format!("{}: {status}", argv.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_dump() {
        let reference = Reference {
            thread: 3,
            pc: 0x40185c,
            address: 0x7ffff7e02438,
        };
        assert_eq!(parse("3 0x40185c R 0x7ffff7e02438 8\n"), Some(reference));
        assert_eq!(parse("3 0x40185c R 0x7ffff7e02438\n"), None);
        assert_eq!(parse("3 40185c R 0x7ffff7e02438 8\n"), None);
    }

    #[test]
    fn long_runs_give_stretches_from_all_over() {
        let made = |accesses, threads| Made {
            accesses,
            threads,
            wall: 2.5,
        };
        let stretch = |from: &str, accesses| (from.to_string(), accesses);
        assert_eq!(stretches(&made(400, 1), 400), [stretch("0", 400)]);
        assert_eq!(
            stretches(&made(4000, 1), 400),
            ["0", "1000", "2000", "3000"].map(|from| stretch(from, 100))
        );
        assert_eq!(
            stretches(&made(4000, 2), 40),
            ["0ms", "625ms", "1250ms", "1875ms"].map(|from| stretch(from, 10))
        );
    }

    #[test]
    fn columns_are_differences_by_instruction_and_thread() {
        let mut columns = Columns::default();
        for (thread, pc, address) in [(0, 1, 100), (0, 2, 50), (0, 1, 108), (1, 1, 7), (0, 2, 42)] {
            columns.push(Reference { thread, pc, address });
        }
        let mut written = Vec::new();
        columns.write(&mut written).expect("memory");
        let words: Vec<i64> = written
            .chunks(8)
            .map(|b| i64::from_le_bytes(b.try_into().expect("eight bytes")))
            .collect();
        assert_eq!(words, [100, 8, 50, -8, 7]);
    }

    #[test]
    fn digests_tell_sequences_apart() {
        let digest = |addresses: [u64; 3]| {
            let mut digest = Digest([1, 2]);
            for address in addresses {
                digest.add(Reference {
                    thread: 0,
                    pc: 1,
                    address,
                });
            }
            digest
        };
        assert_eq!(digest([1, 2, 3]), digest([1, 2, 3]));
        assert_ne!(digest([1, 2, 3]), digest([2, 1, 3]));
        assert_ne!(digest([1, 2, 3]).0[0], digest([1, 2, 3]).0[1]);
    }

    #[test]
    fn what_is_remembered_is_recalled() {
        let _alone = crate::process::with_children();
        let known = std::env::temp_dir().join(format!("memtrail-known-test.{}", std::process::id()));
        let bytes: Vec<(&'static str, u64)> = names().zip(1..).collect();
        remember(
            &known,
            &Packed {
                accesses: 7,
                bytes: bytes.clone(),
            },
        )
        .expect("temporary file");
        assert_eq!(recall(&known, 7).map(|p| p.bytes), Some(bytes));
        assert!(recall(&known, 8).is_none());
        std::fs::remove_file(&known).expect("temporary file");
        assert!(recall(&known, 7).is_none());
    }

    #[test]
    fn a_peer_is_counted() {
        let _alone = crate::process::with_children();
        let input = std::env::temp_dir().join(format!("memtrail-peer-test.{}", std::process::id()));
        std::fs::write(&input, [0; 1000]).expect("temporary file");
        assert_eq!(packed_size(&["cat"], &input), Ok(1000));
        assert!(packed_size(&["false"], &input).is_err());
        std::fs::remove_file(&input).expect("temporary file");
    }
}
