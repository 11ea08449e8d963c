//! The report as JSON.
use super::args::SharingArgs;
use super::findings::{Finding, Saving, User, WouldShare};
use super::run::Between;
use super::Report;
use crate::args::ThreadOrder;
use memtrail_coherence::{Geometry, Protocol, SharingCounts};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

pub fn json(report: &Report<'_>, args: &SharingArgs) -> Value {
    let found = report.found;
    let t = &found.real.totals;
    let caches = |all: &[Geometry]| -> Value {
        let cache = |g: &Geometry| json!({ "size": g.size, "ways": g.ways });
        all.iter().map(cache).collect()
    };
    let top = args.top.unwrap_or(usize::MAX);
    let falsely = report.findings.iter().filter(|finding| finding.is_false()).count();
    json!({
        "file": report.file,
        "protocol": match found.config.protocol {
            Protocol::Mesi => "mesi",
            Protocol::Moesi => "moesi",
        },
        "cores": found.config.cores,
        "line_bytes": found.config.line,
        "private": caches(&found.config.private),
        "shared": caches(&found.config.shared),
        "config": found.measured.source,
        "accesses": t.accesses,
        "misses": t.misses,
        "coherence_misses": t.coherence_misses(),
        "true_misses": t.true_misses,
        "false_misses": t.false_misses,
        "invalidations": t.invalidations,
        "upgrades": t.upgrades,
        "transfers": t.transfers,
        "write_backs": t.write_backs,
        "order": match report.order {
            ThreadOrder::Equal => "equal",
            ThreadOrder::Time => "time",
        },
        "other_order": report.other.map(|misses| json!({ "coherence_misses": misses })),
        "range": report.range.map(range),
        "min": report.min,
        "left_out": report.left_out,
        "falsely_shared": falsely,
        "truly_shared": report.findings.len() - falsely,
        "lines": report.findings.iter().take(top).map(line).collect::<Vec<_>>(),
        "objects": by(report, Finding::object_of),
        "fields": by(report, |_, user| user.member.clone()),
        "references": by(report, |_, user| match &user.source {
            Some(source) => format!("{source}, {}", user.place),
            None => user.place.clone(),
        }),
        "pairs": pairs(report),
        "would_share": {
            "wide": report.wide.iter().map(would).collect::<Vec<_>>(),
            "shifted": report.shifted.iter().map(would).collect::<Vec<_>>(),
            "tried": report.others,
        },
    })
}

impl Finding {
    /// The object that someone uses bytes of.
    fn object_of(&self, user: &User) -> String {
        let address = self.address + user.offset;
        let there = self
            .objects
            .iter()
            .find(|i| (i.placed.first..=i.placed.last).contains(&address));
        there.map_or_else(|| "[unknown]".to_string(), |i| i.object.name.clone())
    }
}

fn between(range: Between) -> Value {
    json!([range.least, range.most])
}

fn range((misses, invalidations): (Between, Between)) -> Value {
    json!({ "coherence_misses": between(misses), "invalidations": between(invalidations) })
}

fn counts(c: &SharingCounts) -> Map<String, Value> {
    let all = [
        ("coherence_misses", c.coherence_misses()),
        ("true_misses", c.true_misses),
        ("false_misses", c.false_misses),
        ("invalidations", c.invalidations),
        ("upgrades", c.upgrades),
        ("transfers", c.transfers),
        ("accesses", c.accesses),
    ];
    all.into_iter().map(|(name, n)| (name.to_string(), n.into())).collect()
}

fn with(mut object: Value, c: &SharingCounts) -> Value {
    if let Value::Object(map) = &mut object {
        map.extend(counts(c));
    }
    object
}

fn saving(saving: Saving) -> Value {
    json!({ "before": saving.before, "after": saving.after })
}

fn line(finding: &Finding) -> Value {
    let objects: Vec<Value> = finding
        .objects
        .iter()
        .map(|i| {
            json!({
                "name": i.object.name,
                "kind": i.object.kind,
                "type": i.object.ty,
                "address": i.placed.address,
                "bytes": i.placed.bytes,
                "file": i.object.line.as_ref().map(|line| &line.file),
                "line": i.object.line.as_ref().map(|line| line.line),
                "from": i.placed.first - finding.address,
                "to": i.placed.last + 1 - finding.address,
            })
        })
        .collect();
    let took = finding.pairs.iter().map(|(pair, c)| {
        json!({
            "writer": pair.writer.0,
            "loser": pair.loser.0,
            "true_misses": c.true_misses,
            "false_misses": c.false_misses,
        })
    });
    let object = json!({
        "address": finding.address,
        "process": finding.space,
        "object": finding.object(),
        "kind": finding.kind(),
        "threads": finding.threads(),
        "objects": objects,
        "users": finding.users.iter().map(user).collect::<Vec<_>>(),
        "pairs": took.collect::<Vec<_>>(),
        "range": finding.range.map(range),
        "padded": finding.padded.map(saving),
        "aligned": finding.aligned.map(saving),
    });
    with(object, &finding.counts)
}

fn user(user: &User) -> Value {
    let object = json!({
        "thread": user.thread,
        "offset": user.offset,
        "bytes": user.bytes,
        "member": user.member,
        "reference": user.source,
        "function": user.function,
        "file": user.file,
        "line": user.line,
        "reads": user.reads,
        "writes": user.writes,
    });
    with(object, &user.counts)
}

/// Sums over all lines that are shown.
fn by(report: &Report<'_>, key: impl Fn(&Finding, &User) -> String) -> Vec<Value> {
    let mut sums: BTreeMap<String, SharingCounts> = BTreeMap::new();
    for finding in &report.findings {
        for user in &finding.users {
            *sums.entry(key(finding, user)).or_default() += user.counts;
        }
    }
    let mut sums: Vec<(String, SharingCounts)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, c)| std::cmp::Reverse(c.coherence_misses()));
    sums.iter().map(|(name, c)| with(json!({ "name": name }), c)).collect()
}

/// The same by who took a line from whom.
fn pairs(report: &Report<'_>) -> Vec<Value> {
    let mut sums: BTreeMap<_, SharingCounts> = BTreeMap::new();
    for (pair, c) in report.findings.iter().flat_map(|finding| &finding.pairs) {
        *sums.entry(*pair).or_default() += *c;
    }
    let pair = |(pair, c): (&memtrail_coherence::Pair, &SharingCounts)| {
        json!({
            "writer": pair.writer.0,
            "loser": pair.loser.0,
            "coherence_misses": c.coherence_misses(),
            "true_misses": c.true_misses,
            "false_misses": c.false_misses,
        })
    };
    sums.iter().map(pair).collect()
}

fn would(line: &WouldShare) -> Value {
    json!({
        "address": line.address,
        "process": line.space,
        "bytes": line.bytes,
        "object": line.object,
        "false_misses": line.false_misses,
    })
}
