//! The I/O calls of a program that writes checkpoints, as loop descriptors.
//!
//! Nothing here has to do with memory accesses: events are calls, parameters are file, offset and
//! length. Run it with `cargo run --release -p memtrail-descriptor --example io_calls`.
use memtrail_descriptor::{decode, fold, Alphabet, Definition, Dictionary, Encoder, Events, Folder, Leaf, Pack};

/// A call with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Open { file: u64 },
    Read { file: u64, offset: u64, length: u64 },
    Write { file: u64, offset: u64, length: u64 },
    Seek { file: u64, offset: u64 },
    Close { file: u64 },
}

const NAMES: [&str; 5] = ["open", "read", "write", "seek", "close"];
/// Parameters of each kind: always file, offset, length in this order, as far as it has them.
const ARITIES: [usize; 5] = [1, 3, 3, 2, 1];

impl Call {
    fn push(self, events: &mut Events) {
        match self {
            Call::Open { file } => events.push_leaf(0, &[file]),
            Call::Read { file, offset, length } => events.push_leaf(1, &[file, offset, length]),
            Call::Write { file, offset, length } => events.push_leaf(2, &[file, offset, length]),
            Call::Seek { file, offset } => events.push_leaf(3, &[file, offset]),
            Call::Close { file } => events.push_leaf(4, &[file]),
        }
    }

    fn of(key: u32, parameters: &[u64]) -> Option<Call> {
        Some(match (key, parameters) {
            (0, &[file]) => Call::Open { file },
            (1, &[file, offset, length]) => Call::Read { file, offset, length },
            (2, &[file, offset, length]) => Call::Write { file, offset, length },
            (3, &[file, offset]) => Call::Seek { file, offset },
            (4, &[file]) => Call::Close { file },
            _ => return None,
        })
    }
}

/// The alphabet of I/O calls. Consecutive calls are likely to be about the same file, a near place
/// and a like length.
pub struct Calls;

impl Alphabet for Calls {
    fn leaf(&self, key: u32) -> Option<Leaf<'_>> {
        let arity = *ARITIES.get(key as usize)?;
        Some(Leaf {
            arity,
            sources: &[0, 1, 2][..arity],
        })
    }
}

/// A packer for the example: pairs of a count and a byte.
pub struct Runs;

impl Pack for Runs {
    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out: Vec<u8> = Vec::new();
        for &byte in bytes {
            match out.as_mut_slice() {
                [.., count, last] if *last == byte && *count < u8::MAX => *count += 1,
                _ => out.extend([1, byte]),
            }
        }
        out
    }

    fn unpack(&self, packed: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for pair in packed.chunks(2) {
            let &[count, byte] = pair else { return None };
            out.resize(out.len() + usize::from(count), byte);
        }
        (out.len() == length).then_some(out)
    }
}

/// What the simulated program is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub checkpoints: u64,
    /// Files per checkpoint, one for each part of the data.
    pub files: u64,
    /// Blocks per file.
    pub blocks: u64,
    /// Whether it keeps a log, with lines of any length.
    pub log: bool,
}

/// The calls of the program: a file of settings is read, then for each checkpoint and each part a
/// file is written block by block, with a gap between blocks, and its first block is read again to
/// check it.
pub fn calls(job: &Job) -> Vec<Call> {
    const BLOCK: u64 = 1 << 16;
    let log = 4;
    let mut out = vec![Call::Open { file: 3 }];
    for (offset, length) in [(0, 512), (512, 77), (589, 300)] {
        out.push(Call::Read {
            file: 3,
            offset,
            length,
        });
    }
    out.push(Call::Close { file: 3 });
    let (mut random, mut end) = (1u64, 0);
    for checkpoint in 0..job.checkpoints {
        for part in 0..job.files {
            let file = 10 + checkpoint * job.files + part;
            out.push(Call::Open { file });
            let head = Call::Write {
                file,
                offset: 0,
                length: 64,
            };
            out.push(head);
            for block in 0..job.blocks {
                let offset = 4096 + block * (BLOCK + 4096);
                out.push(Call::Seek { file, offset });
                out.push(Call::Write {
                    file,
                    offset,
                    length: BLOCK,
                });
            }
            out.push(Call::Read {
                file,
                offset: 4096,
                length: BLOCK,
            });
            out.push(Call::Close { file });
        }
        if job.log {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let length = 20 + (random >> 58);
            out.push(Call::Write {
                file: log,
                offset: end,
                length,
            });
            end += length;
        }
    }
    out
}

/// The calls as loop descriptors.
pub fn compress(calls: &[Call]) -> (Events, Vec<u8>) {
    let mut events = Events::default();
    calls.iter().for_each(|call| call.push(&mut events));
    fold(&mut events, &mut Folder::default());
    let mut bytes = Vec::new();
    Encoder::default().encode(&events, &Calls, &Runs, &mut bytes);
    (events, bytes)
}

/// The calls that bytes stand for. `most` bounds what is decoded, and what it expands to.
pub fn decompress(bytes: &[u8], most: usize) -> Option<Vec<Call>> {
    let events = decode(bytes, &Calls, &Runs, most).ok()?;
    let mut out = Vec::new();
    for i in 0..events.len() {
        let mut visit = |key, parameters: &[u64]| {
            out.extend(Call::of(key, parameters));
            out.len() <= most
        };
        let whole = events
            .dictionary
            .expand(events.kind(i), events.parameters(i), &mut visit);
        if !whole {
            return None;
        }
    }
    Some(out)
}

/// A parameter in a nest: its first value, and how far it moves with each counter around, outermost
/// first.
#[derive(Clone)]
struct Moving(u64, Vec<u64>);

impl Moving {
    fn text(&self) -> String {
        let mut text = self.0.to_string();
        for (stride, counter) in self.1.iter().zip('i'..) {
            match *stride as i64 {
                0 => {}
                by => text += &format!("{by:+}·{counter}"),
            }
        }
        text
    }
}

/// A nest as nested lines.
fn show(dictionary: &Dictionary, kind: u32, parameters: &[Moving], depth: usize) {
    let indent = "  ".repeat(depth + 1);
    match dictionary.definition(kind) {
        Definition::Leaf(key) => {
            let values: Vec<String> = parameters.iter().map(Moving::text).collect();
            println!("{indent}{}({})", NAMES[*key as usize], values.join(", "));
        }
        Definition::Loop(body) => {
            let (first, strides) = parameters[1..].split_at(parameters.len() / 2);
            println!("{indent}{} times", parameters[0].text());
            let mut inside: Vec<Moving> = first.to_vec();
            for (parameter, stride) in inside.iter_mut().zip(strides) {
                parameter.1.resize(depth, 0);
                parameter.1.push(stride.0);
            }
            let mut rest = inside.as_slice();
            for &kind in body {
                let (own, others) = rest.split_at(dictionary.arity(kind));
                show(dictionary, kind, own, depth + 1);
                rest = others;
            }
        }
    }
}

fn main() {
    for (title, job) in [
        (
            "checkpoints",
            Job {
                checkpoints: 50,
                files: 8,
                blocks: 100,
                log: false,
            },
        ),
        (
            "ten times as many",
            Job {
                checkpoints: 500,
                files: 8,
                blocks: 100,
                log: false,
            },
        ),
        (
            "with a log",
            Job {
                checkpoints: 50,
                files: 8,
                blocks: 100,
                log: true,
            },
        ),
    ] {
        let calls = calls(&job);
        let (events, bytes) = compress(&calls);
        println!(
            "{title}: {} calls, {} events, {} bytes",
            calls.len(),
            events.len(),
            bytes.len()
        );
        assert!(decompress(&bytes, 4 * calls.len()) == Some(calls));
        for i in 0..events.len().min(8) {
            let parameters: Vec<Moving> = events.parameters(i).iter().map(|&p| Moving(p, vec![])).collect();
            show(&events.dictionary, events.kind(i), &parameters, 0);
        }
        if events.len() > 8 {
            println!("  … and {} more", events.len() - 8);
        }
    }
}
