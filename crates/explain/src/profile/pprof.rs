//! pprof's format: a protocol-buffer message, which `go tool pprof` and others read.
//!
//! The message has a dozen fields of two wire types, so it is written here rather than by a
//! generated encoder. It is not compressed: readers accept both, and whoever wants it smaller has
//! gzip.
use super::{Profile, StackFrame};
use std::collections::HashMap;
use std::hash::Hash;

/// Fields of the message, as `profile.proto` numbers them.
mod field {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const FUNCTION: u64 = 5;
    pub const STRING: u64 = 6;
    pub const DEFAULT_TYPE: u64 = 14;
}

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) -> &mut Message {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Message {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn packed(&mut self, field: u64, values: &[u64]) -> &mut Message {
        let mut inner = Message::default();
        values.iter().for_each(|&value| inner.varint(value));
        self.bytes(field, &inner.0)
    }
}

/// Numbers things as they come, from `first`.
struct Numbers<T> {
    first: u64,
    numbers: HashMap<T, u64>,
    all: Vec<T>,
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    fn from(first: u64) -> Numbers<T> {
        Numbers {
            first,
            numbers: HashMap::new(),
            all: Vec::new(),
        }
    }

    fn of(&mut self, thing: T) -> u64 {
        if let Some(&number) = self.numbers.get(&thing) {
            return number;
        }
        let number = self.first + self.all.len() as u64;
        self.numbers.insert(thing.clone(), number);
        self.all.push(thing);
        number
    }
}

/// All events of a profile, with what is accessed, the object and the thread as labels.
pub fn pprof(profile: &Profile) -> Vec<u8> {
    let mut strings: Numbers<String> = Numbers::from(0);
    strings.of(String::new());
    let mut modules: Numbers<String> = Numbers::from(1);
    // Function, file, module.
    let mut functions: Numbers<(String, String)> = Numbers::from(1);
    // Function, line, module.
    let mut locations: Numbers<(u64, u32, u64)> = Numbers::from(1);
    let mut out = Message::default();
    for event in &profile.events {
        let mut kind = Message::default();
        kind.number(1, strings.of(event.clone()))
            .number(2, strings.of("count".into()));
        out.bytes(field::SAMPLE_TYPE, &kind.0);
    }
    for sample in &profile.samples {
        let mut location = |frame: &StackFrame| {
            let function = functions.of((frame.function.clone(), frame.file.clone()));
            locations.of((function, frame.line, modules.of(frame.module.clone())))
        };
        // The innermost comes first here.
        let stack: Vec<u64> = sample.stack.iter().rev().map(&mut location).collect();
        let mut message = Message::default();
        message.packed(1, &stack).packed(2, &sample.values);
        let texts = [("reference", Some(&sample.words)), ("object", sample.object.as_ref())];
        for (key, text) in texts.into_iter().filter_map(|(key, text)| Some((key, text?))) {
            let mut label = Message::default();
            label
                .number(1, strings.of(key.into()))
                .number(2, strings.of(text.clone()));
            message.bytes(3, &label.0);
        }
        if let Some(thread) = sample.thread {
            let mut label = Message::default();
            label.number(1, strings.of("thread".into())).number(3, thread.into());
            message.bytes(3, &label.0);
        }
        out.bytes(field::SAMPLE, &message.0);
    }
    for (module, id) in modules.all.iter().zip(1..) {
        let mut message = Message::default();
        message
            .number(1, id)
            .number(5, strings.of(module.clone()))
            .number(7, 1)
            .number(8, 1)
            .number(9, 1);
        out.bytes(field::MAPPING, &message.0);
    }
    for (&(function, line, module), id) in locations.all.iter().zip(1..) {
        let (mut at, mut message) = (Message::default(), Message::default());
        at.number(1, function).number(2, line.into());
        message.number(1, id).number(2, module).bytes(4, &at.0);
        out.bytes(field::LOCATION, &message.0);
    }
    for ((name, file), id) in functions.all.iter().zip(1..) {
        let mut message = Message::default();
        let (name, file) = (strings.of(name.clone()), strings.of(file.clone()));
        message.number(1, id).number(2, name).number(3, name).number(4, file);
        out.bytes(field::FUNCTION, &message.0);
    }
    let default = profile.events.iter().find(|event| event.ends_with("_misses"));
    let default = strings.of(default.or(profile.events.first()).cloned().unwrap_or_default());
    for text in &strings.all {
        out.bytes(field::STRING, text.as_bytes());
    }
    out.number(field::DEFAULT_TYPE, default);
    out.0
}
