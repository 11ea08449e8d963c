//! Accesses while a program runs are those of a replay.
mod common;
#[path = "common/run.rs"]
mod run;

use common::header;
use memtrail_decode::{Block, Counter, DecodeError, Message, Piece, Sink, Table, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Event, Kind, Note, Reply, Thread, Wants};
use memtrail_plan::XsaveTable;
use memtrail_replay::{accesses, drain, Selection};
use memtrail_replay::{Live, Lived};
use memtrail_ring::record::FIRST_BLOCK;
use memtrail_trace::{Hasher, Known, Pipeline, Reader, ThreadHash, Verifier};
use memtrail_tracee::xsave_table;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor};

/// The same run three times: hashed by the verifier, live, and recorded.
struct Tee<'x, S: AccessSink + Send + 'static> {
    verifier: Verifier<'x>,
    live: Live<S>,
    pipeline: Pipeline<Vec<u8>>,
}

impl<S: AccessSink + Send + 'static> Sink for Tee<'_, S> {
    fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
        self.verifier.blocks(blocks).map_err(io::Error::other)?;
        self.live.blocks(blocks)?;
        self.pipeline.blocks(blocks)
    }
    fn message(&mut self, process: u32, message: &Message) -> io::Result<()> {
        self.live.message(process, message)?;
        self.pipeline.message(process, message)
    }
    fn records(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        self.verifier.records(piece).map_err(io::Error::other)?;
        self.live.records(piece)?;
        self.pipeline.records(piece)
    }
    fn ended(&mut self, thread: Thread) -> io::Result<()> {
        self.live.ended(thread)
    }
}

/// Hashes; counts loops and fetches; remembers spaces and when the thread changes.
#[derive(Default)]
struct Seen {
    hasher: Hasher,
    loops: u64,
    wants_fetches: bool,
    fetches: u64,
    spaces: BTreeMap<u32, u32>,
    turns: Vec<u32>,
    notes: Vec<(Thread, Note)>,
    forks: Vec<(u32, u32)>,
}

impl AccessSink for Seen {
    fn accesses(&mut self, batch: &[Access]) {
        let thread = batch[0].thread.0;
        assert!(self.spaces.contains_key(&thread));
        if self.turns.last() != Some(&thread) {
            self.turns.push(thread);
        }
        let data: Vec<Access> = batch.iter().copied().filter(|a| a.kind != Kind::Fetch).collect();
        self.fetches += (batch.len() - data.len()) as u64;
        self.hasher.accesses(&data);
    }
    fn wants(&self) -> Wants {
        Wants {
            loops: (!self.wants_fetches).then_some(0),
            fetches: self.wants_fetches,
            notes: true,
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Loop(_) => {
                self.loops += 1;
                return self.hasher.event(event);
            }
            Event::Note { thread, note, .. } => self.notes.push((thread, *note)),
            Event::Fork { parent, child } => self.forks.push((parent, child)),
            Event::Space { thread, space } => drop(self.spaces.insert(thread.0, space)),
            other => panic!("{other:?}"),
        }
        Reply::NOTHING
    }
}

struct Ran {
    verified: Vec<ThreadHash>,
    lived: Lived<Seen>,
    recording: Vec<u8>,
    instructions: u64,
}

fn ran(command: &[&str], wants_fetches: bool) -> Ran {
    let xsave: XsaveTable = xsave_table();
    let seen = Seen {
        wants_fetches,
        ..Seen::default()
    };
    let mut tee = Tee {
        verifier: Verifier::new(&xsave),
        live: Live::new(xsave.clone(), seen),
        pipeline: run::pipeline(&xsave),
    };
    let outcome = run::run(command, &xsave, &mut tee);
    Ran {
        verified: tee.verifier.finish().unwrap(),
        lived: tee.live.finish().unwrap(),
        recording: run::finish(tee.pipeline, &outcome),
        instructions: outcome.drained.counts.instructions,
    }
}

fn replayed(recording: &[u8]) -> (Known, Seen) {
    let mut reader = Reader::open(Cursor::new(recording)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut seen = Seen::default();
    accesses(&mut reader, &known, &Selection::default(), &mut seen).unwrap();
    (known, seen)
}

/// What a recording was made of, once more. All its threads have ended.
fn drained(recording: &[u8], known: &Known) -> Lived<Seen> {
    let mut reader = Reader::open(Cursor::new(recording)).unwrap();
    let mut live = Live::new(known.xsave.clone(), Seen::default());
    let ended: Vec<Thread> = known.threads.keys().map(|&thread| Thread(thread)).collect();
    drain(&mut reader, known, &ended, &mut live).unwrap();
    live.finish().unwrap()
}

const LOOP: &str = "i=0; while [ $i -lt 150 ]; do i=$((i+1)); done";

#[test]
fn one_thread_lives_as_it_is_replayed() {
    let ran = ran(&["sh", "-c", LOOP], false);
    let (known, replayed) = replayed(&ran.recording);
    let Lived { sink, table, messages } = ran.lived;
    assert_eq!(table.points(), known.table.points());
    assert_eq!(messages, known.messages);
    assert_eq!(sink.spaces, BTreeMap::from([(0, 0)]));
    assert_eq!(sink.notes, replayed.notes);
    let allocated = |n: &&(Thread, Note)| matches!(n.1, Note::Alloc { .. });
    assert!(sink.notes.iter().filter(allocated).count() > 20, "{:?}", sink.notes);
    // Loops come whole. A replay meets the same, but where a chunk or piece ends between.
    assert!(sink.loops > 0 && replayed.loops > 0);
    let hashes = sink.hasher.hashes();
    assert_eq!(hashes, ran.verified);
    assert_eq!(hashes, replayed.hasher.hashes());
    let again = drained(&ran.recording, &known);
    assert_eq!(again.table.points(), table.points());
    assert_eq!(again.sink.hasher.hashes(), hashes);
    assert_eq!((again.sink.spaces, again.sink.notes), (sink.spaces, sink.notes));
}

#[test]
fn fetches_come_live_as_well() {
    let ran = ran(&["sh", "-c", LOOP], true);
    let sink = ran.lived.sink;
    assert_eq!(sink.fetches, ran.instructions);
    assert_eq!(sink.hasher.hashes(), ran.verified);
    let fetched = ran
        .lived
        .table
        .points()
        .iter()
        .filter(|p| p.kind == Kind::Fetch)
        .count();
    assert!(fetched > 1000, "{fetched}");
}

#[test]
fn each_of_several_threads_and_processes_lives_as_it_is_replayed() {
    // Two at a time, then one by itself.
    let script = format!("({LOOP}) & ({LOOP}); wait; /bin/true; {LOOP}");
    let ran = ran(&["sh", "-c", &script], false);
    let (known, replayed) = replayed(&ran.recording);
    let sink = ran.lived.sink;
    let spaces: BTreeMap<u32, u32> = known.threads.keys().map(|&t| (t, known.space(Thread(t)))).collect();
    assert_eq!(sink.spaces, spaces);
    assert!(sink.loops > 0, "the last loops were run alone");
    // Nobody is delivered in one go. How often the first two take turns is up to the machine.
    let turns = |t: &u32| sink.turns.iter().filter(|s| *s == t).count();
    assert!(turns(&1) > 2 && turns(&2) > 2, "{:?}", sink.turns);
    let hashes = sink.hasher.hashes();
    assert!(hashes.len() >= 4);
    assert_eq!(hashes, ran.verified);
    assert_eq!(hashes, replayed.hasher.hashes());
    let again = drained(&ran.recording, &known);
    assert_eq!(again.sink.hasher.hashes(), hashes);
    assert_eq!(again.sink.spaces, sink.spaces);
    // Who of two children is told of first depends on whose records come first.
    let sorted = |mut forks: Vec<(u32, u32)>| {
        forks.sort_unstable();
        forks
    };
    assert_eq!(sorted(again.sink.forks), sorted(sink.forks));
    let all = |messages: &[(u32, Message)]| messages.iter().map(|m| format!("{m:?}")).collect::<BTreeSet<_>>();
    let (told, recorded) = (all(&again.messages), all(&known.messages));
    assert_eq!(told.symmetric_difference(&recorded).next(), None);
}

/// A chunk of more words than are handed on at once: pieces follow each other in accesses and in
/// time, and their states are those of the drain.
#[test]
fn long_chunks_are_handed_on_in_pieces() {
    #[derive(Default)]
    struct Pieces(Vec<(u64, u64, u64, u64, usize)>, Option<ThreadDecoder>, Option<Table>);
    impl Sink for Pieces {
        fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
            let table = self.2.get_or_insert_with(Table::default);
            blocks
                .iter()
                .try_for_each(|b| table.insert_with(b.id, b.plan.clone(), b.sources.clone()))
                .map_err(io::Error::other)
        }
        fn message(&mut self, _: u32, _: &Message) -> io::Result<()> {
            Ok(())
        }
        fn records(&mut self, piece: &Piece<'_>) -> io::Result<()> {
            let decoder = self.1.get_or_insert_with(|| ThreadDecoder::new(piece.thread));
            assert_eq!(&decoder.state(), piece.state);
            let xsave = XsaveTable::default();
            let mut counter = Counter::new(&xsave);
            let table = self.2.as_ref().expect("blocks come first");
            decoder
                .feed(table, piece.words, &mut counter)
                .map_err(io::Error::other)?;
            assert_eq!(counter.accesses(), piece.accesses);
            self.0
                .push((piece.first, piece.accesses, piece.begin, piece.end, piece.words.len()));
            Ok(())
        }
    }
    let ran = ran(&["sh", "-c", &LOOP.replace("150", "9000")], false);
    let (known, _) = replayed(&ran.recording);
    let mut reader = Reader::open(Cursor::new(&ran.recording)).unwrap();
    let mut pieces = Pieces::default();
    drain(&mut reader, &known, &[], &mut pieces).unwrap();
    assert!(pieces.0.len() > known.streams.len(), "{:?}", known.streams);
    let (mut next, mut time) = (0, known.streams[0].head.stream.begin);
    for (first, accesses, begin, end, words) in pieces.0 {
        assert!(words > 0 && first == next && time <= begin && begin <= end);
        (next, time) = (first + accesses, end);
    }
    assert!(next > 0);
}

#[test]
fn what_cannot_be_decoded_ends_it() {
    let mut live = Live::new(XsaveTable::default(), Seen::default());
    let piece = Piece {
        thread: Thread(0),
        process: 0,
        begin: 0,
        end: 1,
        first: 0,
        accesses: 5,
        state: &memtrail_decode::State::default(),
        words: &[FIRST_BLOCK + 7, 0],
        leaves: &[],
    };
    // The first may be taken before the second is looked at.
    let error = loop {
        if let Err(error) = live.records(&piece) {
            break error;
        }
    };
    let expected = DecodeError::UnknownBlock { id: FIRST_BLOCK + 7 };
    assert_eq!(error.to_string(), expected.to_string());
    assert!(live.finish().is_err());
}

#[test]
fn a_program_that_never_was_leaves_the_sink() {
    let live = Live::new(XsaveTable::default(), Seen::default());
    let lived = live.finish().unwrap();
    assert_eq!((lived.sink.fetches, lived.table.points().len()), (0, 0));
}
