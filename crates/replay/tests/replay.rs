//! Replay of recordings made by hand: selections, orders, heads that are wrong, and which chunks
//! are read.
#[path = "common/by_hand.rs"]
mod by_hand;
mod common;

use by_hand::{recorded, scan, Thread0};
use common::{blocks, header};
use memtrail_decode::{Block, Message, State, StepSink, Walker};
use memtrail_model::{Access, AccessSink, Event, Kind, Reply, Thread, Wants};
use memtrail_plan::{Lin, Repeat, Shape};
use memtrail_replay::Order;
use memtrail_replay::{accesses, check_deep, replay, Filter, Point, Selection};
use memtrail_trace::{
    compress, describe, stream, Descriptor, Ending, Error, Known, Leaves, Reader, StreamHead, Totals, Writer,
    CHUNK_HEAD_BYTES,
};
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct List {
    accesses: Vec<Access>,
    enough: Option<usize>,
}

impl AccessSink for List {
    fn accesses(&mut self, batch: &[Access]) {
        self.accesses.extend_from_slice(batch);
    }
    fn done(&self) -> bool {
        self.enough.is_some_and(|n| self.accesses.len() >= n)
    }
}

/// Takes loops whole, how many it counts; unless they have no more than so many iterations.
#[derive(Default)]
struct Whole(Vec<Access>, usize, u64);

impl AccessSink for Whole {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.extend_from_slice(batch);
    }
    fn wants(&self) -> Wants {
        Wants {
            loops: Some(self.2),
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return Reply::NOTHING;
        };
        self.0.extend(run.accesses());
        self.1 += 1;
        Reply::skip(run.trips)
    }
}

/// One thread, ten chunks of a loop of 100 accesses and one of 7.
fn ten_chunks() -> Vec<u8> {
    let block = &blocks()[2];
    let chunk = |i: u64| {
        (
            1000 + 1000 * i,
            [scan(block, 0x10000 * i, 100), scan(block, 1 << 40, 7)].concat(),
        )
    };
    recorded(&[Thread0 {
        thread: 0,
        chunks: (0..10).map(chunk).collect(),
    }])
}

fn replayed(bytes: &[u8], selection: &Selection) -> Vec<Access> {
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut list = List::default();
    accesses(&mut reader, &known, selection, &mut list).unwrap();
    let mut whole = Whole::default();
    accesses(&mut reader, &known, selection, &mut whole).unwrap();
    assert_eq!(whole.0, list.accesses, "loops taken whole differ");
    list.accesses
}

fn between(from: u64, to: u64) -> Selection {
    Selection {
        from: Some(Point::Access(from)),
        to: Some(Point::Access(to)),
        ..Selection::default()
    }
}

#[test]
fn any_range_is_the_same_part_of_the_whole() {
    let bytes = ten_chunks();
    let all = replayed(&bytes, &Selection::default());
    assert_eq!(all.len(), 1070);
    assert_eq!(all[107].addr, 0x10000);
    for from in (0..1080).step_by(13).chain([99, 100, 101, 106, 107, 1063, 1069, 1070]) {
        for length in [0u64, 1, 2, 99, 101, 300, 2000] {
            let part = replayed(&bytes, &between(from, from + length));
            let begin = (from as usize).min(all.len());
            let end = ((from + length) as usize).min(all.len());
            assert_eq!(part, all[begin..end], "{from} and {length}");
        }
        let limited = Selection {
            limit: 5,
            from: Some(Point::Access(from)),
            ..Selection::default()
        };
        let part = replayed(&bytes, &limited);
        let begin = (from as usize).min(all.len());
        assert_eq!(part, all[begin..(begin + 5).min(all.len())]);
    }
}

#[test]
fn times_are_interpolated() {
    let bytes = ten_chunks();
    let all = replayed(&bytes, &Selection::default());
    let times = |from, to| Selection {
        from: Some(Point::Time(from)),
        to: Some(Point::Time(to)),
        ..Selection::default()
    };
    // Accesses are counted where their end is known, so the last record of a chunk is in the next
    // one: the first chunk has 100 accesses in its 1000 ticks, one in ten ticks.
    assert_eq!(replayed(&bytes, &times(0, 1001)), all[..1]);
    assert_eq!(replayed(&bytes, &times(1101, 1201)), all[11..21]);
    assert_eq!(replayed(&bytes, &times(1991, 2001)), all[100..101]);
    assert_eq!(replayed(&bytes, &times(20_000, 30_000)), []);
    assert_eq!(replayed(&bytes, &times(5000, 5000)), []);
    let reader = &mut Reader::open(Cursor::new(&bytes)).unwrap();
    let known = Known::read(reader).unwrap();
    assert_eq!(known.beginning(), 100);
    // A tick is a microsecond here.
    assert_eq!(known.ticks(std::time::Duration::from_millis(2)), Some(2100));
}

/// Remembers where it was read.
struct Watched<'b> {
    input: Cursor<&'b [u8]>,
    reads: Arc<Mutex<Vec<u64>>>,
}
impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.reads.lock().unwrap().push(self.input.position());
        self.input.read(buffer)
    }
}
impl Seek for Watched<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.input.seek(to)
    }
}

#[test]
fn only_the_chunks_that_are_needed_are_read() {
    let bytes = ten_chunks();
    let reads = Arc::new(Mutex::new(Vec::new()));
    let input = Watched {
        input: Cursor::new(&bytes),
        reads: reads.clone(),
    };
    let mut reader = Reader::open(input).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let payloads: Vec<u64> = known.streams.iter().map(|c| c.at + CHUNK_HEAD_BYTES as u64).collect();
    let mut read = |selection: &Selection| {
        reads.lock().unwrap().clear();
        accesses(&mut reader, &known, selection, &mut List::default()).unwrap();
        let reads = reads.lock().unwrap();
        let read = |(_, p): &(usize, &u64)| reads.contains(p);
        payloads
            .iter()
            .enumerate()
            .filter(read)
            .map(|(i, _)| i)
            .collect::<Vec<_>>()
    };
    // Chunk 0 has 100 accesses, each later one 107.
    assert_eq!(read(&between(0, 1)), [0]);
    assert_eq!(read(&between(100, 101)), [1]);
    assert_eq!(read(&between(530, 540)), [5]);
    assert_eq!(read(&between(520, 530)), [4, 5]);
    let times = Selection {
        from: Some(Point::Time(3100)),
        to: Some(Point::Time(3200)),
        ..Selection::default()
    };
    assert_eq!(read(&times), [2]);
    assert_eq!(read(&Selection::default()), (0..10).collect::<Vec<_>>());
}

/// Three threads: two at the same time, one after them.
fn three_threads() -> Vec<u8> {
    let block = &blocks()[2];
    let chunk = |begin: u64, thread: u64| {
        let base = thread << 32;
        (
            begin,
            [scan(block, base, 5000), scan(block, base + 0x100_0000, 3)].concat(),
        )
    };
    let thread = |thread: u32, begins: &[u64]| Thread0 {
        thread,
        chunks: begins.iter().map(|&b| chunk(b, thread.into())).collect(),
    };
    recorded(&[thread(0, &[1000, 2000]), thread(1, &[1500, 2500]), thread(2, &[9000])])
}

fn of(all: &[Access], thread: u32) -> Vec<Access> {
    all.iter().copied().filter(|a| a.thread.0 == thread).collect()
}

#[test]
fn threads_are_interleaved_by_time_and_each_keeps_its_order() {
    let bytes = three_threads();
    let all = replayed(&bytes, &Selection::default());
    assert_eq!(all.len(), 5 * 5003);
    for thread in 0..3 {
        let alone = Selection {
            thread: Some(Thread(thread)),
            ..Selection::default()
        };
        assert_eq!(of(&all, thread), replayed(&bytes, &alone), "thread {thread}");
    }
    // The first half of thread 0's first chunk is before thread 1, and all of thread 2 after both.
    assert!(all[..2500].iter().all(|a| a.thread.0 == 0));
    assert!(all[2500..5000].iter().any(|a| a.thread.0 == 1));
    assert!(all[4 * 5003..].iter().all(|a| a.thread.0 == 2));
    // A part by time is the same part of each thread.
    let part = Selection {
        from: Some(Point::Time(1600)),
        to: Some(Point::Time(2600)),
        ..Selection::default()
    };
    let part = replayed(&bytes, &part);
    assert_eq!(of(&part, 2), []);
    assert_eq!(of(&part, 0)[0], of(&all, 0)[3000]);
    assert_eq!(of(&part, 1)[0], of(&all, 1)[500]);
    let limited = Selection {
        limit: 6000,
        ..Selection::default()
    };
    assert_eq!(replayed(&bytes, &limited), all[..6000]);
}

#[test]
fn at_equal_rate_threads_take_turns() {
    let bytes = three_threads();
    let equal = Selection {
        order: Order::EqualRate { quantum: 1 },
        ..Selection::default()
    };
    let all = replayed(&bytes, &equal);
    let turns: Vec<u32> = all[..3 * 5003].iter().map(|a| a.thread.0).collect();
    assert!(turns.chunks(3).all(|turn| turn == [0, 1, 2]));
    let by_time = replayed(&bytes, &Selection::default());
    for thread in 0..3 {
        assert_eq!(of(&all, thread), of(&by_time, thread));
    }
}

#[test]
fn a_sink_that_has_enough_ends_it() {
    for bytes in [ten_chunks(), three_threads()] {
        let mut reader = Reader::open(Cursor::new(&bytes)).unwrap();
        let known = Known::read(&mut reader).unwrap();
        let mut list = List {
            enough: Some(10),
            ..List::default()
        };
        accesses(&mut reader, &known, &Selection::default(), &mut list).unwrap();
        assert!((10..8000).contains(&list.accesses.len()), "{}", list.accesses.len());
    }
}

#[test]
fn numbers_need_a_thread() {
    let bytes = three_threads();
    let mut reader = Reader::open(Cursor::new(&bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut select = between(5, 10);
    let refused = accesses(&mut reader, &known, &select, &mut List::default());
    assert!(matches!(refused, Err(Error::WhichThread { threads: 3 })));
    select.thread = Some(Thread(1));
    assert_eq!(replayed(&bytes, &select).len(), 5);
}

#[test]
fn what_is_left_of_a_recording_is_a_prefix_of_each_thread() {
    for bytes in [ten_chunks(), three_threads()] {
        let all = replayed(&bytes, &Selection::default());
        let reader = Reader::open(Cursor::new(&bytes)).unwrap();
        let ends: Vec<u64> = reader.chunks().iter().map(|c| c.at + c.head.chunk_bytes()).collect();
        for end in ends {
            let part = replayed(&bytes[..end as usize], &Selection::default());
            for thread in 0..3 {
                let (all, part) = (of(&all, thread), of(&part, thread));
                assert_eq!(part, all[..part.len()]);
            }
        }
        // The last record might have been cut short by what is missing.
        let cut = replayed(&bytes[..bytes.len() - 1], &Selection::default());
        assert!(cut.len() < all.len());
    }
}

/// The bytes with one chunk's number of accesses changed, and all checksums right; its index is
/// dropped.
fn with_accesses(bytes: &[u8], which: usize, accesses: impl Fn(u64) -> u64) -> Vec<u8> {
    let reader = Reader::open(Cursor::new(bytes)).unwrap();
    let streams = reader
        .chunks()
        .iter()
        .filter(|c| c.kind() == memtrail_trace::ChunkKind::Stream);
    let chunk = *streams.clone().nth(which).unwrap();
    let at = chunk.at as usize;
    let mut changed = bytes[..bytes.len() - 16].to_vec();
    let count = accesses(chunk.head.stream.accesses);
    changed[at + 24..at + 32].copy_from_slice(&count.to_le_bytes());
    let crc = crc32fast::hash(&changed[at..at + 68]);
    changed[at + 68..at + 72].copy_from_slice(&crc.to_le_bytes());
    changed
}

#[test]
fn no_more_accesses_come_than_a_head_says() {
    // The last chunk, so that the next does not give it away.
    let bytes = ten_chunks();
    for (change, expected) in [(-1i64, 1062), (-107, 956), (1, 1063)] {
        let changed = with_accesses(&bytes, 9, |n| n.wrapping_add_signed(change));
        let mut reader = Reader::open(Cursor::new(&changed)).unwrap();
        let known = Known::read(&mut reader).unwrap();
        let mut list = List::default();
        let error = accesses(&mut reader, &known, &Selection::default(), &mut list).unwrap_err();
        let at = known.streams[9].at;
        assert!(matches!(error, Error::Damaged { at: a, .. } if a == at), "{error}");
        assert_eq!(list.accesses.len(), expected);
    }
    // In the middle: chunks do not follow each other any more.
    let changed = with_accesses(&bytes, 3, |n| n - 1);
    let mut reader = Reader::open(Cursor::new(&changed)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let error = accesses(&mut reader, &known, &Selection::default(), &mut List::default()).unwrap_err();
    assert!(matches!(error, Error::Damaged { at, .. } if at == known.streams[4].at));
}

#[test]
fn a_deep_check_finds_what_a_shallow_one_does_not() {
    let bytes = ten_chunks();
    let checked = check_deep(&mut Reader::open(Cursor::new(&bytes)).unwrap()).unwrap();
    assert_eq!((checked.counts.reads, checked.hashes.len()), (1070, 1));
    assert!(!checked.verified);
    let checked = check_deep(&mut Reader::open(Cursor::new(three_threads())).unwrap()).unwrap();
    let counts: Vec<_> = checked.hashes.iter().map(|h| (h.thread, h.accesses)).collect();
    assert_eq!(counts, [(0, 10006), (1, 10006), (2, 5003)]);
    // A chunk whose state is not the one reached: the held record is another.
    let block = &blocks()[2];
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let mut leaves = Leaves::default();
    blocks().iter().for_each(|b| leaves.add(b));
    writer.blocks(&blocks()).unwrap();
    let message = Message::Thread {
        thread: 0,
        tid: 1,
        tsc: 0,
    };
    writer.message(0, &message).unwrap();
    let words = scan(block, 0x1000, 5);
    for (first, accesses, held) in [(0, 0, vec![]), (0, 5, scan(block, 0x2000, 5))] {
        let head = StreamHead {
            first,
            accesses,
            words: 3,
            begin: 5,
            end: 5,
            ..StreamHead::default()
        };
        let state = State {
            held,
            ..State::default()
        };
        let (payload, raw) = compress(&words, state, 5, &leaves).unwrap();
        writer.stream(&head, raw, &payload).unwrap();
    }
    let totals = Totals {
        accesses: 10,
        reads: 10,
        bytes: 40,
        blocks: 10,
        instructions: 40,
        ring_words: 6,
        ..Totals::default()
    };
    let (bytes, _) = writer.finish(&totals).unwrap();
    memtrail_replay::check(&mut Reader::open(Cursor::new(&bytes)).unwrap()).unwrap();
    let error = check_deep(&mut Reader::open(Cursor::new(&bytes)).unwrap()).unwrap_err();
    assert!(error.to_string().contains("state"), "{error}");
}

/// A record of `rep movsb`.
fn string(block: &Block, from: u64, to: u64, bytes: u64) -> Vec<u64> {
    let mut words = vec![0; block.plan.words as usize];
    words[0] = block.id.into();
    let Shape::Repeat(repeat) = &block.plan.accesses[0].shape else {
        panic!("not a string");
    };
    let Repeat {
        source: Some(source),
        dest: Some((dest, _)),
        before,
        after,
        moved,
        moved_is_rsi,
        ..
    } = **repeat
    else {
        panic!("not between two places");
    };
    let slot = |lin: &Lin| lin.terms[0].0;
    let end = if moved_is_rsi { from } else { to } + bytes;
    for (slot, value) in [
        (slot(&source.lin), from),
        (slot(&dest.lin), to),
        (slot(&before), bytes),
        (after, 0),
        (moved, end),
    ] {
        words[slot as usize - 2] = value;
    }
    words
}

/// All accesses of a descriptor, with their sequence ids.
fn expand(descriptor: &Descriptor, addr: u64, seq: u64, out: &mut Vec<(u64, u64)>) {
    match descriptor {
        Descriptor::Iad { address, sequence, .. } => {
            out.push((sequence.wrapping_add(seq), address.wrapping_add(addr)));
        }
        Descriptor::Rsd {
            address,
            length,
            stride,
            sequence,
            sequence_stride,
            ..
        } => {
            for i in 0..*length {
                let sequence = sequence.wrapping_add(seq).wrapping_add(i * sequence_stride);
                out.push((
                    sequence,
                    address.wrapping_add(addr).wrapping_add(i.wrapping_mul(*stride)),
                ));
            }
        }
        Descriptor::Prsd {
            shift,
            sequence_shift,
            length,
            of,
            ..
        } => {
            for i in 0..*length {
                let addr = addr.wrapping_add(i.wrapping_mul(*shift));
                expand(of, addr, seq.wrapping_add(i * sequence_shift), out);
            }
        }
    }
}

#[test]
fn descriptors_stand_for_every_access_once() {
    let block = &blocks()[2];
    let copy = &blocks()[1];
    // A rectangular nest, a triangular one, a string, and single accesses.
    let mut words = Vec::new();
    for outer in 0..20u64 {
        for inner in 0..30u64 {
            words.extend(scan(block, (outer << 20) + 400 * inner, 100));
        }
        words.extend([u64::from(blocks()[0].id), 8 * outer]);
    }
    for outer in 1..40u64 {
        words.extend(scan(block, 0x5000_0000 + 8 * outer, outer));
    }
    words.extend(string(copy, 7 << 40, 9 << 40, 5001));
    let bytes = recorded(&[Thread0 {
        thread: 0,
        chunks: vec![(1000, words.clone()), (2000, words)],
    }]);
    let all = replayed(&bytes, &Selection::default());
    let mut reader = Reader::open(Cursor::new(&bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut found = Vec::new();
    let mut descriptors = 0;
    for (i, chunk) in known.streams.iter().enumerate() {
        let stream = stream(&mut reader, &known, chunk).unwrap();
        let more = describe(&known, chunk, &stream, i == 1, |descriptor| {
            expand(&descriptor, 0, 0, &mut found);
            descriptors += 1;
            true
        });
        assert!(more.unwrap());
    }
    found.sort_unstable();
    let sequence: Vec<u64> = found.iter().map(|f| f.0).collect();
    assert_eq!(sequence, (0..all.len() as u64).collect::<Vec<_>>());
    let addresses: Vec<u64> = found.iter().map(|f| f.1).collect();
    assert_eq!(addresses, all.iter().map(|a| a.addr).collect::<Vec<_>>());
    assert!(
        descriptors < 300,
        "{descriptors} descriptors for {} accesses",
        all.len()
    );
}

#[test]
fn short_loops_come_as_accesses_if_the_sink_would_rather() {
    let block = &blocks()[2];
    let loops = [7, 8, 9, 100].map(|trips| scan(block, 0x1000 * trips, trips));
    let bytes = recorded(&[Thread0 {
        thread: 0,
        chunks: vec![(1000, loops.concat())],
    }]);
    let mut reader = Reader::open(Cursor::new(&bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut taken = |short| {
        let mut whole = Whole(Vec::new(), 0, short);
        accesses(&mut reader, &known, &Selection::default(), &mut whole).unwrap();
        (whole.0, whole.1)
    };
    let (all, loops) = taken(0);
    assert_eq!((all.len(), loops), (124, 4));
    assert_eq!(taken(6), (all.clone(), 4));
    assert_eq!(taken(8), (all.clone(), 2));
    assert_eq!(taken(1000), (all, 0));
}

/// Takes fetches, and loops whole if it is told to.
#[derive(Default)]
struct Fetching {
    list: Vec<Access>,
    loops: bool,
}

impl AccessSink for Fetching {
    fn accesses(&mut self, batch: &[Access]) {
        self.list.extend_from_slice(batch);
    }
    fn wants(&self) -> Wants {
        Wants {
            fetches: true,
            loops: self.loops.then_some(0),
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return Reply::NOTHING;
        };
        self.list.extend(run.accesses());
        Reply::skip(run.trips)
    }
}

impl StepSink for Fetching {
    fn instruction(&mut self, thread: Thread, pc: u64, size: u32) {
        self.list.push(Access {
            thread,
            pc,
            kind: Kind::Fetch,
            addr: pc,
            size,
            point: memtrail_model::Point::NONE,
        });
    }
    fn access(&mut self, access: &Access) {
        self.list.push(*access);
    }
}

/// Accesses and fetches.
fn fetched(bytes: &[u8], selection: &Selection) -> Vec<Access> {
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let mut known = Known::read(&mut reader).unwrap();
    let mut unnumbered = Fetching::default();
    accesses(&mut reader, &known, selection, &mut unnumbered).unwrap();
    known.table.number_fetches();
    let [list, whole] = [false, true].map(|loops| {
        let mut sink = Fetching {
            loops,
            list: Vec::new(),
        };
        accesses(&mut reader, &known, selection, &mut sink).unwrap();
        sink.list
    });
    assert_eq!(whole, list, "loops taken whole differ");
    let point = |a: &Access| known.table.points()[a.point.index()];
    assert!(list.iter().all(|a| (point(a).pc, point(a).kind) == (a.pc, a.kind)));
    let bare = |a: &Access| {
        if a.kind == Kind::Fetch {
            (a.pc, None)
        } else {
            (a.pc, Some(*a))
        }
    };
    assert!(list.iter().map(bare).eq(unnumbered.list.iter().map(bare)));
    list
}

fn without_fetches(list: &[Access]) -> Vec<Access> {
    list.iter().copied().filter(|a| a.kind != Kind::Fetch).collect()
}

#[test]
fn fetches_are_those_of_the_walker() {
    for bytes in [ten_chunks(), three_threads()] {
        let all = fetched(&bytes, &Selection::default());
        let mut reader = Reader::open(Cursor::new(&bytes)).unwrap();
        let known = Known::read(&mut reader).unwrap();
        let mut walker = Walker::new(&known.xsave, Fetching::default());
        replay(&mut reader, &known, &Filter::default(), &mut walker, |_| true).unwrap();
        let walked = walker.into_sink().list;
        let of = |list: &[Access], thread: u32| -> Vec<(u64, Kind, u64, u32)> {
            let own = list.iter().filter(|a| a.thread == Thread(thread));
            own.map(|a| (a.pc, a.kind, a.addr, a.size)).collect()
        };
        for thread in 0..3 {
            assert_eq!(of(&all, thread), of(&walked, thread));
        }
        let Ending::Complete(totals) = known.ending else {
            panic!("not complete")
        };
        assert_eq!(all.len() as u64, totals.accesses + totals.instructions);
        // Each of the four instructions of the loop in its turn, and nothing else changes.
        let first: Vec<u64> = of(&all, 0)[..6].iter().map(|a| a.0).collect();
        assert_eq!(
            first,
            [0x40_1006, 0x40_1006, 0x40_1008, 0x40_100c, 0x40_100f, 0x40_1006]
        );
        assert_eq!(without_fetches(&all), replayed(&bytes, &Selection::default()));
    }
}

#[test]
fn fetches_go_with_the_access_that_follows_them() {
    let bytes = ten_chunks();
    let all = fetched(&bytes, &Selection::default());
    assert_eq!(all.len(), 1070 * 5);
    // Chunks end at 100 and every 107 from there.
    for at in [
        0, 1, 2, 99, 100, 101, 107, 206, 207, 208, 500, 956, 1063, 1069, 1070, 2000,
    ] {
        let before = fetched(&bytes, &between(0, at));
        let behind = fetched(
            &bytes,
            &Selection {
                from: Some(Point::Access(at)),
                ..Selection::default()
            },
        );
        assert_eq!(without_fetches(&before).len() as u64, at.min(1070), "{at}");
        assert_eq!([before, behind].concat(), all, "{at}");
        let limited = Selection {
            from: Some(Point::Access(at)),
            limit: 3,
            ..Selection::default()
        };
        let some = fetched(&bytes, &limited);
        assert_eq!(some, fetched(&bytes, &between(at, at + 3)), "{at}");
    }
}

#[test]
fn threads_are_interleaved_in_the_same_way_with_fetches() {
    let bytes = three_threads();
    for order in [Order::Time, Order::EqualRate { quantum: 7 }] {
        for limit in [u64::MAX, 1, 5000, 12_345] {
            let selection = Selection {
                order,
                limit,
                ..Selection::default()
            };
            let all = fetched(&bytes, &selection);
            assert_eq!(without_fetches(&all), replayed(&bytes, &selection));
        }
    }
}
