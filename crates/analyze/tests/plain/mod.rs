//! An object map without any cleverness: lists, searched from end to end.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    Unknown,
    Block(u32),
    File(u32),
    Name(u32),
    Given(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    Block { allocator: u32 },
    Variable,
    Named,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// As it was asked for: blocks of no bytes have a place, too.
    bytes: u64,
    label: Label,
    sort: Sort,
}

impl Range {
    fn has(&self, other: &Range) -> bool {
        self.start <= other.start && self.end >= other.end
    }

    fn meets(&self, start: u64, end: u64) -> bool {
        self.start < end && self.end > start
    }

    fn may_hold(&self, new: &Range) -> bool {
        let larger = self.end - self.start > new.end - new.start;
        self.has(new)
            && match (self.sort, new.sort) {
                (Sort::Block { allocator: mine }, Sort::Block { allocator: theirs }) => larger && mine != theirs,
                (mine, theirs) => mine != theirs || larger,
            }
    }
}

/// In the order in which they were made: what lies in another is later.
#[derive(Clone, Debug, Default)]
pub struct Plain {
    things: Vec<Range>,
    areas: Vec<(u64, u64, Label)>,
    pub overlaid: u64,
}

impl Plain {
    pub fn len(&self) -> usize {
        self.things.len() + self.areas.len()
    }

    fn innermost(&self, addr: u64) -> Option<usize> {
        let there = |thing: &Range| thing.meets(addr, addr + 1);
        self.things.iter().rposition(there)
    }

    pub fn at(&self, addr: u64) -> Label {
        if let Some(thing) = self.innermost(addr) {
            return self.things[thing].label;
        }
        let area = self.areas.iter().find(|area| area.0 <= addr && addr < area.1);
        area.map_or(Label::Unknown, |area| area.2)
    }

    pub fn ends(&self) -> Vec<u64> {
        let things = self.things.iter().flat_map(|t| [t.start, t.end]);
        things.chain(self.areas.iter().flat_map(|a| [a.0, a.1])).collect()
    }

    /// The beginning of some block, or of nothing.
    pub fn pick(&self, pick: usize, otherwise: u64) -> u64 {
        let blocks: Vec<u64> = self.things.iter().map(|t| t.start).collect();
        blocks.get(pick % (blocks.len() + 1)).copied().unwrap_or(otherwise + 8)
    }

    pub fn pick_range(&self, pick: usize, otherwise: u64) -> (u64, u64) {
        let things = self.things.iter().map(|t| (t.start, t.bytes));
        let all: Vec<(u64, u64)> = things.chain(self.areas.iter().map(|a| (a.0, a.1 - a.0))).collect();
        all.get(pick % (all.len() + 1)).copied().unwrap_or((otherwise, 0))
    }

    fn kill(&mut self, victim: usize) {
        let dead = self.things[victim];
        let mut at = 0;
        self.things.retain(|thing| {
            at += 1;
            at - 1 < victim || !dead.has(thing)
        });
    }

    fn insert(&mut self, start: u64, bytes: u64, label: Label, sort: Sort) {
        let end = start + bytes.max(1);
        let new = Range {
            start,
            end,
            bytes,
            label,
            sort,
        };
        while let Some(victim) = (0..self.things.len()).find(|&at| {
            let thing = &self.things[at];
            let inner_holds = |inner: &Range| thing.has(inner) && inner.may_hold(&new);
            thing.meets(start, end) && !thing.may_hold(&new) && !self.things[at + 1..].iter().any(inner_holds)
        }) {
            self.overlaid += u64::from(matches!(self.things[victim].sort, Sort::Block { .. }));
            self.kill(victim);
        }
        self.things.push(new);
    }

    pub fn alloc(&mut self, start: u64, bytes: u64, label: Label, allocator: u32) {
        self.insert(start, bytes, label, Sort::Block { allocator });
    }

    pub fn variable(&mut self, start: u64, bytes: u64, label: Label) {
        self.insert(start, bytes, label, Sort::Variable);
    }

    pub fn free(&mut self, address: u64, allocator: u32) -> Option<(Label, u32)> {
        let begins = |thing: &Range| thing.start == address && matches!(thing.sort, Sort::Block { .. });
        let same = |thing: &Range| begins(thing) && thing.sort == Sort::Block { allocator };
        let block = self.things.iter().rposition(same);
        let block = block.or_else(|| self.things.iter().rposition(begins))?;
        let Range { label, sort, .. } = self.things[block];
        self.kill(block);
        match sort {
            Sort::Block { allocator } => Some((label, allocator)),
            _ => None,
        }
    }

    pub fn realloc(&mut self, old: u64, start: u64, bytes: u64, label: Label, allocator: u32) {
        let kept = self.free(old, allocator);
        let (label, allocator) = kept.unwrap_or((label, allocator));
        self.alloc(start, bytes, label, allocator);
    }

    pub fn vacate(&mut self, start: u64, end: u64, variables: bool) {
        if start == end {
            return;
        }
        let goes = |thing: &Range| thing.meets(start, end) && (variables || thing.sort != Sort::Variable);
        while let Some(victim) = self.things.iter().position(goes) {
            self.kill(victim);
        }
        let mut cut = Vec::new();
        for &(from, to, label) in &self.areas {
            let parts = [(from, to.min(start)), (from.max(end), to)];
            cut.extend(parts.into_iter().filter(|p| p.0 < p.1).map(|p| (p.0, p.1, label)));
        }
        self.areas = cut;
    }

    pub fn map(&mut self, start: u64, end: u64, label: Label) {
        if start < end {
            self.vacate(start, end, false);
            self.areas.push((start, end, label));
        }
    }

    pub fn name(&mut self, start: u64, bytes: u64, label: Label) {
        let innermost = self.innermost(start);
        if let Some(thing) = innermost {
            let range = &mut self.things[thing];
            if bytes == 0 || range.start == start && range.bytes == bytes {
                range.label = label;
                return;
            }
        } else {
            let here = |area: &&mut (u64, u64, Label)| area.0 <= start && start < area.1;
            if let Some(area) = self.areas.iter_mut().find(here) {
                if bytes == 0 || area.0 == start && area.1 - area.0 == bytes {
                    area.2 = label;
                    return;
                }
            }
        }
        let (mut at, end) = (start, start + bytes);
        while at < end {
            let thing = self.innermost(at);
            let until = (at..end).find(|&addr| self.innermost(addr) != thing).unwrap_or(end);
            self.insert(at, until - at, label, Sort::Named);
            at = until;
        }
    }
}
