//! `calibrate`: this machine as `stalls --core host` models it.
//!
//! What can be measured from outside is: the clock, the latency of each level and of memory, what
//! translation adds, how many misses go on at once, how fast lines come, what a wrong branch costs.
//! Sizes of caches are what the kernel tells. The rest (queues, ports, latencies of operations) is
//! that of the preset that comes nearest.
mod measure;

use crate::output;
use crate::say;
use crate::sim::choose::{this_machine, SYSFS};
use crate::stalls::cores::{host_file, HOST};
use anyhow::Context;
use clap::Args as ArgGroup;
use memtrail_simulate::config::Holds;
use memtrail_simulate::{Hierarchy, Level};
use memtrail_timing::presets::CorePreset;
use memtrail_timing::{CoreSpec, LevelSpec};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Memory for the measurements of memory, and how many times the last level that is at least.
const MOST_BYTES: u64 = 256 << 20;
const LEAST_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug, ArgGroup)]
pub struct CalibrateArgs {
    /// Write the description of the core here [default: where `stalls --core host` finds it].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print what was measured as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What was measured, in cycles but for the clock.
#[derive(Clone, Debug)]
struct Calibration {
    ghz: f64,
    /// From load to use, by level of data, then memory.
    latencies: Vec<f64>,
    /// What a page adds that the first, and that no translation buffer knows.
    walks: [f64; 2],
    parallelism: f64,
    transfer: f64,
    mispredict: f64,
}

pub fn command(args: &CalibrateArgs) -> anyhow::Result<u8> {
    let output = match &args.output {
        Some(path) => path.clone(),
        None => host_file().context("neither XDG_CACHE_HOME nor HOME says where to write; give -o FILE")?,
    };
    if let (None, Some(directory)) = (&args.output, output.parent()) {
        std::fs::create_dir_all(directory).with_context(|| output::cannot_write(directory))?;
    }
    output::check(Some(&output))?;
    let hierarchy = this_machine(Path::new(SYSFS))?;
    say::line(format_args!(
        "measuring; whatever else runs on this machine makes it look slower"
    ));
    let measured = measure(&hierarchy);
    let spec = describe(&hierarchy, &measured, &cpu());
    spec.check().context("what was measured makes no core")?;
    output::write(Some(&output), &spec.to_toml())?;
    let text = match args.json {
        true => format!("{:#}\n", measured.json(&hierarchy)),
        false => measured.text(&hierarchy),
    };
    output::write(None, &text)?;
    let core = match args.output {
        Some(_) => output.display().to_string(),
        None => HOST.to_string(),
    };
    say::line(format_args!("next: memtrail stalls --core {core} FILE"));
    Ok(0)
}

/// The name of the processor, as the kernel tells it.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or_else(|| "unknown".to_string(), |(_, name)| name.trim().to_string())
}

fn data_levels(hierarchy: &Hierarchy) -> impl Iterator<Item = &Level> {
    hierarchy
        .levels
        .iter()
        .filter(|level| level.holds != Holds::Instructions)
}

fn measure(hierarchy: &Hierarchy) -> Calibration {
    let ghz = measure::ghz();
    let mut latencies = Vec::new();
    let mut before = 0;
    for level in data_levels(hierarchy) {
        // Well within the level, and well beyond the one before.
        let bytes = (level.size / 2).min(before * 8).max(level.size / 4).max(before * 2);
        let bytes = if before == 0 {
            level.size / 2
        } else {
            bytes.min(level.size)
        };
        latencies.push(measure::latency(bytes as usize) * ghz);
        before = level.size;
    }
    let bytes = (4 * before).clamp(LEAST_BYTES, MOST_BYTES) as usize;
    latencies.push(measure::latency(bytes) * ghz);
    let first = latencies.first().copied().unwrap_or(0.0);
    let second = latencies.get(1).copied().unwrap_or(first);
    Calibration {
        walks: [
            (measure::page_latency(512) * ghz - first).max(0.0),
            (measure::page_latency(8192) * ghz - second).max(0.0),
        ],
        parallelism: measure::parallelism(bytes),
        transfer: measure::sweep(bytes) * ghz,
        mispredict: measure::mispredict() * ghz,
        latencies,
        ghz,
    }
}

/// A core of what was measured, and of a preset for the rest.
fn describe(hierarchy: &Hierarchy, measured: &Calibration, cpu: &str) -> CoreSpec {
    let nearest = if cpu.contains("Intel") { "golden-cove" } else { "zen5" };
    let preset = CorePreset::named(nearest).map(CorePreset::spec);
    // A test reads all presets.
    let Some(Ok(mut spec)) = preset else {
        unreachable!("the preset {nearest}")
    };
    let whole = |cycles: f64| cycles.round().clamp(0.0, 16000.0) as u32;
    spec.name = HOST.to_string();
    spec.about = format!("{cpu}, measured; queues and ports like {nearest}");
    spec.ghz = Some((measured.ghz * 1000.0).round() / 1000.0);
    let mut reached = 0;
    let mut number = 0;
    spec.level.clear();
    for level in &hierarchy.levels {
        let mut latency = 1;
        if level.holds != Holds::Instructions {
            latency = whole(measured.latencies[number]).saturating_sub(reached).max(1);
            reached += latency;
            number += 1;
        }
        spec.level.push(LevelSpec {
            cache: level.to_string(),
            latency,
        });
    }
    if let Some(load) = spec.class.get_mut("load") {
        load.latency = spec.level.first().map_or(1, |level| level.latency);
    }
    for (tlb, walk) in spec.tlb.iter_mut().zip(measured.walks) {
        tlb.miss = whole(walk);
    }
    let memory = whole(measured.latencies[number]).saturating_sub(reached).max(1);
    // A chase in random order finds rows closed; how much sooner an open one answers is not known.
    (spec.memory.open, spec.memory.closed) = (memory, memory);
    spec.memory.transfer = whole(measured.transfer).max(1);
    spec.mshrs = whole(measured.parallelism).max(1);
    spec.mispredict = whole(measured.mispredict).saturating_sub(2).max(1);
    spec
}

impl Calibration {
    /// The levels, and memory, with their latencies.
    fn named(&self, hierarchy: &Hierarchy) -> Vec<(String, f64)> {
        let names = data_levels(hierarchy).map(|level| level.name.clone());
        let names = names.chain(["memory".to_string()]);
        names.zip(self.latencies.iter().copied()).collect()
    }

    fn text(&self, hierarchy: &Hierarchy) -> String {
        let mut text = format!("{:<34}{:>8.2} GHz\n", "clock", self.ghz);
        let mut add = |what: &str, value: f64, unit: &str| text += &format!("{what:<34}{value:>8.1} {unit}\n");
        for (name, cycles) in self.named(hierarchy) {
            add(&format!("load to use, {name}"), cycles, "cycles");
        }
        add("more if the page is not at hand", self.walks[0], "cycles");
        add("more if it is nowhere", self.walks[1], "cycles");
        add("misses under way at once", self.parallelism, "");
        add("a line of a long sweep", self.transfer, "cycles");
        add("a branch that is not foreseen", self.mispredict, "cycles");
        text
    }

    fn json(&self, hierarchy: &Hierarchy) -> serde_json::Value {
        let levels = self.named(hierarchy).into_iter();
        let latencies: serde_json::Map<_, _> = levels.map(|(name, cycles)| (name, cycles.into())).collect();
        json!({
            "ghz": self.ghz,
            "latencies": latencies,
            "walks": self.walks,
            "parallelism": self.parallelism,
            "transfer": self.transfer,
            "mispredict": self.mispredict,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_simulate::short;

    #[test]
    fn a_core_is_made_of_what_was_measured() {
        let levels = [
            "L1D=32K:64:8:data",
            "L1I=32K:64:8:instructions",
            "L2=1M:64:16",
            "L3=16M:64:16:shared",
        ];
        let hierarchy = Hierarchy::of(short::levels(&levels).unwrap());
        let measured = Calibration {
            ghz: 3.5004,
            latencies: vec![4.1, 14.2, 50.6, 330.0],
            walks: [7.0, 21.4],
            parallelism: 23.6,
            transfer: 7.4,
            mispredict: 16.0,
        };
        let spec = describe(&hierarchy, &measured, "AMD Something");
        spec.check().unwrap();
        assert_eq!(CoreSpec::parse(&spec.to_toml()).unwrap(), spec);
        assert_eq!(spec.reached_after(|holds| holds.data()), [4, 14, 51]);
        assert_eq!((spec.memory.closed, spec.memory.transfer, spec.mshrs), (279, 7, 24));
        assert_eq!((spec.tlb[0].miss, spec.tlb[1].miss, spec.mispredict), (7, 21, 14));
        assert_eq!((spec.name.as_str(), spec.ghz), ("host", Some(3.5)));
    }
}
