//! Another place for an object's bytes.
//!
//! **Rule.** A [`Rule`] says how the bytes of one group of objects are laid out: rows get longer,
//! elements are taken apart into several arrays, fields of an element change places, blocks begin
//! at other addresses. [`Relocator`] applies the rules of several groups.
//!
//! **Where to.** A block that is laid out anew must not fall on what lies beside it: it gets a
//! *region* of its own, which differs from all addresses in use in bits 40 to 46 and in nothing
//! else that a cache looks at. A moved block keeps its lower 40 bits plus the distance, so it falls
//! into the sets that it would fall into. Blocks that grow or are taken apart follow each other in
//! the order of their first use, as an allocator would lay them out; the first one begins where it
//! did.
//!
//! **Limits.** An access belongs to the part that holds its first byte, and stays whole: one that
//! spans two fields which are torn apart is counted at the first.
use memtrail_analyze::placement::{Placed, Placement};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Bits of an address below the number of a region.
const REGION: u32 = 40;
/// Regions that user addresses can have: addresses have 47 bits.
const REGIONS: u64 = 1 << (47 - REGION);
/// What allocators align blocks to.
const ALLOCATED: u64 = 16;

/// How the objects of a group are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every `row` bytes, `bytes` more are left free; without rows, in front of every block.
    Pad { row: Option<u64>, bytes: u64 },
    /// Every block begins at a multiple of this.
    Align(u64),
    /// Every block lies this many bytes further on, modulo 2^64.
    Move(u64),
    /// Elements of `element` bytes are taken apart: each part (bytes of an element) is an array of
    /// its own, and what is in no part is one more.
    Split { element: u64, parts: Vec<Range<u64>> },
    /// Within each element these parts come first, in this order, then the rest.
    Reorder { element: u64, parts: Vec<Range<u64>> },
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("an alignment of {0} bytes is not a power of two")]
    Alignment(u64),
    #[error("an element or a row cannot have {0} bytes")]
    Element(u64),
    #[error("bytes {start}-{end} are not within an element of {element} bytes", start = .part.start, end = .part.end)]
    Outside { part: Range<u64>, element: u64 },
    #[error("bytes {a_start}-{a_end} and {b_start}-{b_end} overlap", a_start = .0.start, a_end = .0.end, b_start = .1.start, b_end = .1.end)]
    Overlap(Range<u64>, Range<u64>),
    #[error("no part is named")]
    NoParts,
    #[error("more than {REGIONS} regions of addresses would be needed")]
    Regions,
}

impl Rule {
    fn check(&self) -> Result<(), RuleError> {
        match self {
            Rule::Align(to) if !to.is_power_of_two() => Err(RuleError::Alignment(*to)),
            Rule::Pad { row: Some(0), .. } => Err(RuleError::Element(0)),
            Rule::Split { element, parts } | Rule::Reorder { element, parts } => check_parts(*element, parts),
            _ => Ok(()),
        }
    }

    /// The arrays that a block becomes: the bytes of an element that each takes, in its order.
    fn arrays(&self) -> Vec<Vec<Range<u64>>> {
        match self {
            Rule::Split { element, parts } => {
                let rest = rest(*element, parts);
                let mut arrays: Vec<Vec<Range<u64>>> = parts.iter().map(|part| vec![part.clone()]).collect();
                if !rest.is_empty() {
                    arrays.push(rest);
                }
                arrays
            }
            Rule::Reorder { element, parts } => vec![[parts.clone(), rest(*element, parts)].concat()],
            _ => vec![Vec::new()],
        }
    }
}

fn check_parts(element: u64, parts: &[Range<u64>]) -> Result<(), RuleError> {
    if element == 0 {
        return Err(RuleError::Element(0));
    }
    if parts.is_empty() {
        return Err(RuleError::NoParts);
    }
    for (at, part) in parts.iter().enumerate() {
        if part.is_empty() || part.end > element {
            return Err(RuleError::Outside {
                part: part.clone(),
                element,
            });
        }
        let overlaps = |other: &&Range<u64>| other.start < part.end && part.start < other.end;
        if let Some(other) = parts[..at].iter().find(overlaps) {
            return Err(RuleError::Overlap(other.clone(), part.clone()));
        }
    }
    Ok(())
}

/// What of an element is in no part, in ascending order.
fn rest(element: u64, parts: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<&Range<u64>> = parts.iter().collect();
    sorted.sort_by_key(|part| part.start);
    let mut rest = Vec::new();
    let mut at = 0;
    for part in sorted {
        if part.start > at {
            rest.push(at..part.start);
        }
        at = part.end;
    }
    if at < element {
        rest.push(at..element);
    }
    rest
}

/// One array that blocks of a group go to.
#[derive(Debug)]
struct Array {
    /// The region's number, shifted.
    region: u64,
    /// Bytes of an element that are in it, in order; empty if whole blocks are.
    pieces: Vec<Range<u64>>,
    /// The sum of the pieces.
    width: u64,
    /// Where the next block goes; nothing before the first one.
    next: Option<u64>,
}

/// A group, and what becomes of it.
#[derive(Debug)]
struct Relocated {
    rule: Rule,
    arrays: Vec<Array>,
    /// By object and birth: where its part in each array begins.
    bases: HashMap<(u32, u64), Vec<Option<u64>>>,
}

/// Applies rules to groups of objects.
#[derive(Debug, Default)]
pub struct Relocator {
    groups: BTreeMap<u32, Relocated>,
}

impl Relocator {
    /// `rules` by group; `used` are addresses that the program uses, at least one of each 2^40.
    pub fn new(rules: BTreeMap<u32, Rule>, used: impl IntoIterator<Item = u64>) -> Result<Relocator, RuleError> {
        let used: BTreeSet<u64> = used.into_iter().map(|address| address >> REGION).collect();
        let mut free = (1..REGIONS).filter(|region| !used.contains(region));
        let mut groups = BTreeMap::new();
        for (group, rule) in rules {
            rule.check()?;
            let arrays = rule.arrays().into_iter().map(|pieces| {
                let region = free.next().ok_or(RuleError::Regions)? << REGION;
                Ok(Array {
                    region,
                    width: pieces.iter().map(|piece| piece.end - piece.start).sum(),
                    pieces,
                    next: None,
                })
            });
            let arrays = arrays.collect::<Result<Vec<Array>, RuleError>>()?;
            let bases = HashMap::new();
            groups.insert(group, Relocated { rule, arrays, bases });
        }
        Ok(Relocator { groups })
    }
}

impl Placement for Relocator {
    fn moves(&self, group: u32) -> bool {
        self.groups.contains_key(&group)
    }

    fn place(&mut self, object: &Placed, addr: u64) -> u64 {
        match self.groups.get_mut(&object.group) {
            Some(group) => group.place(object, addr),
            None => addr,
        }
    }
}

impl Relocated {
    fn place(&mut self, object: &Placed, addr: u64) -> u64 {
        let offset = addr.wrapping_sub(object.address);
        let low = |address: u64| address & ((1 << REGION) - 1);
        match &self.rule {
            Rule::Move(by) => self.arrays[0].region | low(addr.wrapping_add(*by)),
            &Rule::Pad { row, bytes } => {
                let rows = row.map_or(1, |row| offset / row);
                let grown = object.bytes + bytes * row.map_or(1, |row| object.bytes.div_ceil(row));
                self.base(object, 0, grown, ALLOCATED) + offset + rows * bytes
            }
            &Rule::Align(to) => self.base(object, 0, object.bytes, to) + offset,
            &Rule::Split { element, .. } | &Rule::Reorder { element, .. } => {
                let (index, within) = (offset / element, offset % element);
                let Some((at, inside)) = self.arrays.iter().enumerate().find_map(|(at, array)| {
                    let inside = array.offset_of(within)?;
                    Some((at, inside))
                }) else {
                    return addr;
                };
                let width = self.arrays[at].width;
                let count = object.bytes.div_ceil(element).max(1);
                // Elements of blocks that hold one each are packed as elements of an array are.
                let align = if count == 1 { 1 } else { ALLOCATED };
                self.base(object, at, count * width, align) + index * width + inside
            }
        }
    }

    /// Where an object's part in an array begins.
    fn base(&mut self, object: &Placed, array: usize, bytes: u64, align: u64) -> u64 {
        let arrays = self.arrays.len();
        let key = (object.object, object.birth);
        let bases = self.bases.entry(key).or_insert_with(|| vec![None; arrays]);
        *bases[array].get_or_insert_with(|| {
            let array = &mut self.arrays[array];
            let begin = object.address & ((1 << REGION) - 1);
            let at = array.next.unwrap_or(array.region | begin).next_multiple_of(align);
            array.next = Some(at + bytes);
            at
        })
    }
}

impl Array {
    /// Where a byte of an element is in this array's element.
    fn offset_of(&self, within: u64) -> Option<u64> {
        let mut before = 0;
        for piece in &self.pieces {
            if piece.contains(&within) {
                return Some(before + within - piece.start);
            }
            before += piece.end - piece.start;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 0x5555_5555_0040;

    fn block(object: u32, address: u64, bytes: u64) -> Placed {
        Placed {
            object,
            birth: 0,
            address,
            bytes,
            group: 7,
        }
    }

    /// The relocator with one rule, on a program that uses regions 0x55 and 0x7f.
    fn relocator(rule: Rule) -> Relocator {
        Relocator::new([(7, rule)].into(), [A, 0x7fff_0000_0000, 0x100_0000_0000]).unwrap()
    }

    /// The region that the first array gets: 0 is never given, 1 is in use here.
    const FIRST: u64 = 2 << REGION;

    fn one(part: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(part).collect()
    }

    #[test]
    fn a_moved_block_keeps_its_place_in_the_sets() {
        let mut moved = relocator(Rule::Move(64));
        let placed = moved.place(&block(1, A, 4096), A + 100);
        assert_eq!(placed, FIRST | (A + 164) & 0xff_ffff_ffff);
    }

    #[test]
    fn rows_are_padded_and_blocks_follow_each_other() {
        let rule = Rule::Pad {
            row: Some(1024),
            bytes: 64,
        };
        let mut padded = relocator(rule);
        let (one, two) = (block(1, A, 4096), block(2, A + 4096, 2048));
        let base = FIRST | A & 0xff_ffff_ffff;
        assert_eq!(padded.place(&one, A), base);
        assert_eq!(padded.place(&one, A + 1023), base + 1023);
        assert_eq!(padded.place(&one, A + 1024), base + 1024 + 64);
        assert_eq!(padded.place(&one, A + 3 * 1024 + 8), base + 3 * (1024 + 64) + 8);
        let behind = base + 4 * (1024 + 64);
        assert_eq!(padded.place(&two, A + 4096), behind);
        assert_eq!(padded.place(&two, A + 4096 + 1024), behind + 1024 + 64);
        assert_eq!(padded.place(&one, A), base, "a block stays where it is");
    }

    #[test]
    fn blocks_without_rows_get_their_pad_in_front() {
        let mut padded = relocator(Rule::Pad { row: None, bytes: 128 });
        let base = FIRST | A & 0xff_ffff_ffff;
        assert_eq!(padded.place(&block(1, A, 64), A + 8), base + 128 + 8);
        assert_eq!(padded.place(&block(2, A + 64, 64), A + 64), base + 2 * 128 + 64);
    }

    #[test]
    fn aligned_blocks_begin_at_multiples() {
        let mut aligned = relocator(Rule::Align(256));
        let base = (FIRST | A & 0xff_ffff_ffff).next_multiple_of(256);
        assert_eq!(aligned.place(&block(1, A, 100), A + 4), base + 4);
        assert_eq!(aligned.place(&block(2, A + 112, 100), A + 112), base + 256);
    }

    #[test]
    fn an_array_of_structures_becomes_arrays_of_fields() {
        let rule = Rule::Split {
            element: 24,
            parts: one(8..16),
        };
        let mut split = relocator(rule);
        let array = block(1, A, 24 * 10);
        let (field, rest) = (FIRST | A & 0xff_ffff_ffff, 3 << REGION | A & 0xff_ffff_ffff);
        for i in 0..10 {
            let element = A + 24 * i;
            assert_eq!(split.place(&array, element), rest + 16 * i);
            assert_eq!(split.place(&array, element + 8), field + 8 * i);
            assert_eq!(split.place(&array, element + 12), field + 8 * i + 4);
            assert_eq!(split.place(&array, element + 16), rest + 16 * i + 8);
        }
    }

    #[test]
    fn single_elements_are_packed_in_the_order_of_their_use() {
        let rule = Rule::Split {
            element: 24,
            parts: one(0..8),
        };
        let mut split = relocator(rule);
        let field = FIRST | A & 0xff_ffff_ffff;
        for (at, i) in [5, 3, 9].into_iter().enumerate() {
            let node = block(i, A + 32 * u64::from(i), 24);
            assert_eq!(
                split.place(&node, node.address),
                (FIRST | (A + 160) & 0xff_ffff_ffff) + 8 * at as u64
            );
        }
        assert!(field < split.place(&block(5, A + 160, 24), A + 160));
    }

    #[test]
    fn fields_change_places_within_their_element() {
        let rule = Rule::Reorder {
            element: 32,
            parts: vec![16..24, 0..8],
        };
        let mut reordered = relocator(rule);
        let array = block(1, A, 64);
        let base = FIRST | A & 0xff_ffff_ffff;
        let at = |r: &mut Relocator, offset| r.place(&array, A + offset) - base;
        assert_eq!(at(&mut reordered, 16), 0);
        assert_eq!(at(&mut reordered, 0), 8);
        assert_eq!(at(&mut reordered, 8), 16);
        assert_eq!(at(&mut reordered, 24), 24);
        assert_eq!(at(&mut reordered, 32 + 17), 32 + 1);
    }

    #[test]
    fn wrong_rules_are_refused_with_what_is_wrong() {
        let refused = |rule| Relocator::new([(0, rule)].into(), []).unwrap_err().to_string();
        assert_eq!(
            refused(Rule::Align(48)),
            "an alignment of 48 bytes is not a power of two"
        );
        let split = |element, parts| Rule::Split { element, parts };
        assert_eq!(
            refused(split(8, one(4..12))),
            "bytes 4-12 are not within an element of 8 bytes"
        );
        assert_eq!(refused(split(8, vec![0..4, 2..6])), "bytes 0-4 and 2-6 overlap");
        assert_eq!(refused(split(0, vec![])), "an element or a row cannot have 0 bytes");
        assert_eq!(refused(split(8, vec![])), "no part is named");
    }
}
