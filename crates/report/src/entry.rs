//! Dimensions, and what their ids stand for.
use crate::format::base;
use memtrail_model::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What rows can be told apart by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dimension {
    /// An instruction's reads, or its writes.
    Ref,
    /// The calls that led there.
    Callpath,
    /// The data: a variable, or blocks allocated by the same calls.
    Object,
    /// One block of an object.
    Block,
    /// A field of the structure that an object's elements are.
    Field,
    /// A line of source.
    Line,
    Function,
    /// The innermost loop around.
    Loop,
    /// A program or library.
    Module,
    Thread,
    Process,
    /// A rank of a parallel job.
    Rank,
    /// A kind of phase of the run.
    Phase,
}

impl Dimension {
    pub const ALL: [Dimension; 13] = [
        Dimension::Ref,
        Dimension::Callpath,
        Dimension::Object,
        Dimension::Block,
        Dimension::Field,
        Dimension::Line,
        Dimension::Function,
        Dimension::Loop,
        Dimension::Module,
        Dimension::Thread,
        Dimension::Process,
        Dimension::Rank,
        Dimension::Phase,
    ];

    /// As on the command line, in JSON and in files.
    pub fn word(self) -> &'static str {
        match self {
            Dimension::Ref => "ref",
            Dimension::Callpath => "callpath",
            Dimension::Object => "object",
            Dimension::Block => "block",
            Dimension::Field => "field",
            Dimension::Line => "line",
            Dimension::Function => "function",
            Dimension::Loop => "loop",
            Dimension::Module => "module",
            Dimension::Thread => "thread",
            Dimension::Process => "process",
            Dimension::Rank => "rank",
            Dimension::Phase => "phase",
        }
    }

    /// What follows from it without making more rows.
    fn implied(self) -> &'static [Dimension] {
        match self {
            Dimension::Ref => &[Dimension::Line, Dimension::Function, Dimension::Module],
            _ => &[],
        }
    }

    /// All dimensions that a set by `by` can have without more rows, each once.
    pub fn with_implied(by: &[Dimension]) -> Vec<Dimension> {
        let mut all = by.to_vec();
        let implied = by.iter().flat_map(|by| by.implied());
        all.extend(implied);
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Dimension {
    type Err = String;

    fn from_str(text: &str) -> Result<Dimension, String> {
        let found = Dimension::ALL.into_iter().find(|dimension| dimension.word() == text);
        found.ok_or_else(|| {
            let words: Vec<&str> = Dimension::ALL.iter().map(|dimension| dimension.word()).collect();
            format!("there are {}", words.join(", "))
        })
    }
}

/// The word for a kind of access.
pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Prefetch => "prefetch",
        Kind::Fetch => "fetch",
    }
}

/// Kinds of accesses as words.
mod kind {
    use super::{kind_word, Kind};
    use serde::{de::Error, Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(kind: &Kind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind_word(*kind))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
        let word = String::deserialize(from)?;
        let kinds = [Kind::Read, Kind::Write, Kind::Prefetch, Kind::Fetch];
        let found = kinds.into_iter().find(|&kind| kind_word(kind) == word);
        found.ok_or_else(|| D::Error::custom(format_args!("{word:?} is no kind of access")))
    }
}

/// A reference point: an instruction, and a kind of its accesses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reference {
    pub module: Option<String>,
    /// In the module.
    pub offset: Option<u64>,
    #[serde(with = "kind")]
    pub kind: Kind,
    /// `xz_Read_1`.
    pub name: String,
    /// `xz[k][j]`.
    pub source: Option<String>,
    /// Nothing had to be guessed.
    pub certain: bool,
    /// The variable and the way into it: `xz[][]`.
    pub variable: Option<String>,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Where it was; one of several places, if processes had it in different ones.
    pub pc: u64,
    /// Of generated code: which of the instructions that were there one after the other.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub instance: u32,
    /// What an access is that no expression of the source stands for: `spill`, `return address`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Reference {
    /// `module+offset`, or the address.
    pub fn address(&self) -> String {
        match (&self.module, self.offset) {
            (Some(module), Some(offset)) => format!("{module}+{offset:#x}"),
            _ => format!("{:#x}", self.pc),
        }
    }

    /// `file:line`.
    pub fn short_line(&self) -> Option<String> {
        Some(format!("{}:{}", base(self.file.as_deref()?), self.line?))
    }

    /// Whether it is code of a library or of start-up.
    pub fn is_foreign(&self) -> bool {
        self.module.as_deref().is_some_and(is_library) || self.function.as_deref().is_some_and(is_startup)
    }

    /// What is accessed, in the words of the source, or else what the access is for.
    pub fn words(&self) -> String {
        // What was guessed is marked.
        let guessed = if self.certain { "" } else { " ?" };
        let written = self.source.as_ref().map(|source| format!("{source}{guessed}"));
        let source = written.or_else(|| self.variable.clone());
        let source = source.or_else(|| self.what.clone());
        source.unwrap_or_else(|| kind_word(self.kind).to_string())
    }

    /// File and line, or module and offset.
    pub fn place(&self) -> String {
        self.short_line().unwrap_or_else(|| self.address())
    }
}

/// A path of calls, the outermost first.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallPath {
    /// As people know them: `main (a.c:3)`.
    pub calls: Vec<String>,
    /// As they are told apart: `a.out+0x1150`.
    pub sites: Vec<String>,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLine {
    pub file: String,
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", base(&self.file), self.line)
    }
}

/// An object, or a group of objects that have something in common.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Object {
    /// What it is called by itself; a view adds what tells it from others of this name.
    pub name: String,
    pub kind: String,
    /// Of a variable.
    #[serde(rename = "type")]
    pub ty: Option<String>,
    pub module: Option<String>,
    /// Of a variable, in its module.
    pub offset: Option<u64>,
    /// The calls that allocated it.
    pub path: CallPath,
    /// That asked for it.
    pub line: Option<SourceLine>,
    pub facts: Facts,
}

/// What is known of the objects of a group. All of it can be merged: numbers are added up, peaks
/// are compared.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Of a variable its own, of others the most at a time.
    pub bytes: Option<u64>,
    /// How many objects there have been.
    pub blocks: u64,
    /// At a time.
    pub most_live: u64,
    /// Of all that were made, and all they grew by.
    pub total_bytes: u64,
    pub resized: u64,
    /// Of those that ended: how many, and how many accesses they lived for, in sum and at most.
    pub ended: u64,
    pub lifetime: u128,
    pub longest: u64,
    /// Blocks by the usual size of an element.
    pub elements: BTreeMap<u64, u64>,
    /// Steps by the pattern that they were found to be part of.
    pub patterns: BTreeMap<String, u64>,
    /// Steps by the stride that they had, as far as it is known.
    pub strides: BTreeMap<i64, u64>,
}

/// The key that has most, and how many; of equal ones the smallest.
fn most<K: Clone + Ord>(counts: &BTreeMap<K, u64>) -> Option<(K, u64)> {
    let most = counts.iter().rev().max_by_key(|(_, &n)| n);
    most.map(|(key, &n)| (key.clone(), n))
}

fn add<K: Ord>(to: &mut BTreeMap<K, u64>, from: BTreeMap<K, u64>) {
    from.into_iter().for_each(|(key, n)| *to.entry(key).or_default() += n);
}

impl Facts {
    pub fn element_bytes(&self) -> Option<u64> {
        most(&self.elements).map(|(bytes, _)| bytes)
    }

    pub fn pattern(&self) -> Option<String> {
        most(&self.patterns).map(|(pattern, _)| pattern)
    }

    pub fn steps(&self) -> u64 {
        self.patterns.values().sum()
    }

    pub fn stride(&self) -> Option<(i64, u64)> {
        most(&self.strides)
    }

    /// `variable`: it is one thing, in however many parts it was found.
    fn merge(&mut self, other: Facts, variable: bool) {
        self.bytes = self.bytes.max(other.bytes);
        self.blocks = match variable {
            true => self.blocks.max(other.blocks),
            false => self.blocks + other.blocks,
        };
        self.most_live = self.most_live.max(other.most_live);
        self.total_bytes += other.total_bytes;
        self.resized += other.resized;
        self.ended += other.ended;
        self.lifetime += other.lifetime;
        self.longest = self.longest.max(other.longest);
        add(&mut self.elements, other.elements);
        add(&mut self.patterns, other.patterns);
        add(&mut self.strides, other.strides);
    }
}

/// One block of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Block {
    /// The first of its object is 1.
    pub number: u64,
    /// When it was first accessed.
    pub address: u64,
    pub bytes: u64,
    /// Accesses before it was made.
    pub born: u64,
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Field {
    /// The structure: `struct particle`.
    #[serde(rename = "struct")]
    pub of: String,
    pub offset: u64,
    pub bytes: u64,
    /// The way to it: `pos.x`.
    pub name: String,
    #[serde(rename = "type")]
    pub ty: String,
}

/// A process of the recording.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    pub serial: u32,
    /// Process id and the programs it ran: `4711 sh → ls`.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Function {
    pub name: String,
    pub module: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Loop {
    /// Of its header, module and offset.
    pub address: String,
    pub function: String,
    pub file: Option<String>,
    pub first_line: Option<u32>,
    pub last_line: Option<u32>,
    /// 0: in no other.
    pub depth: u32,
    pub irreducible: bool,
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.first_line, self.last_line) {
            (Some(file), Some(low), Some(high)) => write!(f, "{} ({}:{low}-{high})", self.function, base(file)),
            _ => write!(f, "{} ({})", self.function, self.address),
        }
    }
}

/// What an id stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Entry {
    Ref(Box<Reference>),
    Callpath(CallPath),
    Object(Box<Object>),
    Block(Block),
    /// Nothing if the data has no known fields.
    Field(Option<Field>),
    /// Nothing if the line is not known.
    Line(Option<SourceLine>),
    Function(Function),
    /// Nothing outside loops.
    Loop(Option<Loop>),
    Module(String),
    Thread(u32),
    Process(Process),
    /// `None` if the recording does not tell.
    Rank(Option<u32>),
    /// Its number, from 1.
    Phase(u32),
}

/// Whether a function is one that the compiler's start-up files bring.
fn is_startup(function: &str) -> bool {
    const NAMES: [&str; 8] = [
        "_start",
        "_init",
        "_fini",
        "frame_dummy",
        "register_tm_clones",
        "deregister_tm_clones",
        "__do_global_dtors_aux",
        "__libc_csu_init",
    ];
    NAMES.contains(&function)
}

/// Whether a module is a library, the dynamic linker, or of the kernel's making.
pub fn is_library(module: &str) -> bool {
    let name = base(module);
    // `[vdso]`, but not `[generated code]`, which is the program's own.
    name == "[vdso]"
        || name == "[vvar]"
        || name.ends_with(".so")
        || name.contains(".so.")
        || name.starts_with("ld-linux")
}

/// What entries of one dimension are sorted and told apart by.
pub type Key = (String, u64, String);

/// Texts as one that is different if any of them is.
fn joined(texts: &[String]) -> String {
    texts.join("\0")
}

impl Entry {
    pub fn dimension(&self) -> Dimension {
        match self {
            Entry::Ref(_) => Dimension::Ref,
            Entry::Callpath(_) => Dimension::Callpath,
            Entry::Object(_) => Dimension::Object,
            Entry::Block(_) => Dimension::Block,
            Entry::Field(_) => Dimension::Field,
            Entry::Line(_) => Dimension::Line,
            Entry::Function(_) => Dimension::Function,
            Entry::Loop(_) => Dimension::Loop,
            Entry::Module(_) => Dimension::Module,
            Entry::Thread(_) => Dimension::Thread,
            Entry::Process(_) => Dimension::Process,
            Entry::Rank(_) => Dimension::Rank,
            Entry::Phase(_) => Dimension::Phase,
        }
    }

    /// Whether it is code or data of a library, or of what runs before and after the program's own
    /// code.
    pub fn is_foreign(&self) -> bool {
        let library = |module: &Option<String>| module.as_deref().is_some_and(is_library);
        match self {
            Entry::Ref(r) => r.is_foreign(),
            Entry::Function(f) => library(&f.module) || is_startup(&f.name),
            Entry::Module(name) => is_library(name),
            Entry::Object(o) => match o.kind.as_str() {
                "file" => o.path.sites.last().is_some_and(|path| is_library(path)),
                _ => library(&o.module),
            },
            _ => false,
        }
    }

    /// Entries with the same key are the same thing. Files and lines are in their order, references
    /// as they stand in the code, all others in the order of names.
    pub fn key(&self) -> Key {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        match self {
            Entry::Ref(r) => {
                let at = r.offset.filter(|_| r.module.is_some()).unwrap_or(r.pc);
                // Kinds in the order that instructions have them.
                (text(&r.module), at, format!("{} {}", r.kind as u8, r.instance))
            }
            Entry::Callpath(path) => (joined(&path.calls), 0, joined(&path.sites)),
            Entry::Object(o) => {
                let place = o.offset.map_or_else(String::new, |offset| format!("{offset:#x}"));
                let line = o.line.as_ref().map(ToString::to_string);
                let rest = [o.kind.clone(), text(&o.ty), text(&o.module), place, text(&line)];
                let path = [joined(&o.path.calls), joined(&o.path.sites)];
                (o.name.clone(), 0, joined(&[joined(&rest), joined(&path)]))
            }
            Entry::Block(b) => (
                String::new(),
                b.number,
                format!("{:#x} {} {}", b.address, b.bytes, b.born),
            ),
            Entry::Field(None) | Entry::Line(None) | Entry::Loop(None) => Key::default(),
            Entry::Field(Some(f)) => (f.of.clone(), f.offset, joined(&[f.name.clone(), f.ty.clone()])),
            Entry::Line(Some(line)) => (line.file.clone(), line.line.into(), String::new()),
            Entry::Function(f) => (f.name.clone(), 0, text(&f.module)),
            Entry::Loop(Some(one)) => (one.address.clone(), 0, String::new()),
            Entry::Module(name) => (name.clone(), 0, String::new()),
            Entry::Thread(number) | Entry::Phase(number) => (String::new(), (*number).into(), String::new()),
            Entry::Process(process) => (String::new(), process.serial.into(), process.name.clone()),
            Entry::Rank(rank) => (String::new(), rank.map_or(0, |r| 1 + u64::from(r)), String::new()),
        }
    }

    /// Takes over what another part of a run knows of the same thing, whichever comes first.
    pub fn merge(&mut self, other: Entry) {
        match (self, other) {
            (Entry::Object(mine), Entry::Object(other)) => {
                let variable = matches!(mine.kind.as_str(), "static" | "tls");
                mine.facts.merge(other.facts, variable);
            }
            // Parts may have seen it in different places, or more or less around it.
            (Entry::Ref(mine), Entry::Ref(other)) if other < *mine => *mine = other,
            (Entry::Loop(Some(mine)), Entry::Loop(Some(other))) => {
                mine.first_line = mine.first_line.min(other.first_line);
                mine.last_line = mine.last_line.max(other.last_line);
                mine.depth = mine.depth.max(other.depth);
                mine.irreducible |= other.irreducible;
            }
            _ => {}
        }
    }
}
