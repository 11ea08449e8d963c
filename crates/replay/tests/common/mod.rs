//! A small recording that has something of everything.
#![allow(dead_code)] // not every test needs everything

use memtrail_collect::define_in;
use memtrail_decode::{Block, HookKind, Image, ImageId, Message, Module, State, Table};
use memtrail_trace::{compress, ChunkKind, Header, Leaves, StreamHead, Totals, Writer};
use memtrail_translate::Options;

pub fn header() -> Header {
    Header {
        command: vec!["ls".into(), "-l".into()],
        pid: 4711,
        probes: 3,
        max_block: 64,
        page_bytes: 4096,
        unix_time: 1,
        xcr0: 7,
        xsave: vec![(2, 256, 576, false)],
        features: Vec::new(),
        ranks: Default::default(),
    }
}

pub fn totals() -> Totals {
    Totals {
        threads: 2,
        exit_status: Some(3),
        ..Totals::default()
    }
}

/// What processes tell, with the process, in order.
pub fn message_list() -> Vec<(u32, Message)> {
    let thread = |thread| Message::Thread {
        thread,
        tid: 10 + thread,
        tsc: 1000,
    };
    let map = |addr, path: &[u8]| Message::Map {
        addr,
        len: 0x2000,
        offset: 0x1000,
        prot: 5,
        path: path.to_vec(),
    };
    [
        Message::Process {
            process: 0,
            parent: u32::MAX,
            pid: 10,
            how: 0,
        },
        thread(0),
        Message::Module(Module {
            path: b"/no/such/file".to_vec(),
            build_id: None,
            generated: false,
        }),
        Message::Image(Image {
            module: 0,
            base: 0x40_0000,
        }),
        map(0x40_1000, b"/no/such/file"),
        map(0x7fff_0000, b"[vdso]"),
        thread(1),
        map(0x40_3000, b"/no/such/file"),
        Message::ThreadEnd {
            thread: 1,
            status: 2,
            tsc: 3000,
        },
        Message::Exit { status: 3 },
        Message::Text {
            id: 0,
            text: b"malloc".to_vec(),
        },
        Message::Hook {
            id: 0,
            kind: HookKind::Allocates,
            by_user: false,
            address: 0x40_1000,
            text: 0,
        },
    ]
    .map(|m| (0, m))
    .into()
}

pub fn table() -> Table {
    Table::default()
}

/// Blocks of three pieces of code, as the translator plans them.
pub fn blocks() -> Vec<Block> {
    blocks_in(ImageId::UNKNOWN, table())
}

/// The same, of a file.
pub fn blocks_of_a_file() -> Vec<Block> {
    let mut table = table();
    for (_, message) in message_list() {
        table.learn(&message).unwrap();
    }
    blocks_in(ImageId(1), table)
}

fn blocks_in(image: ImageId, mut table: Table) -> Vec<Block> {
    for (id, pc, code) in [
        // push rbp; mov rax, [rdi + 8]; ret
        (64, 0x40_1000, &[0x55, 0x48, 0x8b, 0x47, 0x08, 0xc3][..]),
        // rep movsb; ret
        (65, 0x40_1100, &[0xf3, 0xa4, 0xc3]),
        // mov eax, [rdi]; add rdi, 4; cmp rdi, rsi; jne to the start
        (
            66,
            0x40_1006,
            &[0x8b, 0x07, 0x48, 0x83, 0xc7, 0x04, 0x48, 0x39, 0xf7, 0x75, 0xf5],
        ),
    ] {
        define_in(&mut table, &Options::default(), image, id, pc, code).unwrap();
    }
    table.blocks().to_vec()
}

pub struct Recording {
    pub bytes: Vec<u8>,
    /// Chunks of blocks, events and streams.
    pub chunks: Vec<(u64, ChunkKind)>,
    /// Where the header, and then each chunk, ends.
    pub ends: Vec<u64>,
    pub blocks: Vec<Block>,
    /// Heads and words.
    pub streams: Vec<(StreamHead, Vec<u64>)>,
}

fn stream_of(thread: u32, first: u64, accesses: u64, begin: u64, words: Vec<u64>) -> (StreamHead, Vec<u64>) {
    let head = StreamHead {
        thread,
        process: 0,
        first,
        accesses,
        begin,
        end: begin + 500,
        words: words.len() as u64,
    };
    (head, words)
}

/// `n` records of a block; all values of record `i` are `value(i)`.
fn records(block: &Block, n: u64, value: impl Fn(u64) -> u64) -> Vec<u64> {
    let mut words = Vec::new();
    for i in 0..n {
        words.push(block.id.into());
        words.resize(words.len() + block.plan.words as usize - 1, value(i));
    }
    words
}

pub fn recording() -> Recording {
    let mut r = Recording {
        bytes: Vec::new(),
        chunks: Vec::new(),
        ends: Vec::new(),
        blocks: blocks_of_a_file(),
        streams: vec![
            // A loop, one record, and a loop with numbers that follow no rule.
            stream_of(0, 0, 5, 1000, records(&blocks()[0], 500, |i| 8 * i)),
            stream_of(1, 0, u64::MAX, 1200, records(&blocks()[1], 1, |_| u64::MAX)),
            stream_of(0, 5, 9, 1500, records(&blocks()[2], 40, |i| i * i * i)),
        ],
    };
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    r.ends.push(writer.written());
    let mut leaves = Leaves::default();
    r.blocks.iter().for_each(|b| leaves.add(b));
    let (early, late) = r.blocks.split_at(2);
    let all = message_list();
    let (first, last) = all.split_at(6);
    for (blocks, messages, streams) in [(early, first, &r.streams[..2]), (late, last, &r.streams[2..])] {
        for (process, message) in messages {
            writer.message(*process, message).unwrap();
        }
        writer.blocks(blocks).unwrap();
        for (head, words) in streams {
            let (payload, raw_bytes) = compress(words, State::default(), head.begin, &leaves).unwrap();
            writer.stream(head, raw_bytes, &payload).unwrap();
        }
    }
    let (bytes, size) = writer.finish(&totals()).unwrap();
    assert_eq!(bytes.len() as u64, size);
    r.bytes = bytes;
    // Found independently of the reader: the sizes stand in the heads.
    let mut at = r.ends[0] as usize;
    while r.bytes[at..].starts_with(b"MTRK") {
        let stored = u32::from_le_bytes(r.bytes[at + 56..at + 60].try_into().unwrap());
        let kind = match r.bytes[at + 4] {
            1 => ChunkKind::Blocks,
            2 => ChunkKind::Events,
            3 => ChunkKind::Stream,
            4 => ChunkKind::Index,
            _ => ChunkKind::End,
        };
        if !matches!(kind, ChunkKind::Index | ChunkKind::End) {
            r.chunks.push((at as u64, kind));
        }
        at += 72 + stored as usize;
        r.ends.push(at as u64);
    }
    assert_eq!(at + 16, r.bytes.len());
    assert_eq!(r.chunks.len(), 7);
    r
}
