//! One timed run of one workload in one mode.

use super::workloads::Prepared;
use crate::process::{self, Job};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// How a workload is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Native,
    /// memtrail, records thrown away, the best probes there are.
    Loop,
    /// One record per basic block.
    Block,
    /// One record per access.
    Naive,
    /// Translation alone: what every translator must pay.
    None,
    /// Valgrind's translation alone.
    ValgrindNone,
    /// Valgrind counting every load and store.
    Lackey,
    /// Valgrind printing every access: what replaces memtrail today.
    LackeyTrace,
}

impl Mode {
    pub const ALL: &'static [(Mode, &'static str)] = &[
        (Mode::Native, "native"),
        (Mode::Loop, "loop"),
        (Mode::Block, "block"),
        (Mode::Naive, "naive"),
        (Mode::None, "none"),
        (Mode::ValgrindNone, "valgrind-none"),
        (Mode::Lackey, "lackey"),
        (Mode::LackeyTrace, "lackey-trace"),
    ];

    /// All but the last, which takes minutes where the others take seconds.
    pub const DEFAULT: &'static [Mode] = &[
        Mode::Native,
        Mode::Loop,
        Mode::Block,
        Mode::Naive,
        Mode::None,
        Mode::ValgrindNone,
        Mode::Lackey,
    ];

    pub fn name(self) -> &'static str {
        Mode::ALL
            .iter()
            .find(|(mode, _)| *mode == self)
            .map_or("?", |(_, name)| name)
    }

    pub fn by_name(name: &str) -> Option<Mode> {
        Mode::ALL
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(mode, _)| *mode)
    }

    /// The value of memtrail's `--probes`, where memtrail runs at all.
    pub fn probes(self) -> Option<&'static str> {
        matches!(self, Mode::Loop | Mode::Block | Mode::Naive | Mode::None).then(|| self.name())
    }

    pub fn is_peer(self) -> bool {
        matches!(self, Mode::ValgrindNone | Mode::Lackey | Mode::LackeyTrace)
    }

    fn valgrind_options(self) -> &'static [&'static str] {
        match self {
            Mode::ValgrindNone => &["--tool=none"],
            Mode::Lackey => &[
                "--tool=lackey",
                "--trace-mem=no",
                "--basic-counts=no",
                "--detailed-counts=yes",
            ],
            Mode::LackeyTrace => &[
                "--tool=lackey",
                "--trace-mem=yes",
                "--basic-counts=no",
                "--log-file=/dev/null",
            ],
            _ => &[],
        }
    }
}

/// Seconds of one run; for memtrail also what went through the ring.
#[derive(Clone, Debug)]
pub struct Sample {
    /// User + system time of the target and its children, without the collector.
    pub cpu: f64,
    /// From start to end as a user waits for it, collector included.
    pub wall: f64,
    pub ring_bytes: Option<u64>,
    pub records: Option<u64>,
}

/// Slow emulators on a busy machine still end before this.
const TIMEOUT: Duration = Duration::from_secs(900);

pub fn once(prepared: &Prepared, mode: Mode, dir: &Path, memtrail: Option<&Path>) -> Result<Sample, String> {
    let summary = dir.join("summary.json");
    let mut argv: Vec<String> = Vec::new();
    if let Some(probes) = mode.probes() {
        let memtrail = memtrail.ok_or("no recorder")?.display().to_string();
        let path = summary.display().to_string();
        argv.extend([
            memtrail,
            "record".into(),
            "--discard".into(),
            "--probes".into(),
            probes.into(),
        ]);
        argv.extend(["--summary".into(), path, "--".into()]);
        // A stale summary must not pass for this run's.
        let _ = std::fs::remove_file(&summary);
    } else if mode.is_peer() {
        argv.push("valgrind".into());
        argv.extend(mode.valgrind_options().iter().map(|o| o.to_string()));
    }
    argv.extend(prepared.argv.iter().cloned());

    let mut job = Job::new(&argv, &prepared.dir);
    job.timeout = TIMEOUT;
    job.env = prepared.env.clone();
    let errors = dir.join("stderr.txt");
    job.stderr = Some(errors.clone());
    let done = process::run(&job)?;
    if done.timed_out {
        return Err(format!("no end after {} s", TIMEOUT.as_secs()));
    }
    if !done.status.success() {
        let said = std::fs::read_to_string(&errors).unwrap_or_default();
        let last = said.lines().last().unwrap_or("").to_string();
        return Err(format!("status {}: {last}", done.status.0));
    }
    let wall = done.wall.as_secs_f64();
    if mode.probes().is_none() {
        return Ok(Sample {
            cpu: done.cpu.as_secs_f64(),
            wall,
            ring_bytes: None,
            records: None,
        });
    }
    let text = std::fs::read_to_string(&summary).map_err(|e| format!("{}: {e}", summary.display()))?;
    let json: Value = serde_json::from_str(&text).map_err(|e| format!("summary: {e}"))?;
    let number = |key: &str| {
        json.get(key)
            .and_then(Value::as_f64)
            .ok_or(format!("summary has no {key}"))
    };
    Ok(Sample {
        cpu: number("target_user_seconds")? + number("target_system_seconds")?,
        wall,
        ring_bytes: json.get("ring_words").and_then(Value::as_u64).map(|w| 8 * w),
        records: json.get("records").and_then(Value::as_u64),
    })
}
