//! What a reviewer wants to know of a line: what lies in it, who uses which bytes from where.
use super::run::{Found, Placed, Range};
use crate::tables::objects::{busy_calls, named};
use crate::tables::references;
use memtrail_coherence::{Moved, Moves, Pair, SharedLine, Sharing, SharingCounts};
use memtrail_report::format::base;
use memtrail_report::{Object, Reference};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of a line that the same threads use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub offset: u64,
    pub bytes: u64,
    pub threads: BTreeSet<u32>,
}

/// What one thread does to bytes of a line from one place in the source.
#[derive(Clone, Debug, Default)]
pub struct User {
    pub thread: u32,
    pub offset: u64,
    pub bytes: u64,
    /// `counters[1].hits`.
    pub member: String,
    /// The source expression, if there is one.
    pub source: Option<String>,
    /// `work (a.c:17)`.
    pub place: String,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub reads: u64,
    pub writes: u64,
    pub counts: SharingCounts,
}

/// What stands in one place of a line.
#[derive(Clone, Debug)]
pub struct Inhabitant {
    pub placed: Placed,
    pub object: Object,
}

/// Coherence misses, and those that another layout leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saving {
    pub before: u64,
    pub after: u64,
}

/// A line, as it is shown.
#[derive(Clone, Debug)]
pub struct Finding {
    pub space: u32,
    pub address: u64,
    pub counts: SharingCounts,
    pub objects: Vec<Inhabitant>,
    pub runs: Vec<Run>,
    pub users: Vec<User>,
    pub pairs: Vec<(Pair, SharingCounts)>,
    pub range: Option<Range>,
    /// What is left if each run has lines of its own.
    pub padded: Option<Saving>,
    /// If the objects begin with a line; of all findings of these objects.
    pub aligned: Option<Saving>,
}

impl Finding {
    pub fn is_false(&self) -> bool {
        self.counts.false_misses > self.counts.true_misses
    }

    pub fn kind(&self) -> &'static str {
        match self.is_false() {
            true => "false",
            false => "true",
        }
    }

    pub fn threads(&self) -> BTreeSet<u32> {
        self.users.iter().map(|user| user.thread).collect()
    }

    /// What the line is called: the objects in it that are taken from a thread, the worst first.
    pub fn object(&self) -> String {
        let mut names: BTreeMap<&str, u64> = BTreeMap::new();
        for user in &self.users {
            let address = self.address + user.offset;
            let inside = |i: &&Inhabitant| (i.placed.first..=i.placed.last).contains(&address);
            let taken = user.counts.coherence_misses() + user.counts.invalidations;
            if let Some(there) = self.objects.iter().find(inside).filter(|_| taken > 0) {
                *names.entry(there.object.name.as_str()).or_default() += taken;
            }
        }
        let mut names: Vec<(&str, u64)> = names.into_iter().collect();
        names.sort_by_key(|(_, taken)| std::cmp::Reverse(*taken));
        let names: Vec<&str> = names.into_iter().map(|(name, _)| name).collect();
        match names.is_empty() {
            true => "[unknown]".to_string(),
            false => names.join(", "),
        }
    }
}

/// Where a line would be shared falsely that this run did not share.
#[derive(Clone, Debug)]
pub struct WouldShare {
    pub space: u32,
    pub address: u64,
    pub bytes: u64,
    pub object: String,
    pub false_misses: u64,
}

/// Makes findings of what was found.
pub struct Finder<'a> {
    found: &'a Found,
    references: Vec<Reference>,
    objects: HashMap<u32, Object>,
}

impl<'a> Finder<'a> {
    pub fn new(found: &'a Found) -> Finder<'a> {
        let measured = &found.measured;
        let mut used = vec![false; measured.points.len()];
        for (by, _) in found.real.lines.iter().flat_map(|line| &line.uses) {
            let point = measured.keys.get(by.point.index()).map(|key| key.point.index());
            point
                .and_then(|point| used.get_mut(point))
                .into_iter()
                .for_each(|used| *used = true);
        }
        let busy = busy_calls(measured);
        let groups = found
            .all_objects()
            .map(|placed| placed.group)
            .collect::<BTreeSet<u32>>();
        Finder {
            found,
            references: references::names_of(measured, &used),
            objects: groups
                .into_iter()
                .map(|group| (group, named(measured, group, &busy)))
                .collect(),
        }
    }

    /// What an address is called.
    fn member(&self, objects: &[Placed], address: u64) -> String {
        let Some(placed) = objects.iter().find(|p| (p.first..=p.last).contains(&address)) else {
            return format!("{address:#x}");
        };
        let offset = address.wrapping_sub(placed.address);
        let name = self.objects.get(&placed.group).map_or("", |object| &object.name);
        let variable = self.found.measured.statics.variables.get(&placed.group);
        match variable.and_then(|variable| variable.ty.as_ref()) {
            Some(ty) => ty.path(name, offset, true),
            None if offset == 0 => name.to_string(),
            None => format!("{name}+{offset}"),
        }
    }

    pub fn finding(&self, line: &SharedLine) -> Finding {
        let placed = self
            .found
            .objects(line.space, line.address, self.found.config.line.into());
        let inhabitant = |placed: &Placed| Inhabitant {
            placed: *placed,
            object: self.objects.get(&placed.group).cloned().unwrap_or_default(),
        };
        Finding {
            space: line.space,
            address: line.address,
            counts: line.counts,
            objects: placed.iter().map(inhabitant).collect(),
            runs: runs(line),
            users: self.users(line, &placed),
            pairs: line.pairs.clone(),
            range: None,
            padded: None,
            aligned: None,
        }
    }

    /// Who uses which bytes, in the order of bytes, then of threads, the busiest place first.
    fn users(&self, line: &SharedLine, placed: &[Placed]) -> Vec<User> {
        let mut users: BTreeMap<(u8, u8, u32, String), User> = BTreeMap::new();
        for (by, counts) in &line.uses {
            let key = self.found.measured.keys.get(by.point.index());
            let reference = key.and_then(|key| self.references.get(key.point.index()));
            let place = reference.map_or_else(String::new, place);
            let user = users
                .entry((by.offset, by.size, by.thread.0, place.clone()))
                .or_insert_with(|| User {
                    thread: by.thread.0,
                    offset: by.offset.into(),
                    bytes: by.size.into(),
                    member: self.member(placed, line.address + u64::from(by.offset)),
                    function: reference.and_then(|r| r.function.clone()),
                    file: reference.and_then(|r| r.file.clone()),
                    line: reference.and_then(|r| r.line),
                    place,
                    ..User::default()
                });
            match by.write {
                true => user.writes += counts.accesses,
                false => user.reads += counts.accesses,
            }
            let source = reference.and_then(|r| r.source.clone());
            user.source = user.source.take().or(source);
            user.counts += *counts;
        }
        let mut users: Vec<User> = users.into_values().collect();
        users.sort_by_key(|u| (u.offset, u.thread, std::cmp::Reverse(u.counts.accesses)));
        users
    }

    /// Lines of another machine that are falsely shared, of which no byte lies in a line that this
    /// run shared falsely. `back`: how far its addresses are too high.
    pub fn would_share(
        &self,
        other: &Sharing,
        (bytes, back): (u64, u64),
        findings: &[Finding],
        min: u64,
    ) -> Vec<WouldShare> {
        let line_bytes = u64::from(self.found.config.line);
        let shared: BTreeSet<(u32, u64)> = findings
            .iter()
            .filter(|finding| finding.is_false())
            .map(|finding| (finding.space, finding.address / line_bytes))
            .collect();
        let mut would: Vec<WouldShare> = Vec::new();
        for line in &other.lines {
            let address = line.address.wrapping_sub(back);
            let counts = line.counts;
            let end = address.saturating_add(bytes);
            let known = (address / line_bytes..end.div_ceil(line_bytes)).any(|at| shared.contains(&(line.space, at)));
            if known || counts.false_misses < min || counts.false_misses <= counts.true_misses {
                continue;
            }
            let mut names: Vec<&str> = self
                .found
                .objects(line.space, address, bytes)
                .iter()
                .filter_map(|placed| self.objects.get(&placed.group))
                .map(|object| object.name.as_str())
                .collect();
            names.dedup();
            would.push(WouldShare {
                space: line.space,
                address,
                bytes,
                object: names.join(", "),
                false_misses: counts.false_misses,
            });
        }
        would.sort_by_key(|line| std::cmp::Reverse(line.false_misses));
        would
    }
}

/// `work (a.c:17)`, as far as it is known.
fn place(reference: &Reference) -> String {
    let line = reference.file.as_deref().zip(reference.line);
    let line = line.map(|(file, line)| format!("{}:{line}", base(file)));
    match (&reference.function, line) {
        (Some(function), Some(line)) => format!("{function} ({line})"),
        (Some(function), None) => function.clone(),
        (None, Some(line)) => line,
        (None, None) => reference.address(),
    }
}

/// Bytes of a line by the threads that use them; bytes that nobody uses are in no run.
fn runs(line: &SharedLine) -> Vec<Run> {
    let mut bytes: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); 128];
    for (by, counts) in &line.uses {
        if counts.accesses > 0 {
            let used = usize::from(by.offset)..usize::from(by.offset) + usize::from(by.size);
            for threads in &mut bytes[used] {
                threads.insert(by.thread.0);
            }
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for (offset, threads) in bytes.into_iter().enumerate() {
        let offset = offset as u64;
        match runs.last_mut() {
            _ if threads.is_empty() => {}
            Some(run) if run.offset + run.bytes == offset && run.threads == threads => run.bytes += 1,
            _ => runs.push(Run {
                offset,
                bytes: 1,
                threads,
            }),
        }
    }
    runs
}

/// By finding: the first one that has an object in common with it, or with one that has.
pub fn related(findings: &[Finding]) -> Vec<usize> {
    let mut first: Vec<usize> = (0..findings.len()).collect();
    let mut by_object: BTreeMap<(u32, u64), usize> = BTreeMap::new();
    for (i, finding) in findings.iter().enumerate() {
        for inhabitant in &finding.objects {
            let object = (finding.space, inhabitant.placed.address);
            let other = *by_object.entry(object).or_insert(i);
            let (a, b) = (first[i].min(first[other]), first[i].max(first[other]));
            first
                .iter_mut()
                .filter(|first| **first == b)
                .for_each(|first| *first = a);
        }
    }
    first
}

/// Where things lie if they are kept apart, and which finding each new line is of.
#[derive(Default)]
pub struct Layout {
    pub moved: Vec<Moved>,
    /// The first byte behind the lines of each finding, in order.
    ends: Vec<(u64, usize)>,
}

impl Layout {
    const BEGIN: u64 = Moves::<memtrail_coherence::Coherence>::NOWHERE;

    fn next(&self) -> u64 {
        self.ends.last().map_or(Layout::BEGIN, |(end, _)| *end)
    }

    /// Every run of a falsely shared line on lines of its own.
    pub fn padded(findings: &[Finding], line: u64) -> Layout {
        let mut layout = Layout::default();
        for (i, finding) in findings.iter().enumerate().filter(|(_, finding)| finding.is_false()) {
            let mut to = layout.next();
            for run in &finding.runs {
                let start = finding.address + run.offset;
                layout.moved.push(Moved {
                    space: finding.space,
                    from: start..start + run.bytes,
                    to,
                });
                to += run.bytes.next_multiple_of(line);
            }
            layout.ends.push((to, i));
        }
        layout
    }

    /// Every object of a falsely shared line from the beginning of a line on. Findings of one object
    /// are one: the first of them stands for all.
    pub fn aligned(findings: &[Finding], first: &[usize], line: u64) -> Layout {
        let mut layout = Layout::default();
        let mut objects: BTreeMap<usize, BTreeSet<(u32, u64, u64)>> = BTreeMap::new();
        for (finding, &first) in findings.iter().zip(first).filter(|(finding, _)| finding.is_false()) {
            let placed = finding.objects.iter().map(|i| i.placed);
            let placed = placed.map(|placed| (finding.space, placed.address, placed.bytes));
            objects.entry(first).or_default().extend(placed);
        }
        for (first, objects) in objects {
            let mut to = layout.next();
            for (space, address, bytes) in objects {
                layout.moved.push(Moved {
                    space,
                    from: address..address.saturating_add(bytes),
                    to,
                });
                to += bytes.next_multiple_of(line);
            }
            layout.ends.push((to, first));
        }
        layout
    }

    /// Coherence misses in the new lines of each finding; by its number.
    pub fn left(&self, sharing: &Sharing) -> BTreeMap<usize, u64> {
        let mut left: BTreeMap<usize, u64> = self.ends.iter().map(|&(_, i)| (i, 0)).collect();
        for line in sharing.lines.iter().filter(|line| line.address >= Layout::BEGIN) {
            let at = self.ends.partition_point(|&(end, _)| end <= line.address);
            if let Some(&(_, i)) = self.ends.get(at) {
                *left.entry(i).or_default() += line.counts.coherence_misses();
            }
        }
        left
    }
}
