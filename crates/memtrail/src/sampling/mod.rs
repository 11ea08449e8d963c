//! `bbv`, `simpoints`, `estimate`: which intervals of a run stand for all of it, and what they say.
pub mod args;
mod intervals;

use crate::dump::replayed;
use crate::output;
use crate::say;
use crate::sim::choose::choose;
use anyhow::{bail, Context};
use args::{BbvArgs, ClusterArgs, EstimateArgs, SimpointArgs};
use intervals::Cut;
use memtrail_replay::{accesses, Point, Selection};
use memtrail_report::format::thousands;
use memtrail_report::json::SCHEMA_VERSION;
use memtrail_sampling::cluster::{clusters, Clusters, Search};
use memtrail_sampling::estimate::{estimate, Draw, Estimated, Observed};
use memtrail_sampling::vectors::{distance, projected, Projected};
use memtrail_simulate::{Hierarchy, Options, Simulator};
use serde_json::{json, Value};
use std::fmt::Write;

/// Basic-block vectors in the text form of the SimPoint tool: a line `T:block:instructions …` for
/// each interval.
pub fn bbv(args: &BbvArgs) -> anyhow::Result<u8> {
    output::check(args.output.as_deref())?;
    let cut = Cut::new(&args.intervals)?;
    let mut text = String::new();
    for interval in &cut.intervals {
        text.push('T');
        for (block, times) in &interval.vector.code {
            write!(text, ":{block}:{times} ")?;
        }
        text.push('\n');
    }
    let status = output::write(args.output.as_deref(), &text)?;
    say::line(format_args!(
        "{} intervals of {} instructions",
        thousands(cut.intervals.len() as u64),
        thousands(cut.length)
    ));
    Ok(status)
}

/// The clusters of a run's intervals, and the vectors they are made of.
fn clustered(cut: &Cut, args: &ClusterArgs) -> anyhow::Result<(Clusters, Vec<Projected>)> {
    let project = |i: &intervals::Interval| projected(&i.vector, args.by.into(), args.draw);
    let vectors: Vec<Projected> = cut.intervals.iter().map(project).collect();
    let search = Search {
        most: args.max,
        seed: args.draw,
        ..Search::default()
    };
    let found = clusters(&vectors, &search).context("there is no interval")?;
    Ok((found, vectors))
}

pub fn simpoints(args: &SimpointArgs) -> anyhow::Result<u8> {
    let cut = Cut::new(&args.intervals)?;
    let (found, vectors) = clustered(&cut, &args.cluster)?;
    let members = found.members();
    let members = members.iter().filter(|members| !members.is_empty());
    let weight = |members: &Vec<usize>| members.len() as f64 / cut.intervals.len() as f64;
    let mut points: Vec<(usize, f64)> = found
        .representatives(&vectors)
        .into_iter()
        .zip(members.map(weight))
        .collect();
    points.sort_unstable_by_key(|&(interval, _)| interval);
    if let Some(prefix) = &args.output {
        let file = |suffix: &str, line: &dyn Fn(usize, &(usize, f64)) -> String| {
            let lines: String = points.iter().enumerate().map(|(n, point)| line(n, point)).collect();
            let mut path = prefix.clone().into_os_string();
            path.push(suffix);
            output::write(Some(path.as_ref()), &lines)
        };
        file(".simpoints", &|n, (interval, _)| format!("{interval} {n}\n"))?;
        file(".weights", &|n, (_, weight)| format!("{weight:.6} {n}\n"))?;
    }
    let text = match args.json {
        true => {
            let point = |&(interval, weight): &(usize, f64)| {
                let at = &cut.intervals[interval];
                json!({"interval": interval, "weight": weight, "first_access": at.first, "accesses": at.accesses})
            };
            let value = json!({
                "schema_version": SCHEMA_VERSION,
                "interval": cut.length,
                "unit": "instructions",
                "intervals": cut.intervals.len(),
                "points": points.iter().map(point).collect::<Value>(),
            });
            format!("{value:#}\n")
        }
        false => {
            let (all, length) = (thousands(cut.intervals.len() as u64), thousands(cut.length));
            let mut text = format!(
                "{} of {all} intervals of {length} instructions stand for the run\n\n",
                points.len()
            );
            writeln!(text, "{:>10} {:>8} {:>18}", "interval", "weight", "first instruction")?;
            for &(interval, weight) in &points {
                let first = thousands(interval as u64 * cut.length);
                writeln!(text, "{interval:>10} {:>7.1}% {first:>18}", 100.0 * weight)?;
            }
            text
        }
    };
    let status = output::write(None, &text)?;
    if !args.json {
        say::line(format_args!(
            "next: memtrail estimate {}",
            args.intervals.file.display()
        ));
    }
    Ok(status)
}

/// What a level did in an interval, or in all.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    misses: u64,
    evictions: u64,
}

/// By level, so far.
fn seen(simulator: &Simulator) -> Vec<Seen> {
    let sum = |level: &memtrail_simulate::LevelCounts| {
        let all = || level.points.iter();
        Seen {
            misses: all().map(|counts| counts.misses).sum(),
            evictions: all().map(|counts| counts.evictions).sum(),
        }
    };
    simulator.counts().iter().map(sum).collect()
}

/// Simulates one interval after warming; by level, what is certain and what is possible. A miss
/// that filled an empty place might have been a hit, had the caches been as they were then; and
/// then no level behind would have been asked.
fn observe(cut: &mut Cut, hierarchy: &Hierarchy, interval: usize, warm: u64) -> anyhow::Result<Vec<Observed>> {
    let mut simulator = Simulator::new(hierarchy, Options::default())?;
    let (first, count) = (cut.intervals[interval].first, cut.intervals[interval].accesses);
    let mut replay = |from: u64, to: u64, simulator: &mut Simulator| {
        let selection = Selection {
            from: Some(Point::Access(from)),
            to: Some(Point::Access(to)),
            ..cut.selection
        };
        match from < to {
            true => replayed(accesses(&mut cut.reader, &cut.known, &selection, simulator)),
            false => Ok(()),
        }
    };
    replay(first.saturating_sub(warm), first, &mut simulator)?;
    let before = seen(&simulator);
    replay(first, first + count, &mut simulator)?;
    let mut unknown = 0;
    let all = seen(&simulator).into_iter().enumerate().map(|(level, after)| {
        let before = before.get(level).copied().unwrap_or_default();
        let (misses, evictions) = (after.misses - before.misses, after.evictions - before.evictions);
        let least = misses.min(evictions).saturating_sub(unknown);
        unknown += misses.saturating_sub(evictions);
        Observed {
            least: least as f64,
            most: misses as f64,
        }
    });
    Ok(all.collect())
}

pub fn command(args: &EstimateArgs) -> anyhow::Result<u8> {
    let chosen = choose(&args.caches)?;
    let mut cut = Cut::new(&args.intervals)?;
    if !cut.of_one_thread {
        bail!(
            "the recording has several threads, and intervals are found by a thread's accesses: pick one with --thread"
        );
    }
    let (found, vectors) = clustered(&cut, &args.cluster)?;
    let strata: Vec<Vec<usize>> = found
        .members()
        .into_iter()
        .filter(|members| !members.is_empty())
        .collect();
    let spread = |members: &Vec<usize>| {
        let far = |&i: &usize| distance(&vectors[i], &found.centres[found.of[i]]);
        (members.iter().map(far).sum::<f64>() / members.len() as f64).sqrt()
    };
    let spreads: Vec<f64> = strata.iter().map(spread).collect();
    let draw = Draw::new(&strata, &spreads, args.sample, args.cluster.draw);
    let mean = cut.accesses() / cut.intervals.len() as u64;
    let warm = args.warm.unwrap_or(mean);
    // By stratum, interval, level.
    let mut observed: Vec<Vec<Vec<Observed>>> = Vec::new();
    for stratum in &draw.drawn {
        let one = stratum
            .iter()
            .map(|&interval| observe(&mut cut, &chosen.hierarchy, interval, warm));
        observed.push(one.collect::<anyhow::Result<_>>()?);
    }
    let levels = chosen.hierarchy.levels.len();
    let of_level = |level: usize| {
        let stratum = |intervals: &Vec<Vec<Observed>>| intervals.iter().map(|levels| levels[level]).collect();
        estimate(&draw, &observed.iter().map(stratum).collect::<Vec<Vec<Observed>>>())
    };
    let estimates: Vec<Estimated> = (0..levels).map(of_level).collect();
    let exact = match args.exact {
        true => {
            let mut simulator = Simulator::new(&chosen.hierarchy, Options::default())?;
            replayed(accesses(&mut cut.reader, &cut.known, &cut.selection, &mut simulator))?;
            Some(seen(&simulator))
        }
        false => None,
    };
    tell(args, &cut, &chosen.hierarchy, &draw, &estimates, exact.as_deref())
}

fn tell(
    args: &EstimateArgs,
    cut: &Cut,
    hierarchy: &Hierarchy,
    draw: &Draw,
    estimates: &[Estimated],
    exact: Option<&[Seen]>,
) -> anyhow::Result<u8> {
    let drawn = draw.all();
    let simulated: u64 = drawn.iter().map(|&i| cut.intervals[i].accesses).sum();
    let names = || hierarchy.levels.iter().map(|level| level.name.as_str());
    let truth = |level: usize| exact.map(|exact| exact[level].misses);
    if args.json {
        let level = |(at, (name, e)): (usize, (&str, &Estimated))| json!({"name": name, "misses": e.total, "low": e.low, "high": e.high, "exact": truth(at)});
        let value = json!({
            "schema_version": SCHEMA_VERSION,
            "interval": cut.length,
            "intervals": cut.intervals.len(),
            "clusters": draw.sizes.len(),
            "sampled": drawn.len(),
            "accesses": cut.accesses(),
            "simulated": simulated,
            "confidence": 0.95,
            "levels": names().zip(estimates).enumerate().map(level).collect::<Value>(),
        });
        return output::write(None, &format!("{value:#}\n"));
    }
    let mut text = format!(
        "{} of {} intervals of {} instructions, from {} clusters: {:.1}% of all accesses\n\n",
        drawn.len(),
        thousands(cut.intervals.len() as u64),
        thousands(cut.length),
        draw.sizes.len(),
        100.0 * simulated as f64 / cut.accesses().max(1) as f64
    );
    writeln!(
        text,
        "{:<8} {:>16}   {:<36} {}",
        "level",
        "misses",
        "95% of such samples hold the truth",
        if exact.is_some() { "exact" } else { "" }
    )?;
    for (at, (name, e)) in names().zip(estimates).enumerate() {
        let range = format!("{} .. {}", thousands(e.low as u64), thousands(e.high.ceil() as u64));
        let truth = truth(at).map_or(String::new(), |truth| {
            let off = 100.0 * (e.total / truth.max(1) as f64 - 1.0);
            format!("{} ({off:+.1}%)", thousands(truth))
        });
        writeln!(
            text,
            "{name:<8} {:>16}   {range:<36} {truth}",
            thousands(e.total as u64)
        )?;
    }
    let status = output::write(None, &text)?;
    say::line("the interval covers chance and what the caches held before each interval; --sample N narrows it");
    Ok(status)
}
