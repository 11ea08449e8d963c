//! The drain against a producer made by hand: the same words a target would write.
use super::*;
use crate::Options;
use memtrail_decode::Block;
use memtrail_ring::{message, record, Paths, Probes};
use memtrail_tracee::Events;
use std::sync::mpsc::channel;

/// `mov rax, [rdi]; ret`: one captured value, two reads.
const CODE: u64 = u64::from_le_bytes([0x48, 0x8b, 0x07, 0xc3, 0, 0, 0, 0]);
const CODE_BYTES: u64 = 4;
const OPTIONS: Options = Options {
    probes: Probes::Block,
    max_block: 64,
    paths: Paths::Hot,
    discard: false,
    follow: true,
};

#[derive(Default)]
struct Log {
    defined: Vec<u32>,
    records: Vec<(u32, Vec<u64>)>,
    /// First and number of accesses of each piece.
    counts: Vec<(u64, u64)>,
    order: String,
    full: bool,
}

impl Sink for Log {
    fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
        self.order.push('d');
        self.defined.extend(blocks.iter().map(|b| b.id));
        Ok(())
    }
    fn message(&mut self, _process: u32, _message: &Message) -> io::Result<()> {
        self.order.push('m');
        Ok(())
    }
    fn records(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        if self.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.order.push('r');
        self.records.push((piece.thread.0, piece.words.to_vec()));
        self.counts.push((piece.first, piece.accesses));
        Ok(())
    }
}

/// The producer's side of a slot.
struct Producer<'s> {
    session: &'s Session,
    slot: usize,
}

impl<'s> Producer<'s> {
    fn claim(session: &'s Session, slot: usize, kind: u32, pid: u32, thread: u32) -> Self {
        let c = session.control(slot);
        assert_eq!(c.state.load(Ordering::Relaxed), slot_state::FREE);
        c.kind.store(kind, Ordering::Relaxed);
        c.pid.store(pid, Ordering::Relaxed);
        c.thread.store(thread, Ordering::Relaxed);
        session.header().slot_high.fetch_max(slot as u32 + 1, Ordering::Relaxed);
        c.state.store(slot_state::ACTIVE, Ordering::Release);
        Producer { session, slot }
    }
    fn control(&self) -> &'s Control {
        self.session.control(self.slot)
    }
    fn index(&self) -> usize {
        (self.control().produced.load(Ordering::Relaxed) % BUFFERS as u64) as usize
    }
    fn write(&self, at: usize, words: &[u64]) {
        let buffer = self.session.buffer(self.slot, self.index());
        for (to, &word) in buffer[at..].iter().zip(words) {
            assert_eq!(to.load(Ordering::Relaxed), 0, "the buffer was not zero");
            to.store(word, Ordering::Relaxed);
        }
    }
    fn publish(&self, words: usize) {
        let head = &self.control().buffers[self.index()];
        head.words.store(words as u64, Ordering::Release);
    }
    fn submit(&self, words: &[u64]) {
        self.write(0, words);
        self.publish(words.len());
        self.control().produced.fetch_add(1, Ordering::Release);
    }
}

fn definition(id: u64) -> [u64; 4] {
    [message::head(message::BLOCK, 4), id | CODE_BYTES << 32, 0x1000, CODE]
}

/// A record of the block: STATE first, because `ret` reads the stack.
fn state_and_block(id: u64, value: u64) -> [u64; 6] {
    [record::STATE, 0x8000, 0, 0, id, value]
}

fn with_drain(session: &Session, log: &mut Log, work: impl FnOnce(&mut Drain<'_, Log>)) -> Drained {
    let options = memtrail_translate::Options {
        probes: OPTIONS.probes,
        max_block: OPTIONS.max_block,
    };
    let xsave = XsaveTable::default();
    let (notes, _kept) = channel();
    let events = Events::new().unwrap();
    let renamed = Renamed::default();
    let mut drain = Drain::new(session, options, &xsave, log, &renamed, notes, events.wake());
    work(&mut drain);
    drain.finish()
}

fn assert_free(session: &Session, slot: usize) {
    let c = session.control(slot);
    assert_eq!(c.state.load(Ordering::Relaxed), slot_state::FREE);
    assert_eq!(c.produced.load(Ordering::Relaxed), 0);
    for index in 0..BUFFERS {
        assert_eq!(c.buffers[index].words.load(Ordering::Relaxed), 0);
        let buffer = session.buffer(slot, index);
        assert!(buffer.iter().all(|w| w.load(Ordering::Relaxed) == 0));
    }
}

#[test]
fn definitions_come_before_the_records_that_need_them() {
    let session = Session::create(&OPTIONS).unwrap();
    // The data slot comes first, so its records meet unknown blocks.
    let data = Producer::claim(&session, 0, slot_kind::DATA, 1, 7);
    let definitions = Producer::claim(&session, 1, slot_kind::DEFINITIONS, 1, 0);
    definitions.write(0, &definition(64));
    definitions.publish(4);
    data.submit(&state_and_block(64, 0x100));
    let mut log = Log::default();
    let drained = with_drain(&session, &mut log, |drain| {
        assert!(drain.pass());
        assert!(!drain.pass());
        assert_eq!(data.control().consumed.load(Ordering::Relaxed), 1);
        // A second definition in the same buffer, and the next buffer of records.
        definitions.write(4, &definition(65));
        definitions.publish(8);
        data.submit(&state_and_block(65, 0x200));
        drain.pass();
    });
    assert!(drained.failure.is_none(), "{:?}", drained.failure);
    assert_eq!(log.order, "drdr");
    assert_eq!(log.defined, vec![64, 65]);
    assert_eq!(log.records[0], (7, state_and_block(64, 0x100).to_vec()));
    assert_eq!((drained.counts.reads, drained.counts.instructions), (4, 4));
    assert_eq!((drained.threads, drained.processes, drained.ring_words), (1, 1, 12));
}

#[test]
fn more_buffers_than_a_ring_holds_go_through_in_order() {
    let session = Session::create(&OPTIONS).unwrap();
    let definitions = Producer::claim(&session, 0, slot_kind::DEFINITIONS, 1, 0);
    let data = Producer::claim(&session, 1, slot_kind::DATA, 1, 0);
    definitions.submit(&definition(64));
    let mut log = Log::default();
    with_drain(&session, &mut log, |drain| {
        for i in 0..3 * BUFFERS as u64 {
            data.submit(&state_and_block(64, i));
            if i % 3 == 0 {
                drain.pass();
            }
        }
        drain.pass();
    });
    let values: Vec<u64> = log.records.iter().map(|(_, w)| w[5]).collect();
    assert_eq!(values, (0..3 * BUFFERS as u64).collect::<Vec<_>>());
}

#[test]
fn a_dead_process_leaves_whole_records_and_free_slots() {
    let session = Session::create(&OPTIONS).unwrap();
    let definitions = Producer::claim(&session, 0, slot_kind::DEFINITIONS, 5, 0);
    let data = Producer::claim(&session, 1, slot_kind::DATA, 5, 3);
    let other = Producer::claim(&session, 2, slot_kind::DATA, 6, 4);
    definitions.write(0, &definition(64));
    definitions.publish(4);
    data.submit(&state_and_block(64, 1));
    // Two more records in the current buffer; the last may be incomplete.
    data.write(0, &[64, 2, 64, 3]);
    other.write(0, &state_and_block(64, 9));
    let mut log = Log::default();
    let drained = with_drain(&session, &mut log, |drain| {
        drain.retire(5, false).unwrap();
        assert_free(&session, 0);
        assert_free(&session, 1);
        assert_eq!(other.control().state.load(Ordering::Relaxed), slot_state::ACTIVE);
    });
    assert_eq!(drained.lost_tail, 2, "one of each process");
    assert_eq!(log.records[0].1, state_and_block(64, 1).to_vec());
    assert_eq!(log.records[1].1, vec![64, 2]);
    assert_eq!(log.records[2].1, state_and_block(64, 9)[..4].to_vec());
}

/// Before an exec a thread closes its slot, and after it, or if it fails, writes to another.
#[test]
fn a_thread_that_execs_goes_on_counting() {
    let session = Session::create(&OPTIONS).unwrap();
    let definitions = Producer::claim(&session, 0, slot_kind::DEFINITIONS, 5, 0);
    definitions.write(0, &definition(64));
    definitions.publish(4);
    let mut log = Log::default();
    let drained = with_drain(&session, &mut log, |drain| {
        for round in 0..3 {
            let data = Producer::claim(&session, 1, slot_kind::DATA, 5, 3);
            data.write(0, &[&state_and_block(64, 1)[..], &[64, 2]].concat());
            data.control().state.store(slot_state::CLOSED, Ordering::Release);
            drain.pass();
            assert_free(&session, 1);
            if round == 1 {
                drain.retire(5, true).unwrap();
            }
        }
        assert_eq!(drain.decoders.len(), 1);
        drain.retire(5, false).unwrap();
        assert!(drain.decoders.is_empty());
    });
    // Two accesses a record; the last record counts where the next one shows that it was whole.
    assert_eq!(log.counts, [(0, 2), (2, 4), (6, 4)]);
    assert_eq!(drained.counts.accesses(), 12);
}

#[test]
fn a_thread_that_closes_its_slot_loses_nothing() {
    let session = Session::create(&OPTIONS).unwrap();
    let definitions = Producer::claim(&session, 0, slot_kind::DEFINITIONS, 5, 0);
    let data = Producer::claim(&session, 1, slot_kind::DATA, 5, 3);
    definitions.write(0, &definition(64));
    definitions.publish(4);
    data.write(0, &state_and_block(64, 1));
    data.control().state.store(slot_state::CLOSED, Ordering::Release);
    let mut log = Log::default();
    let drained = with_drain(&session, &mut log, |drain| {
        drain.pass();
        assert_free(&session, 1);
        // The slot serves another thread.
        Producer::claim(&session, 1, slot_kind::DATA, 5, 8).submit(&state_and_block(64, 2));
        drain.pass();
    });
    assert_eq!(drained.lost_tail, 0);
    let threads: Vec<u32> = log.records.iter().map(|r| r.0).collect();
    assert_eq!((threads, drained.threads), (vec![3, 8], 2));
}

#[test]
fn a_recording_that_ends_early_takes_what_is_there_and_touches_nothing() {
    for buffers in [2, BUFFERS] {
        let session = Session::create(&OPTIONS).unwrap();
        let definitions = Producer::claim(&session, 0, slot_kind::DEFINITIONS, 5, 0);
        let data = Producer::claim(&session, 1, slot_kind::DATA, 5, 3);
        definitions.write(0, &definition(64));
        definitions.publish(4);
        let mut log = Log::default();
        let drained = with_drain(&session, &mut log, |drain| {
            drain.pass();
            for i in 0..buffers as u64 {
                data.submit(&state_and_block(64, i));
            }
            if buffers < BUFFERS {
                data.write(0, &[64, 100, 64, 101]);
            }
            drain.last(1, data.control()).unwrap();
            // The second look, at the very end, must find nothing new to hand on.
            drain.seen[1].active = false;
            assert_eq!(data.control().consumed.load(Ordering::Relaxed), 0);
            data.control().state.store(slot_state::CLAIMING, Ordering::Relaxed);
        });
        assert!(drained.failure.is_none(), "{:?}", drained.failure);
        let values: Vec<u64> = log.records.iter().map(|(_, w)| w[w.len() - 1]).collect();
        let mut expected: Vec<u64> = (0..buffers as u64).collect();
        expected.extend((buffers < BUFFERS).then_some(100));
        assert_eq!(values, expected);
        assert_eq!(drained.lost_tail, u64::from(buffers < BUFFERS));
    }
}

#[test]
fn the_first_failure_sets_targets_free() {
    let nonsense = |words: &[u64], full: bool| {
        let session = Session::create(&OPTIONS).unwrap();
        let definitions = Producer::claim(&session, 0, slot_kind::DEFINITIONS, 5, 0);
        let data = Producer::claim(&session, 1, slot_kind::DATA, 5, 3);
        definitions.write(0, &definition(64));
        definitions.publish(4);
        data.submit(words);
        let mut log = Log { full, ..Log::default() };
        let drained = with_drain(&session, &mut log, |drain| {
            drain.pass();
        });
        let state = session.header().collector.load(Ordering::Relaxed);
        assert_eq!(state, memtrail_ring::collector::GONE);
        assert!(log.records.is_empty());
        drained.failure.unwrap()
    };
    let failure = nonsense(&[99, 0], false);
    assert!(matches!(
        failure,
        CollectError::Corrupt(DecodeError::UnknownBlock { id: 99 })
    ));
    let failure = nonsense(&[7], false);
    assert!(matches!(
        failure,
        CollectError::Corrupt(DecodeError::BadHead { head: 7, .. })
    ));
    let failure = nonsense(&state_and_block(64, 1), true);
    assert!(matches!(failure, CollectError::Store(_)));
}

#[test]
fn what_is_thrown_away_is_not_read() {
    let options = Options {
        discard: true,
        ..OPTIONS
    };
    let session = Session::create(&options).unwrap();
    let data = Producer::claim(&session, 0, slot_kind::DATA, 5, 3);
    data.write(0, &[12345, 1, 2, 3]);
    session.header().discarded_words.store(77, Ordering::Relaxed);
    let mut log = Log::default();
    let drained = with_drain(&session, &mut log, |drain| {
        drain.retire(5, false).unwrap();
    });
    assert!(drained.failure.is_none());
    assert_eq!(drained.ring_words, 77);
    assert_free(&session, 0);
}
