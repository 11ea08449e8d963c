//! What changes the ranges of an address space, and what asks them.
use super::pieces::{Piece, Pieces};
use super::shadow::{Part, Seen, Shadow};
use super::{Cold, Common, Hot, Kind, Objects, Parked, SpaceIndex, UNKNOWN};

/// The objects of an address space.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Heap blocks, variables, named memory: the innermost.
    things: Pieces,
    /// Mappings, stacks, the heap segment: what is seen where there is no thing.
    areas: Pieces,
    shadow: Shadow,
    /// The heap segment, once it is known where it begins.
    heap: Option<(u64, u64)>,
}

impl Space {
    pub fn clone_ranges(&self) -> Space {
        Space {
            things: self.things.clone(),
            areas: self.areas.clone(),
            shadow: Shadow::default(),
            heap: self.heap,
        }
    }

    pub fn renumber(&mut self, mut number: impl FnMut(u32) -> u32) {
        for pieces in [&mut self.things, &mut self.areas] {
            let mut renumbered = Pieces::default();
            for piece in pieces.all() {
                renumbered.set(piece.start, piece.end, Some(number(piece.id)));
            }
            *pieces = renumbered;
        }
    }

    /// The innermost object at an address, and the range around it that is all its own.
    fn extent(&self, addr: u64) -> Piece {
        if let Some(thing) = self.things.at(addr) {
            return thing;
        }
        let (start, end) = (self.things.end_before(addr), self.things.start_after(addr));
        let area = self.areas.at(addr).unwrap_or_else(|| Piece {
            start: self.areas.end_before(addr),
            end: self.areas.start_after(addr),
            id: UNKNOWN,
        });
        Piece {
            start: start.max(area.start),
            end: end.min(area.end),
            id: area.id,
        }
    }
}

impl Objects {
    fn at(&self, space: SpaceIndex) -> &Space {
        &self.spaces[space.0 as usize]
    }

    fn at_mut(&mut self, space: SpaceIndex) -> &mut Space {
        &mut self.spaces[space.0 as usize]
    }

    fn end_of(&self, id: u32) -> u64 {
        let bytes = self.cold[id as usize].bytes.max(1);
        self.hot[id as usize].start.saturating_add(bytes)
    }

    fn kind(&self, id: u32) -> Kind {
        self.cold[id as usize].kind
    }

    /// The innermost object at an address, and the first and last address around it that are all
    /// its own.
    pub fn extent(&self, space: SpaceIndex, addr: u64) -> (u32, u64, u64) {
        let piece = self.at(space).extent(addr);
        (piece.id, piece.start, piece.end.saturating_sub(1).max(addr))
    }

    #[inline]
    pub(super) fn search(&mut self, space: SpaceIndex, addr: u64) -> u32 {
        match self.at_mut(space).shadow.look(addr) {
            Seen::Exactly(id) => id,
            Seen::Perhaps(id) if self.holds(space, addr, id) => id,
            Seen::Nothing => self.fill(space, addr),
            _ => self.at(space).extent(addr).id,
        }
    }

    #[cold]
    fn fill(&mut self, space: SpaceIndex, addr: u64) -> u32 {
        let (mut at, end) = Shadow::page_around(addr);
        let ranges = &self.spaces[space.0 as usize];
        let mut parts = Vec::new();
        while at < end {
            let piece = ranges.extent(at);
            let until = piece.end.min(end);
            parts.push(Part {
                start: at,
                end: until,
                id: piece.id,
                alone: self.hot[piece.id as usize].span != 0,
            });
            at = until;
        }
        self.at_mut(space).shadow.fill(addr, &parts);
        self.at(space).extent(addr).id
    }

    /// A new thing, which is counted.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn place(
        &mut self,
        space: SpaceIndex,
        start: u64,
        bytes: u64,
        kind: Kind,
        group: u32,
        allocator: u32,
        birth: u64,
    ) {
        let cold = Cold {
            bytes,
            birth,
            outer: UNKNOWN,
            kind,
            allocator,
            copied: false,
        };
        if self.insert(space, start, group, cold) {
            self.groups.all[group as usize].join(bytes);
        }
    }

    /// A block that had been given back, where it is now.
    pub(super) fn put_back(&mut self, space: SpaceIndex, start: u64, parked: &Parked) {
        if self.insert(space, start, parked.group, parked.cold) && !parked.cold.copied {
            self.groups.all[parked.group as usize].revive(parked.cold.bytes);
        }
    }

    /// Puts a thing over what is there. Not if it has no place: at the very end of the addresses.
    fn insert(&mut self, space: SpaceIndex, start: u64, group: u32, cold: Cold) -> bool {
        let end = start.saturating_add(cold.bytes.max(1));
        if start >= end {
            return false;
        }
        self.make_room(space, start, end, &cold);
        let outer = self.at(space).things.at(start).map_or(UNKNOWN, |piece| piece.id);
        let hot = Hot {
            start,
            span: end - start,
            group,
            space: space.0,
        };
        let id = self.add(hot, Cold { outer, ..cold });
        if outer == UNKNOWN {
            self.cover_areas(space, start, end, cold.kind == Kind::Heap);
        } else {
            self.hot[outer as usize].span = 0;
        }
        let ranges = self.at_mut(space);
        ranges.things.set(start, end, Some(id));
        ranges.shadow.paint(&Part {
            start,
            end,
            id,
            alone: true,
        });
        true
    }

    /// There are things in these areas now.
    fn cover_areas(&mut self, space: SpaceIndex, start: u64, end: u64, block: bool) {
        let ranges = &self.spaces[space.0 as usize];
        // Nearly always one, which is known to be covered.
        let areas: Vec<u32> = match ranges.areas.at(start) {
            Some(area) if area.end >= end && self.is_covered(area.id, block) => return,
            _ => ranges.areas.over(start, end).map(|piece| piece.id).collect(),
        };
        for id in areas {
            self.hot[id as usize].span = 0;
            if block && self.is_anonymous(id) {
                let arena = self.groups.of(Common::Arena);
                self.regroup(id, arena, Kind::Allocator);
            }
        }
    }

    fn is_covered(&self, area: u32, block: bool) -> bool {
        self.hot[area as usize].span == 0 && !(block && self.is_anonymous(area))
    }

    /// And has no name either.
    fn is_anonymous(&self, area: u32) -> bool {
        let group = &self.groups.all[self.hot[area as usize].group as usize];
        matches!(group.common, Common::Anonymous { .. })
    }

    /// Whether a new thing may lie in this one.
    fn may_hold(&self, id: u32, start: u64, end: u64, inner: &Cold) -> bool {
        let (hot, cold) = (&self.hot[id as usize], &self.cold[id as usize]);
        let until = self.end_of(id);
        let holds = hot.start <= start && until >= end;
        let larger = until - hot.start > end - start;
        match (cold.kind, inner.kind) {
            (Kind::Heap, Kind::Heap) => holds && larger && cold.allocator != inner.allocator,
            (of, new) if of == new => holds && larger,
            _ => holds,
        }
    }

    /// Ends the things that cannot be there any more.
    fn make_room(&mut self, space: SpaceIndex, start: u64, end: u64, new: &Cold) {
        while let Some(victim) = self.in_the_way(space, start, end, new) {
            self.anomalies.overlaid += u64::from(self.kind(victim) == Kind::Heap);
            self.remove(space, victim, true);
        }
    }

    fn in_the_way(&self, space: SpaceIndex, start: u64, end: u64, new: &Cold) -> Option<u32> {
        let mut victim = None;
        for piece in self.at(space).things.over(start, end) {
            let mut id = piece.id;
            while id != UNKNOWN && !self.may_hold(id, start, end, new) {
                victim = Some(id);
                id = self.cold[id as usize].outer;
            }
            if victim.is_some() {
                break;
            }
        }
        victim
    }

    /// The heap block that begins here: the innermost of this allocator, else the innermost.
    pub(super) fn block_at(&self, space: SpaceIndex, address: u64, allocator: u32) -> Option<u32> {
        let mut id = self.at(space).things.at(address)?.id;
        let mut innermost = None;
        while id != UNKNOWN {
            let cold = &self.cold[id as usize];
            if cold.kind == Kind::Heap && self.hot[id as usize].start == address {
                if cold.allocator == allocator {
                    return Some(id);
                }
                innermost = innermost.or(Some(id));
            }
            id = cold.outer;
        }
        innermost
    }

    /// Ends a thing, and the things in it.
    pub(super) fn remove(&mut self, space: SpaceIndex, id: u32, bury: bool) {
        let (start, end) = (self.hot[id as usize].start, self.end_of(id));
        if self.hot[id as usize].span == 0 {
            for inner in self.things_in(space, start, end) {
                if inner != id && self.lies_in(inner, id) {
                    self.drop_object(inner, true);
                }
            }
        }
        let outer = self.cold[id as usize].outer;
        let ranges = self.at_mut(space);
        ranges.things.set(start, end, (outer != UNKNOWN).then_some(outer));
        let seen = match outer {
            UNKNOWN => match ranges.areas.over(start, end).next() {
                None => Some(UNKNOWN),
                Some(area) => (area.start <= start && area.end >= end).then_some(area.id),
            },
            outer => Some(outer),
        };
        match seen {
            Some(id) => ranges.shadow.paint(&Part {
                start,
                end,
                id,
                alone: false,
            }),
            None => ranges.shadow.forget(start, end),
        }
        self.drop_object(id, bury);
    }

    /// All things that have something of a range, also those that others hide.
    fn things_in(&self, space: SpaceIndex, start: u64, end: u64) -> Vec<u32> {
        let mut found = Vec::new();
        for piece in self.at(space).things.over(start, end) {
            let mut id = piece.id;
            while id != UNKNOWN {
                found.push(id);
                id = self.cold[id as usize].outer;
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn lies_in(&self, inner: u32, outer: u32) -> bool {
        let mut id = inner;
        while id != UNKNOWN && id != outer {
            id = self.cold[id as usize].outer;
        }
        id == outer
    }

    /// Its number is free again.
    fn drop_object(&mut self, id: u32, bury: bool) {
        let (hot, cold) = (&mut self.hot[id as usize], &mut self.cold[id as usize]);
        if !cold.copied {
            let group = &mut self.groups.all[hot.group as usize];
            group.die(cold.bytes);
            if bury {
                group.end(self.now - cold.birth);
            }
        }
        hot.span = 0;
        // Those in it that are dropped after it still have to find that they lay in it: `outer`
        // stays.
        cold.kind = Kind::Unknown;
        self.unused.push(id);
    }

    fn regroup(&mut self, id: u32, group: u32, kind: Kind) {
        let (hot, cold) = (&mut self.hot[id as usize], &mut self.cold[id as usize]);
        if !cold.copied {
            self.groups.all[hot.group as usize].part(cold.bytes);
            self.groups.all[group as usize].join(cold.bytes);
        }
        hot.group = group;
        cold.kind = kind;
    }

    /// Ends what is in a range: areas are cut, things end whole; variables only if asked for.
    pub(super) fn vacate(&mut self, space: SpaceIndex, start: u64, end: u64, variables: bool) {
        if start >= end {
            return;
        }
        for thing in self.things_in(space, start, end) {
            match self.kind(thing) {
                // It went with the one it lay in.
                Kind::Unknown => continue,
                Kind::Static | Kind::ThreadLocal if !variables => continue,
                Kind::Heap => self.anomalies.unmapped += 1,
                _ => {}
            }
            self.remove(space, thing, true);
        }
        let cut: Vec<Piece> = self.at(space).areas.over(start, end).collect();
        for area in cut {
            self.cut(space, area, start, end);
        }
        let ranges = self.at_mut(space);
        ranges.areas.set(start, end, None);
        ranges.shadow.forget(start, end);
    }

    /// An area loses a range.
    fn cut(&mut self, space: SpaceIndex, area: Piece, start: u64, end: u64) {
        let (before, after) = (start.max(area.start) - area.start, area.end - end.min(area.end));
        if before == 0 && after == 0 {
            return self.drop_object(area.id, true);
        }
        if before > 0 && after > 0 {
            let (hot, cold) = (self.hot[area.id as usize], self.cold[area.id as usize]);
            let kept = if hot.span == 0 { 0 } else { after };
            let hot = Hot {
                start: end,
                span: kept,
                ..hot
            };
            let id = self.add(hot, Cold { bytes: after, ..cold });
            if !cold.copied {
                let group = &mut self.groups.all[hot.group as usize];
                group.objects += 1;
                group.live += 1;
                group.grow(0, after);
            }
            let ranges = self.at_mut(space);
            ranges.areas.set(end, area.end, Some(id));
            ranges.shadow.forget(end, area.end);
        }
        match before {
            0 => self.reshape(area.id, end, after),
            _ => self.reshape(area.id, area.start, before),
        }
    }

    /// An area is somewhere else, or has another size, from now on.
    fn reshape(&mut self, id: u32, start: u64, bytes: u64) {
        let (hot, cold) = (&mut self.hot[id as usize], &mut self.cold[id as usize]);
        if !cold.copied {
            let group = &mut self.groups.all[hot.group as usize];
            group.bytes += bytes.saturating_sub(cold.bytes);
            group.grow(cold.bytes, bytes);
        }
        hot.start = start;
        hot.span = if hot.span == 0 { 0 } else { bytes };
        cold.bytes = bytes;
    }

    pub(super) fn map(&mut self, space: SpaceIndex, start: u64, bytes: u64, group: u32) {
        self.map_since(space, start, bytes, group, self.now);
    }

    fn map_since(&mut self, space: SpaceIndex, start: u64, bytes: u64, group: u32, birth: u64) {
        let end = start.saturating_add(bytes);
        if start >= end {
            return;
        }
        self.vacate(space, start, end, false);
        let has_things = self.at(space).things.over(start, end).next().is_some();
        let hot = Hot {
            start,
            span: if has_things { 0 } else { end - start },
            group,
            space: space.0,
        };
        let cold = Cold {
            bytes: end - start,
            birth,
            outer: UNKNOWN,
            kind: self.groups.all[group as usize].common.kind(),
            allocator: 0,
            copied: false,
        };
        let id = self.add(hot, cold);
        self.groups.all[group as usize].join(end - start);
        self.at_mut(space).areas.set(start, end, Some(id));
    }

    /// An area's range becomes larger, into addresses that are nobody's.
    fn enlarge(&mut self, space: SpaceIndex, area: Piece, start: u64, end: u64) {
        if self.at(space).things.over(start, end).next().is_some() {
            self.hot[area.id as usize].span = 0;
        }
        self.reshape(area.id, start, end - start);
        let ranges = self.at_mut(space);
        ranges.areas.set(start, end, Some(area.id));
        ranges.shadow.forget(start, area.start);
        ranges.shadow.forget(area.end, end);
    }

    pub(super) fn remap(&mut self, space: SpaceIndex, (old, old_bytes): (u64, u64), (address, bytes): (u64, u64)) {
        let area = self.at(space).areas.at(old);
        let (group, birth) = match area {
            Some(area) => (self.hot[area.id as usize].group, self.cold[area.id as usize].birth),
            None => (self.groups.of(Common::Anonymous { node: 0 }), self.now),
        };
        let (old_end, end) = (old.saturating_add(old_bytes), address.saturating_add(bytes));
        if address != old {
            if old_bytes > 0 {
                self.vacate(space, old, old_end, true);
            }
            self.map_since(space, address, bytes, group, birth);
        } else if end < old_end {
            self.vacate(space, end, old_end, true);
        } else if let Some(last) = old_end.checked_sub(1).and_then(|at| self.at(space).areas.at(at)) {
            self.vacate(space, old_end, end, true);
            self.enlarge(space, Piece { end: old_end, ..last }, last.start, end);
        } else {
            self.map(space, address, bytes, group);
        }
        self.groups.all[group as usize].resized += 1;
    }

    pub(super) fn set_break(&mut self, space: SpaceIndex, address: u64) {
        let (start, end) = self.at(space).heap.unwrap_or((address, address));
        let start = start.min(address);
        self.at_mut(space).heap = Some((start, address));
        if address < end {
            return self.vacate(space, address, end, true);
        }
        self.vacate(space, end, address, false);
        match end.checked_sub(1).and_then(|at| self.at(space).areas.at(at)) {
            Some(area) if start < end && address > end => self.enlarge(space, area, area.start, address),
            _ if address > start => {
                let group = self.groups.of(Common::Break);
                self.map(space, start.max(end), address - end, group);
            }
            _ => {}
        }
    }

    pub(super) fn make_stack(&mut self, space: SpaceIndex, rsp: u64, group: u32) {
        let at = rsp.saturating_sub(1);
        let (ranges, grows) = (self.at(space), self.options.stack);
        if ranges.things.at(at).is_some() {
            return;
        }
        let Some(area) = ranges.areas.at(at) else {
            let start = ranges.areas.end_before(at).max(at.saturating_sub(grows));
            let end = ranges.areas.start_after(at).min(at.saturating_add(grows));
            return self.map(space, start, end - start, group);
        };
        let lowest = area
            .start
            .checked_sub(1)
            .map_or(0, |below| ranges.areas.end_before(below));
        let start = lowest.max(area.end.saturating_sub(grows)).min(area.start);
        match self.kind(area.id) {
            Kind::Allocator => {}
            Kind::Stack => {
                // The memory of a thread that has ended.
                let (hot, cold) = (self.hot[area.id as usize], self.cold[area.id as usize]);
                if hot.group == group {
                    return;
                }
                self.drop_object(area.id, true);
                let fresh = Cold {
                    birth: self.now,
                    copied: false,
                    ..cold
                };
                let id = self.add(Hot { group, ..hot }, fresh);
                self.groups.all[group as usize].join(cold.bytes);
                let ranges = self.at_mut(space);
                ranges.areas.set(area.start, area.end, Some(id));
                ranges.shadow.forget(area.start, area.end);
            }
            _ => {
                self.regroup(area.id, group, Kind::Stack);
                self.enlarge(space, area, start, area.end);
            }
        }
    }

    pub(super) fn name(&mut self, space: SpaceIndex, address: u64, bytes: u64, group: u32) {
        let there = self.at(space).extent(address);
        let exactly = self.hot[there.id as usize].start == address && self.cold[there.id as usize].bytes == bytes;
        if bytes == 0 || exactly {
            match there.id {
                UNKNOWN => self.anomalies.unnameable += 1,
                id => self.regroup(id, group, self.kind(id)),
            }
            return;
        }
        let end = address.saturating_add(bytes);
        let mut at = address;
        while at < end {
            let ranges = self.at(space);
            // Whatever is the innermost thing, or the gap between two.
            let until = ranges
                .things
                .at(at)
                .map_or_else(|| ranges.things.start_after(at), |t| t.end);
            let until = until.min(end);
            self.place(space, at, until - at, Kind::Named, group, u32::MAX, self.now);
            at = until;
        }
    }
}
