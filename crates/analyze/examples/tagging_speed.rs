//! What tagging costs:
//! `cargo run --release -p memtrail-analyze --example tagging_speed [-- PROGRAM… | FILE.mtr…]`
//!
//! Made-up programs, played several times; the fastest counts, in processor time. Printed for each:
//! a name, nanoseconds for each access with paths and objects tracked, with objects only, with
//! paths only, and without a tagger; with tabs between. The last is what making up the accesses
//! takes: the costs are the differences. Of recordings, which are replayed once, also: without a
//! tagger but told of calls; nodes of the call tree, composites, living objects at the end.
use memtrail_analyze::objects::Options;
use memtrail_analyze::{Dimensions, Tagger};
use memtrail_model::{Access, AccessSink, Event, Flow, Kind, Note, Point, Thread, Wants};
use memtrail_replay::{accesses, Selection};
use memtrail_trace::{Known, Reader};
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::BufReader;

const RUNS: usize = 5;
/// Accesses that come at once at most, as in a replay.
const BATCH: usize = 512;
const THREAD: Thread = Thread(0);
const HEAP: u64 = 0x5555_0000_0000;
const STACK: u64 = 0x7ffd_0000_0000;

/// Does next to nothing.
#[derive(Default)]
struct Nothing(u64);

impl AccessSink for Nothing {
    fn accesses(&mut self, batch: &[Access]) {
        self.0 = batch
            .iter()
            .fold(self.0, |sum, access| sum ^ access.addr ^ u64::from(access.point.0));
    }
}

/// The same, and wants to know of calls.
struct Listener(Nothing);

impl AccessSink for Listener {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.accesses(batch);
    }
    fn wants(&self) -> Wants {
        Wants {
            flows: true,
            ..Wants::default()
        }
    }
}

/// Tells a sink what a program does.
struct Player<'a> {
    sink: &'a mut dyn AccessSink,
    batch: Vec<Access>,
    accesses: u64,
    random: u64,
}

impl Player<'_> {
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    #[inline]
    fn access(&mut self, point: u32, addr: u64) {
        self.batch.push(Access {
            pc: u64::from(point),
            addr,
            size: 8,
            point: Point(point),
            thread: THREAD,
            kind: if point % 4 == 3 { Kind::Write } else { Kind::Read },
        });
        if self.batch.len() == BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.accesses += self.batch.len() as u64;
        self.sink.accesses(&self.batch);
        self.batch.clear();
    }

    fn note(&mut self, note: Note) {
        self.flush();
        self.sink.event(Event::Note {
            thread: THREAD,
            number: 0,
            note: &note,
        });
    }

    fn alloc(&mut self, address: u64, bytes: u64) {
        let hook = 0;
        self.note(Note::Alloc { hook, address, bytes });
    }

    fn segment(&mut self, bytes: u64) {
        self.note(Note::Break { address: HEAP });
        self.note(Note::Break { address: HEAP + bytes });
    }

    fn call(&mut self, site: u64, slot: u64) {
        self.access(1000 + site as u32, slot);
        self.flush();
        self.follow(Flow::Call { site, target: 0, slot });
    }

    fn ret(&mut self, slot: u64) {
        self.access(2000, slot);
        self.flush();
        self.follow(Flow::Return { slot });
    }

    fn follow(&mut self, flow: Flow) {
        self.sink.event(Event::Flow { thread: THREAD, flow });
    }
}

/// Three arrays of 256 MB, walked through by four points.
fn arrays(player: &mut Player<'_>) {
    (0..3).for_each(|array| player.alloc(HEAP + (array << 28) + 16, 1 << 28));
    for i in 0..3_000_000 {
        for point in 0..4 {
            player.access(point, HEAP + (u64::from(point % 3) << 28) + 16 + i * 8);
        }
    }
}

/// Nodes of 40 bytes in the heap segment, visited at random.
fn nodes(player: &mut Player<'_>, nodes: u64) {
    player.segment(nodes * 48 + 16);
    (0..nodes).for_each(|node| player.alloc(HEAP + 16 + node * 48, 40));
    for _ in 0..2_000_000 {
        let node = HEAP + 16 + player.random(nodes) * 48;
        player.access(0, node);
        player.access(1, node + 8);
        player.access(2, node + 32);
        player.access(7, STACK - 64);
    }
}

/// Functions that call each other, each with a few accesses to the stack and to blocks.
fn functions(player: &mut Player<'_>) {
    (0..100).for_each(|block| player.alloc(HEAP + block * 256, 200));
    for _ in 0..150_000 {
        let depth = 1 + player.random(6);
        for level in 0..depth {
            let site = level * 10 + player.random(3);
            player.call(site, STACK - 64 * level);
            for point in 0..6 {
                let block = player.random(4) * 25 + u64::from(point);
                player.access(point, STACK - 64 * level - 8 * u64::from(point));
                player.access(100 + point, HEAP + block * 256 + 8 * u64::from(point));
            }
        }
        (0..depth).rev().for_each(|level| player.ret(STACK - 64 * level));
    }
}

/// Blocks that are made, used a little and given back: one is made or given back every six
/// accesses.
fn blocks(player: &mut Player<'_>) {
    player.segment(64 << 20);
    let mut live = [false; 4096];
    for _ in 0..500_000 {
        let slot = player.random(live.len() as u64) as usize;
        let address = HEAP + 16 + slot as u64 * 1024;
        live[slot] = !live[slot];
        if !live[slot] {
            player.note(Note::Free { hook: 1, address });
            continue;
        }
        let bytes = 24 + player.random(60) * 8;
        player.alloc(address, bytes);
        (0..3).for_each(|field| player.access(field, address + 8 * u64::from(field)));
        (0..8).for_each(|push| player.access(10 + push, STACK - 8 * u64::from(push)));
        player.access(20, address - 8);
    }
}

/// Nanoseconds this thread has run for.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0)
}

fn time<S: AccessSink>(program: fn(&mut Player<'_>), make: impl Fn() -> S) -> f64 {
    let once = |_| {
        let mut sink = make();
        sink.event(Event::Space {
            thread: THREAD,
            space: 0,
        });
        let mut player = Player {
            sink: &mut sink,
            batch: Vec::with_capacity(BATCH),
            accesses: 0,
            random: 1,
        };
        let begin = processor_time();
        program(&mut player);
        player.flush();
        let taken = (processor_time() - begin) / player.accesses as f64;
        black_box(&sink as *const S);
        taken
    };
    (0..RUNS).map(once).fold(f64::MAX, f64::min)
}

fn replay<S: AccessSink>(path: &str, mut sink: S) -> Result<(f64, S), Box<dyn Error>> {
    let mut reader = Reader::open(BufReader::new(File::open(path)?))?;
    let known = Known::read(&mut reader)?;
    let begin = processor_time();
    accesses(&mut reader, &known, &Selection::default(), &mut sink)?;
    let taken = processor_time() - begin;
    let all: u64 = known.streams.iter().map(|chunk| chunk.head.stream.accesses).sum();
    Ok((taken / all as f64, sink))
}

fn recording(path: &str) -> Result<(), Box<dyn Error>> {
    let tagged = |callpath, object| {
        let dimensions = Dimensions {
            callpath,
            object,
            thread: false,
            process: false,
        };
        replay(path, Tagger::new(Nothing::default(), dimensions, Options::default()))
    };
    let (both, mut tagger) = tagged(true, true)?;
    let (objects, paths) = (tagged(false, true)?.0, tagged(true, false)?.0);
    let (none, told) = (
        replay(path, Nothing::default())?.0,
        replay(path, Listener(Nothing::default()))?.0,
    );
    print!("{path}\t{both:.2}\t{objects:.2}\t{paths:.2}\t{none:.2}\t{told:.2}");
    let (nodes, composites) = (tagger.calls().tree().len(), tagger.keys().len());
    println!("\t{nodes}\t{composites}\t{}", tagger.objects().len());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    type Program = fn(&mut Player<'_>);
    let programs: [(&str, Program); 5] = [
        ("arrays", arrays),
        ("1000 nodes", |player| nodes(player, 1000)),
        ("200000 nodes", |player| nodes(player, 200_000)),
        ("functions", functions),
        ("blocks", blocks),
    ];
    println!("program\tboth\tobjects\tpaths\tnone");
    let only: Vec<String> = std::env::args().skip(1).collect();
    for path in only.iter().filter(|name| name.ends_with(".mtr")) {
        recording(path)?;
    }
    for (name, program) in programs {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        let tagged = |callpath, object| {
            let dimensions = Dimensions {
                callpath,
                object,
                thread: false,
                process: false,
            };
            time(program, || {
                Tagger::new(Nothing::default(), dimensions, Options::default())
            })
        };
        println!(
            "{name}\t{:.2}\t{:.2}\t{:.2}\t{:.2}",
            tagged(true, true),
            tagged(false, true),
            tagged(true, false),
            time(program, Nothing::default)
        );
    }
    Ok(())
}
