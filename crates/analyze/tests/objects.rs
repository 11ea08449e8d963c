//! The object map against a list of ranges that is searched from end to end.
mod plain;

use memtrail_analyze::calls::Tree;
use memtrail_analyze::objects::{Common, Kind, Objects, Options, SpaceIndex, UNKNOWN};
use memtrail_model::{Note, Thread};
use plain::{Label, Plain};
use proptest::prelude::*;

const BASE: u64 = 0x10_0000;
const BYTES: u64 = 3 * 4096;

/// Something that a program does to memory, in small numbers.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc {
        hook: u32,
        at: u64,
        bytes: u64,
    },
    Free {
        hook: u32,
        pick: usize,
    },
    Realloc {
        hook: u32,
        pick: usize,
        at: u64,
        bytes: u64,
        told: bool,
    },
    Map {
        at: u64,
        bytes: u64,
    },
    Unmap {
        at: u64,
        bytes: u64,
    },
    Name {
        at: u64,
        bytes: u64,
    },
    NameExactly {
        pick: usize,
    },
    Static {
        at: u64,
        bytes: u64,
    },
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    let start = prop_oneof![(0..BYTES / 16).prop_map(|n| n * 16), 0..BYTES];
    let bytes = prop_oneof![6 => 0u64..100, 2 => 100u64..1000, 1 => 1000u64..BYTES];
    (start, bytes).prop_map(|(start, bytes)| (BASE + start, bytes.min(BYTES - start)))
}

fn step() -> impl Strategy<Value = Step> {
    let hook = 0u32..3;
    let pick = any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    prop_oneof![
        8 => (hook.clone(), range()).prop_map(|(hook, (at, bytes))| Step::Alloc { hook, at, bytes }),
        5 => (hook.clone(), pick.clone()).prop_map(|(hook, pick)| Step::Free { hook, pick }),
        3 => (hook, pick.clone(), range(), any::<bool>())
            .prop_map(|(hook, pick, (at, bytes), told)| Step::Realloc { hook: hook + 3, pick, at, bytes, told }),
        2 => range().prop_map(|(at, bytes)| Step::Map { at, bytes }),
        1 => range().prop_map(|(at, bytes)| Step::Unmap { at, bytes }),
        1 => range().prop_map(|(at, bytes)| Step::Name { at, bytes }),
        1 => pick.prop_map(|pick| Step::NameExactly { pick }),
        1 => range().prop_map(|(at, bytes)| Step::Static { at, bytes }),
    ]
}

/// Both, side by side.
struct Pair {
    objects: Objects,
    plain: Vec<Plain>,
    tree: Tree,
    /// For what is made next.
    label: u32,
    hint: u32,
}

impl Pair {
    fn new() -> Pair {
        let options = Options {
            // Three functions that allocate or give back, three that resize.
            allocators: vec![0, 1, 1, 0, 1, 1],
            ..Options::default()
        };
        Pair {
            objects: Objects::new(options),
            plain: vec![Plain::default()],
            tree: Tree::default(),
            label: 0,
            hint: UNKNOWN,
        }
    }

    fn note(&mut self, space: usize, node: u32, note: &Note) {
        let index = self.objects.space(space as u32);
        self.objects.notes(index, Thread(0), &self.tree, node, note);
    }

    fn step(&mut self, space: usize, step: Step) {
        self.label += 1;
        self.objects.now += 10;
        let label = self.label;
        let node = self.tree.call(Tree::ROOT, u64::from(label));
        let allocator = |hook: u32| (hook % 3).min(1);
        let plain = &mut self.plain[space];
        match step {
            Step::Alloc { hook, at, bytes } => {
                plain.alloc(at, bytes, Label::Block(node), allocator(hook));
                self.note(
                    space,
                    node,
                    &Note::Alloc {
                        hook,
                        address: at,
                        bytes,
                    },
                );
            }
            Step::Free { hook, pick } => {
                let address = plain.pick(pick, BASE);
                plain.free(address, allocator(hook));
                self.note(space, node, &Note::Free { hook, address });
            }
            Step::Realloc {
                hook,
                pick,
                at,
                bytes,
                told,
            } => {
                let old = plain.pick(pick, BASE);
                plain.realloc(old, at, bytes, Label::Block(node), allocator(hook));
                if told {
                    self.note(space, node, &Note::Free { hook, address: old });
                }
                let note = Note::Realloc {
                    hook,
                    old,
                    address: at,
                    bytes,
                };
                self.note(space, node, &note);
            }
            Step::Map { at, bytes } => {
                plain.map(at, at + bytes, Label::File(label));
                let note = Note::Map {
                    address: at,
                    bytes,
                    protection: 3,
                    source: label,
                    offset: 0,
                };
                self.note(space, node, &note);
            }
            Step::Unmap { at, bytes } => {
                plain.vacate(at, at + bytes, true);
                self.note(space, node, &Note::Unmap { address: at, bytes });
            }
            Step::Name { at, bytes } => self.name(space, node, at, bytes),
            Step::NameExactly { pick } => {
                let (at, bytes) = plain.pick_range(pick, BASE);
                self.name(space, node, at, bytes);
            }
            Step::Static { at, bytes } => {
                let group = self.objects.new_group(Kind::Static);
                plain.variable(at, bytes, Label::Given(group));
                self.objects.add_static(space as u32, at, bytes, group);
            }
        }
    }

    fn name(&mut self, space: usize, node: u32, address: u64, bytes: u64) {
        let text = self.label;
        self.plain[space].name(address, bytes, Label::Name(text));
        self.note(space, node, &Note::Name { address, bytes, text });
    }

    fn label_of(&mut self, space: usize, addr: u64) -> Label {
        let index = self.objects.space(space as u32);
        let found = self.objects.find(index, addr, self.hint);
        assert_eq!(self.objects.extent(index, addr).0, found, "both ways at {addr:#x}");
        self.hint = found;
        let group = self.objects.group_of(found);
        match self.objects.group(group).common {
            Common::Unknown => Label::Unknown,
            Common::Block { node } => Label::Block(node),
            Common::File { source } => Label::File(source),
            Common::Name { text } => Label::Name(text),
            Common::Given { .. } => Label::Given(group),
            other => panic!("{other:?} was never made"),
        }
    }

    fn check(&mut self, probes: &[u64]) -> Result<(), TestCaseError> {
        let mut living = 0;
        for space in 0..self.plain.len() {
            let ends = self.plain[space].ends();
            let beside = ends.iter().flat_map(|&end| [end - 1, end]);
            let places: Vec<u64> = beside.chain(probes.iter().map(|p| BASE + p)).collect();
            for addr in places {
                let expected = self.plain[space].at(addr);
                prop_assert_eq!(
                    self.label_of(space, addr),
                    expected,
                    "at {:#x} of space {}",
                    addr,
                    space
                );
            }
            living += self.plain[space].len();
        }
        prop_assert_eq!(self.objects.len(), living);
        let overlaid: u64 = self.plain.iter().map(|plain| plain.overlaid).sum();
        prop_assert_eq!(self.objects.anomalies().overlaid, overlaid);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn finds_what_a_list_finds(
        steps in prop::collection::vec((step(), any::<bool>()), 1..60),
        probes in prop::collection::vec(0..BYTES, 40),
        fork in 0usize..100,
    ) {
        let mut pair = Pair::new();
        for (number, (step, in_child)) in steps.into_iter().enumerate() {
            if number == fork {
                pair.objects.forks(0, 1);
                let mut copy = pair.plain[0].clone();
                copy.overlaid = 0;
                pair.plain.push(copy);
            }
            let space = usize::from(in_child && pair.plain.len() > 1);
            pair.step(space, step);
            pair.check(&probes)?;
        }
        // What is counted of those who lived and those who died fits together.
        let unended: u64 = pair.objects.groups().iter().map(|g| g.objects - g.ended).sum();
        let live: u64 = pair.objects.groups().iter().map(|g| g.live).sum();
        prop_assert_eq!(unended, live);
        pair.objects.ends(0);
        pair.objects.ends(1);
        prop_assert_eq!(pair.objects.len(), 0);
        prop_assert!(pair.objects.groups().iter().all(|g| g.live == 0 && g.live_bytes == 0));
    }
}

/// By hand: one address space, one thread, nodes given.
struct Hand {
    objects: Objects,
    space: SpaceIndex,
    tree: Tree,
}

impl Hand {
    fn new(options: Options) -> Hand {
        let mut objects = Objects::new(options);
        let space = objects.space(0);
        Hand {
            objects,
            space,
            tree: Tree::default(),
        }
    }

    fn note(&mut self, node: u32, note: Note) {
        self.objects.notes(self.space, Thread(0), &self.tree, node, &note);
    }

    fn alloc(&mut self, node: u32, address: u64, bytes: u64) {
        self.note(
            node,
            Note::Alloc {
                hook: 0,
                address,
                bytes,
            },
        );
    }

    fn free(&mut self, address: u64) {
        self.note(0, Note::Free { hook: 1, address });
    }

    fn map(&mut self, address: u64, bytes: u64, source: u32) {
        let protection = 3;
        self.note(
            0,
            Note::Map {
                address,
                bytes,
                protection,
                source,
                offset: 0,
            },
        );
    }

    fn at(&mut self, addr: u64) -> Common {
        let found = self.objects.find(self.space, addr, UNKNOWN);
        self.objects.group(self.objects.group_of(found)).common
    }
}

#[test]
fn a_recycled_address_is_another_object() {
    let mut hand = Hand::new(Options::default());
    hand.objects.now = 5;
    hand.alloc(3, 0x1000, 24);
    assert_eq!(hand.at(0x1000), Common::Block { node: 3 });
    hand.objects.now = 25;
    hand.free(0x1000);
    assert_eq!(hand.at(0x1000), Common::Unknown);
    hand.alloc(4, 0x1000, 24);
    assert_eq!(hand.at(0x1017), Common::Block { node: 4 });
    assert_eq!(hand.at(0x1018), Common::Unknown);
    let groups = hand.objects.groups();
    assert_eq!((groups[1].objects, groups[1].ended, groups[1].lifetime), (1, 1, 20));
    assert_eq!((groups[2].objects, groups[2].ended, groups[2].live_bytes), (1, 0, 24));
    assert_eq!(hand.objects.anomalies(), Default::default());
}

#[test]
fn growing_keeps_the_object() {
    let mut hand = Hand::new(Options::default());
    hand.objects.now = 1;
    hand.alloc(3, 0x1000, 100);
    let (hook, old) = (2, 0x1000);
    // In place, after the block was given up for the time being.
    hand.note(9, Note::Free { hook, address: old });
    hand.note(
        9,
        Note::Realloc {
            hook,
            old,
            address: 0x1000,
            bytes: 200,
        },
    );
    // To another place, and that it is given up is not told.
    hand.note(
        9,
        Note::Realloc {
            hook,
            old,
            address: 0x8000,
            bytes: 300,
        },
    );
    assert_eq!(hand.at(0x1000), Common::Unknown);
    assert_eq!(hand.at(0x8000 + 299), Common::Block { node: 3 });
    // It fails: all is as it was.
    hand.note(9, Note::Free { hook, address: 0x8000 });
    hand.note(
        9,
        Note::Realloc {
            hook,
            old: 0x8000,
            address: 0,
            bytes: 1 << 40,
        },
    );
    assert_eq!(hand.at(0x8000 + 299), Common::Block { node: 3 });
    hand.objects.now = 101;
    // Resizing to nothing gives it back.
    hand.note(
        9,
        Note::Realloc {
            hook,
            old: 0x8000,
            address: 0,
            bytes: 0,
        },
    );
    assert_eq!(hand.at(0x8000), Common::Unknown);
    // For no old block it is an allocation.
    hand.note(
        7,
        Note::Realloc {
            hook,
            old: 0,
            address: 0x9000,
            bytes: 8,
        },
    );
    assert_eq!(hand.at(0x9000), Common::Block { node: 7 });
    let groups = hand.objects.groups();
    let first = groups
        .iter()
        .find(|g| g.common == Common::Block { node: 3 })
        .expect("made");
    assert_eq!((first.objects, first.bytes, first.resized), (1, 300, 2));
    assert_eq!((first.ended, first.longest, first.most_live_bytes), (1, 100, 300));
    assert_eq!(first.element_bytes(), Some(100));
}

#[test]
fn wrappers_are_seen_through() {
    let mut tree = Tree::default();
    let mut path = |sites: &[u64]| sites.iter().fold(Tree::ROOT, |node, &site| tree.call(node, site));
    // main calls xmalloc from 10 and 20, which calls malloc from 500, which calls inner functions
    // from 600.
    let (first, second) = (path(&[1, 10, 500, 600]), path(&[1, 20, 500]));
    let (wanted_first, wanted_second) = (path(&[1, 10]), path(&[1, 20]));
    let other = path(&[2, 10]);
    let options = Options {
        wrapper: Some(Box::new(|site| site >= 500)),
        ..Options::default()
    };
    let mut hand = Hand::new(options);
    hand.tree = tree.clone();
    hand.alloc(first, 0x1000, 16);
    hand.alloc(second, 0x2000, 16);
    assert_eq!(hand.at(0x1000), Common::Block { node: wanted_first });
    assert_eq!(hand.at(0x2000), Common::Block { node: wanted_second });
    let options = Options {
        wrapper: Some(Box::new(|site| site >= 500)),
        depth: 1,
        threshold: 9,
        ..Options::default()
    };
    let mut hand = Hand::new(options);
    hand.tree = tree;
    hand.alloc(first, 0x1000, 16);
    hand.alloc(other, 0x2000, 16);
    hand.alloc(second, 0x3000, 16);
    hand.alloc(second, 0x4000, 8);
    assert_eq!(hand.at(0x1000), Common::Block { node: wanted_first });
    assert_eq!(
        hand.at(0x2000),
        Common::Block { node: wanted_first },
        "the same last call"
    );
    assert_eq!(hand.at(0x3000), Common::Block { node: wanted_second });
    assert_eq!(hand.at(0x4000), Common::Small);
}

#[test]
fn the_heap_segment_is_the_allocators_where_there_is_no_block() {
    let mut hand = Hand::new(Options::default());
    hand.note(0, Note::Break { address: 0x10000 });
    assert_eq!(hand.at(0x10000), Common::Unknown);
    hand.note(0, Note::Break { address: 0x31000 });
    hand.alloc(5, 0x10010, 24);
    assert_eq!(hand.at(0x1000f), Common::Break);
    assert_eq!(hand.at(0x10027), Common::Block { node: 5 });
    assert_eq!(hand.at(0x10028), Common::Break);
    hand.free(0x10010);
    assert_eq!(hand.at(0x10010), Common::Break);
    hand.note(0, Note::Break { address: 0x20000 });
    assert_eq!(hand.at(0x1ffff), Common::Break);
    assert_eq!(hand.at(0x20000), Common::Unknown);
    hand.note(0, Note::Break { address: 0x40000 });
    assert_eq!(hand.at(0x3ffff), Common::Break);
    let groups = hand.objects.groups();
    let segment = groups.iter().find(|g| g.common == Common::Break).expect("made");
    assert_eq!((segment.objects, segment.live_bytes), (1, 0x30000));
}

#[test]
fn anonymous_memory_with_blocks_in_it_is_an_arena() {
    let mut hand = Hand::new(Options::default());
    hand.map(0x10000, 0x10000, Note::ANONYMOUS);
    hand.map(0x20000, 0x10000, 77);
    assert_eq!(hand.at(0x10800), Common::Anonymous { node: 0 });
    hand.alloc(5, 0x10010, 0x1000);
    assert_eq!(hand.at(0x10000), Common::Arena);
    assert_eq!(hand.at(0x1100f), Common::Block { node: 5 });
    assert_eq!(hand.at(0x11010), Common::Arena);
    assert_eq!(hand.at(0x20000), Common::File { source: 77 });
    hand.free(0x10010);
    assert_eq!(hand.at(0x10010), Common::Arena);
}

#[test]
fn a_moved_mapping_stays_what_it_is() {
    let mut hand = Hand::new(Options::default());
    hand.objects.now = 4;
    hand.map(0x10000, 0x4000, 77);
    let (old, old_bytes) = (0x10000, 0x4000);
    hand.note(
        0,
        Note::Remap {
            old,
            old_bytes,
            address: old,
            bytes: 0x6000,
        },
    );
    assert_eq!(hand.at(0x15fff), Common::File { source: 77 });
    hand.note(
        0,
        Note::Remap {
            old,
            old_bytes: 0x6000,
            address: old,
            bytes: 0x1000,
        },
    );
    assert_eq!(hand.at(0x11000), Common::Unknown);
    hand.objects.now = 44;
    hand.note(
        0,
        Note::Remap {
            old,
            old_bytes: 0x1000,
            address: 0x80000,
            bytes: 0x2000,
        },
    );
    assert_eq!(hand.at(0x10000), Common::Unknown);
    assert_eq!(hand.at(0x81fff), Common::File { source: 77 });
    let found = hand.objects.find(hand.space, 0x80000, UNKNOWN);
    assert_eq!(
        (hand.objects.object(found).birth, hand.objects.object(found).bytes),
        (4, 0x2000)
    );
}

#[test]
fn stacks_grow_down_as_far_as_they_may() {
    let mut hand = Hand::new(Options::default());
    hand.map(0x7000_0000, 0x21000, 55);
    hand.objects.stack(hand.space, Thread(0), 0x7002_0ff0);
    let stack = Common::Stack { thread: Thread(0) };
    assert_eq!(hand.at(0x7000_0000), stack);
    assert_eq!(hand.at(0x7002_1000 - (8 << 20)), stack);
    assert_eq!(hand.at(0x7002_1000 - (8 << 20) - 1), Common::Unknown);
    assert_eq!(hand.at(0x7002_1000), Common::Unknown);
    // Whatever is mapped there later is not the stack.
    hand.map(0x6fff_0000, 0x1000, 56);
    assert_eq!(hand.at(0x6fff_0000), Common::File { source: 56 });
    assert_eq!(hand.at(0x6fff_1000), stack);
    // The memory of a thread that has ended is the next one's.
    hand.map(0x5000_0000, 0x80_0000, Note::ANONYMOUS);
    hand.objects.stack(hand.space, Thread(1), 0x507f_ff00);
    assert_eq!(hand.at(0x5000_0000), Common::Stack { thread: Thread(1) });
    hand.objects.stack(hand.space, Thread(2), 0x507f_ff00);
    assert_eq!(hand.at(0x5000_0000), Common::Stack { thread: Thread(2) });
    // A stack in a block is the block.
    hand.alloc(5, 0x1000, 0x1000);
    hand.objects.stack(hand.space, Thread(3), 0x1ff0);
    assert_eq!(hand.at(0x1800), Common::Block { node: 5 });
    // One of which nothing was known.
    hand.objects.stack(hand.space, Thread(4), 0x9000_0000);
    assert_eq!(hand.at(0x8fff_0000), Common::Stack { thread: Thread(4) });
}

#[test]
fn a_terabyte_costs_nothing_until_it_is_used() {
    let mut hand = Hand::new(Options::default());
    hand.map(0x1000_0000_0000, 1 << 40, Note::ANONYMOUS);
    hand.alloc(5, 0x1000_0000_0010, (1 << 40) - 32);
    assert_eq!(hand.at(0x1080_0000_0000), Common::Block { node: 5 });
    hand.free(0x1000_0000_0010);
    assert_eq!(hand.at(0x1080_0000_0000), Common::Arena);
    hand.note(
        0,
        Note::Unmap {
            address: 0,
            bytes: u64::MAX,
        },
    );
    assert_eq!(hand.at(0x1080_0000_0000), Common::Unknown);
    assert!(hand.objects.is_empty());
}

#[test]
fn names_of_nothing_and_odd_frees_are_counted() {
    let mut hand = Hand::new(Options::default());
    hand.free(0);
    hand.free(0x5000);
    hand.note(
        0,
        Note::Name {
            address: 0x5000,
            bytes: 0,
            text: 1,
        },
    );
    hand.alloc(1, 0x5000, 8);
    hand.alloc(2, 0x5000, 8);
    hand.note(
        0,
        Note::Name {
            address: 0x5004,
            bytes: 0,
            text: 1,
        },
    );
    assert_eq!(hand.at(0x5000), Common::Name { text: 1 });
    hand.map(0x5000, 0x1000, 3);
    let counted = hand.objects.anomalies();
    assert_eq!((counted.unmatched, counted.overlaid), (1, 1));
    assert_eq!((counted.unmapped, counted.unnameable), (1, 1));
}
