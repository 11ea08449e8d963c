//! What tagging costs: `cargo run --release -p memtrail-analyze --example tagging_speed`
//!
//! Made-up programs, in memory, played several times; the fastest counts. Printed for each: a name, nanoseconds for each access with paths and objects tracked, with objects only, with paths only, and
//! of handing the accesses over without a tagger; with tabs between.
use memtrail_analyze::objects::Options;
use memtrail_analyze::{Dimensions, Tagger};
use memtrail_model::{Access, AccessSink, Flow, Kind, Note, Point, Thread};
use std::hint::black_box;
use std::time::Instant;

const RUNS: usize = 5;
const THREAD: Thread = Thread(0);
const HEAP: u64 = 0x5555_0000_0000;
const STACK: u64 = 0x7ffd_0000_0000;

/// Does next to nothing.
#[derive(Default)]
struct Nothing(u64);

impl AccessSink for Nothing {
    fn accesses(&mut self, batch: &[Access]) {
        self.0 ^= batch
            .iter()
            .fold(0, |sum, access| sum ^ access.addr ^ u64::from(access.point.0));
    }
}

enum Event {
    Accesses(Vec<Access>),
    Flow(Flow),
    Note(Note),
}

#[derive(Default)]
struct Program {
    events: Vec<Event>,
    accesses: u64,
    random: u64,
}

impl Program {
    fn random(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn access(&mut self, point: u32, addr: u64) {
        let access = Access {
            pc: u64::from(point),
            addr,
            size: 8,
            point: Point(point),
            thread: THREAD,
            kind: if point % 4 == 3 { Kind::Write } else { Kind::Read },
        };
        self.accesses += 1;
        match self.events.last_mut() {
            Some(Event::Accesses(batch)) if batch.len() < 512 => batch.push(access),
            _ => self.events.push(Event::Accesses(vec![access])),
        }
    }

    fn alloc(&mut self, address: u64, bytes: u64) {
        self.events.push(Event::Note(Note::Alloc {
            hook: 0,
            address,
            bytes,
        }));
    }

    fn call(&mut self, site: u64, slot: u64) {
        self.access(1000 + site as u32, slot);
        self.events.push(Event::Flow(Flow::Call { site, target: 0, slot }));
    }

    fn ret(&mut self, slot: u64) {
        self.access(2000, slot);
        self.events.push(Event::Flow(Flow::Return { slot }));
    }

    fn play(&self, sink: &mut impl AccessSink) {
        sink.space(THREAD, 0);
        for event in &self.events {
            match event {
                Event::Accesses(batch) => sink.accesses(batch),
                Event::Flow(flow) => sink.flows(THREAD, *flow),
                Event::Note(note) => sink.notes(THREAD, note),
            }
        }
    }
}

/// Three arrays of 256 MB, walked through by four points.
fn arrays() -> Program {
    let mut program = Program::default();
    (0..3).for_each(|array| program.alloc(HEAP + (array << 28) + 16, 1 << 28));
    for i in 0..2_000_000 {
        for point in 0..4 {
            program.access(point, HEAP + (u64::from(point % 3) << 28) + 16 + i * 8);
        }
    }
    program
}

/// A list of 200 000 nodes of 40 bytes, at random places of the heap segment.
fn list() -> Program {
    const NODES: u64 = 200_000;
    let mut program = Program::default();
    program.events.push(Event::Note(Note::Break { address: HEAP }));
    program.events.push(Event::Note(Note::Break {
        address: HEAP + NODES * 48 + 16,
    }));
    (0..NODES).for_each(|node| program.alloc(HEAP + 16 + node * 48, 40));
    for _ in 0..2_000_000 {
        let node = HEAP + 16 + program.random(NODES) * 48;
        program.access(0, node);
        program.access(1, node + 8);
        program.access(2, node + 32);
        program.access(7, STACK - 64);
    }
    program
}

/// Small functions that call each other, each with a few accesses to the stack and to blocks.
fn functions() -> Program {
    let mut program = Program::default();
    (0..100).for_each(|block| program.alloc(HEAP + block * 256, 200));
    for _ in 0..150_000 {
        let depth = 1 + program.random(6);
        for level in 0..depth {
            let site = level * 10 + program.random(3);
            program.call(site, STACK - 64 * level);
            for point in 0..6 {
                let block = program.random(4) * 25 + u64::from(point);
                program.access(point, STACK - 64 * level - 8 * u64::from(point));
                program.access(100 + point, HEAP + block * 256 + 8 * u64::from(point));
            }
        }
        (0..depth).rev().for_each(|level| program.ret(STACK - 64 * level));
    }
    program
}

/// Blocks that are made, used a little and given back.
fn blocks() -> Program {
    let mut program = Program::default();
    program.events.push(Event::Note(Note::Break { address: HEAP }));
    program.events.push(Event::Note(Note::Break {
        address: HEAP + (64 << 20),
    }));
    let mut live = [0; 4096];
    for _ in 0..500_000 {
        let slot = program.random(live.len() as u64) as usize;
        let address = HEAP + 16 + slot as u64 * 1024;
        if std::mem::replace(&mut live[slot], 1) == 1 {
            program.events.push(Event::Note(Note::Free { hook: 1, address }));
            live[slot] = 0;
            continue;
        }
        let bytes = 24 + program.random(60) * 8;
        program.alloc(address, bytes);
        (0..3).for_each(|field| program.access(field, address + 8 * u64::from(field)));
        (0..8).for_each(|push| program.access(10 + push, STACK - 8 * u64::from(push)));
        program.access(20, address - 8);
    }
    program
}

fn time<S: AccessSink>(program: &Program, make: impl Fn() -> S) -> f64 {
    let once = || {
        let mut sink = make();
        let begin = Instant::now();
        program.play(&mut sink);
        let taken = begin.elapsed().as_nanos() as f64;
        black_box(&sink as *const S);
        taken
    };
    let best = (0..RUNS).map(|_| once()).fold(f64::MAX, f64::min);
    best / program.accesses as f64
}

fn main() {
    type Make = fn() -> Program;
    let programs: [(&str, Make); 4] = [
        ("arrays", arrays),
        ("list", list),
        ("functions", functions),
        ("blocks", blocks),
    ];
    println!("program\tboth\tobjects\tpaths\tnone");
    for (name, make) in programs {
        let program = make();
        let tagged = |callpath, object| {
            let dimensions = Dimensions {
                callpath,
                object,
                thread: false,
            };
            time(&program, || {
                Tagger::new(Nothing::default(), dimensions, Options::default())
            })
        };
        println!(
            "{name}\t{:.2}\t{:.2}\t{:.2}\t{:.2}",
            tagged(true, true),
            tagged(false, true),
            tagged(true, false),
            time(&program, Nothing::default)
        );
    }
}
