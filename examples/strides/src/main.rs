//! How regular is each reference point? For the busiest ones: the stride that most of its accesses
//! come at, and how many do.
//!
//! An example of an analysis on top of memtrail's crates. All there is to it: a sink for accesses,
//! and a replay into it.
use memtrail_model::{Access, AccessSink, Event, Reply, Wants};
use memtrail_replay::{accesses, Selection};
use memtrail_trace::{Known, Reader};
use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::BufReader;

/// What is known of a reference point.
#[derive(Default)]
struct Walk {
    accesses: u64,
    last: Option<u64>,
    /// How often the address moved by so much.
    strides: HashMap<i64, u64>,
}

impl Walk {
    fn step(&mut self, addr: u64) {
        if let Some(last) = self.last.replace(addr) {
            *self.strides.entry(addr.wrapping_sub(last) as i64).or_default() += 1;
        }
        self.accesses += 1;
    }

    /// The stride seen most, and what share of all moves it is.
    fn usual(&self) -> Option<(i64, f64)> {
        let (&stride, &times) = self.strides.iter().max_by_key(|&(&stride, &times)| (times, stride))?;
        let moves: u64 = self.strides.values().sum();
        Some((stride, times as f64 / moves as f64))
    }
}

/// The sink: by reference point, which are numbered from 0.
#[derive(Default)]
struct Strides(Vec<Walk>);

impl Strides {
    fn point(&mut self, point: usize) -> &mut Walk {
        if self.0.len() <= point {
            self.0.resize_with(point + 1, Walk::default);
        }
        &mut self.0[point]
    }
}

impl AccessSink for Strides {
    fn accesses(&mut self, batch: &[Access]) {
        for access in batch {
            self.point(access.point.index()).step(access.addr);
        }
    }

    fn wants(&self) -> Wants {
        Wants {
            loops: Some(0),
            ..Wants::default()
        }
    }

    /// A loop, whole: what it does to the counts takes no longer for a billion iterations than for
    /// two.
    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return Reply::NOTHING;
        };
        let same = |i: usize| run.body[..i].iter().any(|other| other.point == run.body[i].point);
        if (0..run.body.len()).any(same) {
            // A point twice in one iteration: let it come access by access.
            return Reply::NOTHING;
        }
        for access in run.body {
            let walk = self.point(access.point.index());
            walk.step(access.addr);
            let more = run.trips - 1;
            if more > 0 {
                *walk.strides.entry(access.stride as i64).or_default() += more;
                walk.accesses += more;
                walk.last = Some(access.addr.wrapping_add(more.wrapping_mul(access.stride)));
            }
        }
        Reply::skip(run.trips)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: strides FILE.mtr")?;
    let mut reader = Reader::open(BufReader::new(File::open(path)?))?;
    let known = Known::read(&mut reader)?;
    let mut strides = Strides::default();
    accesses(&mut reader, &known, &Selection::default(), &mut strides)?;

    let mut rows: Vec<_> = known.table.points().iter().zip(&strides.0).collect();
    rows.sort_by_key(|(_, walk)| std::cmp::Reverse(walk.accesses));
    for (point, walk) in rows.into_iter().take(20).filter(|(_, walk)| walk.accesses > 0) {
        let name = known.table.images().place(point.code);
        let usual = walk
            .usual()
            .map_or_else(String::new, |(stride, share)| format!("{stride:+} {share:.3}"));
        println!("{name} {} {} {usual}", point.kind, walk.accesses);
    }
    Ok(())
}
