//! Which instance of an object an address lies in, and how far from its beginning.
use crate::tables::names::Names;
use crate::tables::statics::Statics;
use memtrail_analyze::calls::Tree;
use memtrail_analyze::objects::{Objects, Options, UNKNOWN};
use memtrail_analyze::tagger::Variables;
use memtrail_model::{Event, Note, Thread};
use std::collections::HashMap;

/// Objects as they come and go, without what they are called.
pub struct Places {
    objects: Objects,
    variables: Variables,
    /// By thread.
    spaces: Vec<u32>,
    tree: Tree,
    /// By object (row), address space, address and birth: which instance of the object it is.
    instances: HashMap<(u32, u32, u64, u64), u32>,
    /// By row.
    counted: HashMap<u32, u32>,
}

/// Where in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within {
    /// From 0, in the order in which they get to memory.
    pub instance: u32,
    pub offset: u64,
    pub start: u64,
    pub bytes: u64,
    /// Nothing of this instance got to memory before.
    pub first: bool,
}

impl Places {
    pub fn new(names: &Names, program: &[u8], texts: memtrail_decode::Names, allocators: Vec<u32>) -> Places {
        let mut objects = Objects::new(Options {
            allocators,
            ..Options::default()
        });
        let statics = Statics::new(names, program, &mut objects);
        let variables = statics.watch(move |text| texts.text(text).map(<[u8]>::to_vec));
        Places {
            objects,
            variables,
            spaces: Vec::new(),
            tree: Tree::default(),
            instances: HashMap::new(),
            counted: HashMap::new(),
        }
    }

    pub fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Space { thread, space } => {
                let at = thread.0 as usize;
                if self.spaces.len() <= at {
                    self.spaces.resize(at + 1, 0);
                }
                self.spaces[at] = space;
            }
            Event::Fork { parent, child } => self.objects.forks(parent, child),
            Event::Note { thread, note, .. } => self.note(thread, note),
            _ => {}
        }
    }

    fn note(&mut self, thread: Thread, note: &Note) {
        let number = self.spaces.get(thread.0 as usize).copied().unwrap_or(0);
        let space = self.objects.space(number);
        self.objects.notes(space, thread, &self.tree, 0, note);
        match note {
            Note::Map { .. } => {
                for variable in (self.variables)(number, note) {
                    self.objects
                        .add_static(number, variable.address, variable.bytes, variable.group);
                }
            }
            Note::Unmap {
                address: 0,
                bytes: u64::MAX,
            } => self.objects.ends(number),
            _ => {}
        }
    }

    /// Where an address lies in the object of a row; nothing if no object is known there.
    pub fn find(&mut self, row: u32, space: u32, address: u64, now: u64) -> Option<Within> {
        self.objects.now = now;
        let index = self.objects.space(space);
        let object = self.objects.find(index, address, UNKNOWN);
        if object == UNKNOWN {
            return None;
        }
        let object = self.objects.object(object);
        let known = self.instances.len();
        let counted = &mut self.counted;
        let instance = self
            .instances
            .entry((row, space, object.address, object.birth))
            .or_insert_with(|| {
                let next = counted.entry(row).or_default();
                *next += 1;
                *next - 1
            });
        Some(Within {
            instance: *instance,
            offset: address - object.address,
            start: object.address,
            bytes: object.bytes,
            first: self.instances.len() > known,
        })
    }
}
