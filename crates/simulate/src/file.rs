//! A hierarchy as a TOML file.
//!
//! ```toml
//! cores = 4
//! seed = 7
//! [[level]]
//! name = "L1"
//! size = "32K"
//! ways = 8
//! ```
//!
//! The fields of a level are those of the table in `docs/simulation.md`. Values are walked by hand
//! rather than deserialized: every error then knows its line, its level and its field, also those
//! that the check of the whole hierarchy finds afterwards.
use crate::config::{ConfigError, Hierarchy, Shared};
use crate::draft::{check_name, finish, parse_size, wrong, Draft, Setting, SIZE_FORM};
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("line {line}: {what}")]
    Toml { line: usize, what: String },
    #[error("line {line}: unknown field {field}; there are {known}")]
    Unknown { line: usize, field: String, known: String },
    #[error("line {line}: {source}")]
    Config { line: usize, source: ConfigError },
}

const TOP: [&str; 3] = ["cores", "seed", "level"];
const SETTINGS: [&str; 7] = [
    "policy",
    "holds",
    "write",
    "allocate",
    "inclusion",
    "shared",
    "prefetch",
];
const GEOMETRY: [&str; 4] = ["name", "size", "line", "ways"];

type Table<'t> = DeTable<'t>;
type Value<'t> = Spanned<DeValue<'t>>;

/// A level's place in the text, to find the line of what is wrong with it.
struct Place {
    level: String,
    head: usize,
    fields: Vec<(String, usize)>,
}

/// Reads a hierarchy and checks it.
pub fn hierarchy(text: &str) -> Result<Hierarchy, FileError> {
    let reader = Reader { text };
    let document = DeTable::parse(text).map_err(|error| FileError::Toml {
        line: reader.line(error.span().unwrap_or(0..0)),
        what: error.message().to_string(),
    })?;
    let document = document.get_ref();
    reader.known(document, &[&TOP])?;
    let mut hierarchy = Hierarchy::default();
    if let Some(cores) = document.get("cores") {
        hierarchy.cores = Some(reader.number(cores, "hierarchy", "cores")?);
    }
    if let Some(seed) = document.get("seed") {
        hierarchy.seed = reader.number(seed, "hierarchy", "seed")?;
    }
    let mut drafts = Vec::new();
    let mut places = Vec::new();
    for level in reader.levels(document)? {
        let (draft, place) = reader.level(level)?;
        drafts.push(draft);
        places.push(place);
    }
    hierarchy.levels = finish(drafts);
    let line = |error: &ConfigError| match error {
        ConfigError::Field { level, field, .. } => line_of(&places, level, field),
        ConfigError::SameName(name) => places.iter().rev().find(|p| p.level == *name).map(|p| p.head),
        ConfigError::NoCores => document.get("cores").map(|cores| reader.line(cores.span())),
        ConfigError::NoLevels | ConfigError::NoData => None,
    };
    hierarchy.check().map_err(|source| FileError::Config {
        line: line(&source).unwrap_or(1),
        source,
    })?;
    Ok(hierarchy)
}

fn line_of(places: &[Place], level: &str, field: &str) -> Option<usize> {
    let place = places.iter().find(|p| p.level == level)?;
    let said = place.fields.iter().find(|(name, _)| name == field);
    Some(said.map_or(place.head, |(_, line)| *line))
}

struct Reader<'t> {
    text: &'t str,
}

impl Reader<'_> {
    /// Counted from 1.
    fn line(&self, span: Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(span.start);
        1 + before.filter(|&&byte| byte == b'\n').count()
    }

    /// Nothing else may be there.
    fn known(&self, table: &Table<'_>, known: &[&[&str]]) -> Result<(), FileError> {
        let unknown = table
            .keys()
            .filter(|key| !known.iter().any(|k| k.contains(&key.get_ref().as_ref())));
        match unknown.min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => Err(FileError::Unknown {
                line: self.line(key.span()),
                field: key.get_ref().to_string(),
                known: known.concat().join(", "),
            }),
        }
    }

    fn wrong(&self, value: &Value<'_>, level: &str, field: &'static str, why: impl Into<String>) -> FileError {
        let shown = self.text.get(value.span()).unwrap_or_default();
        FileError::Config {
            line: self.line(value.span()),
            source: wrong(level, field, shown, why),
        }
    }

    /// A number that fits.
    fn number<N: TryFrom<u64>>(&self, value: &Value<'_>, level: &str, field: &'static str) -> Result<N, FileError> {
        whole(value)
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| self.wrong(value, level, field, "it is a whole number"))
    }

    fn levels<'d, 't>(&self, document: &'d Table<'t>) -> Result<Vec<&'d Value<'t>>, FileError> {
        let Some(value) = document.get("level") else {
            return Ok(Vec::new());
        };
        let levels = value.get_ref().as_array().map(|levels| levels.iter().collect());
        levels.ok_or_else(|| self.wrong(value, "hierarchy", "level", "levels are written [[level]]"))
    }

    fn level(&self, value: &Value<'_>) -> Result<(Draft, Place), FileError> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.wrong(value, "hierarchy", "level", "levels are written [[level]]"));
        };
        let head = self.line(value.span());
        let missing = |level: &str, field, why: &str| FileError::Config {
            line: head,
            source: wrong(level, field, "(missing)", why),
        };
        let name = table
            .get("name")
            .ok_or_else(|| missing("level", "name", "each level has a name"))?;
        let Some(text) = name.get_ref().as_str() else {
            return Err(self.wrong(name, "level", "name", "it is a text"));
        };
        check_name(text).map_err(|source| FileError::Config {
            line: self.line(name.span()),
            source,
        })?;
        self.known(table, &[&GEOMETRY, &SETTINGS])?;
        let size = table
            .get("size")
            .ok_or_else(|| missing(text, "size", "each level has a size"))?;
        let bytes = whole(size).or_else(|| size.get_ref().as_str().and_then(parse_size));
        let mut draft = Draft::new(text, bytes.ok_or_else(|| self.wrong(size, text, "size", SIZE_FORM))?);
        if let Some(line) = table.get("line") {
            draft.line(self.number(line, text, "line")?);
        }
        if let Some(ways) = table.get("ways") {
            draft.ways(self.ways(ways, text)?);
        }
        for field in SETTINGS {
            let Some(value) = table.get(field) else { continue };
            let set = draft.set(self.setting(value, text, field)?);
            set.map_err(|source| FileError::Config { line: head, source })?;
        }
        let fields = table
            .iter()
            .map(|(key, value)| (key.get_ref().to_string(), self.line(value.span())));
        let place = Place {
            level: text.to_string(),
            head,
            fields: fields.collect(),
        };
        Ok((draft, place))
    }

    /// `None` is `full`.
    fn ways(&self, value: &Value<'_>, level: &str) -> Result<Option<u32>, FileError> {
        if value.get_ref().as_str() == Some("full") {
            return Ok(None);
        }
        let number = whole(value).and_then(|number| u32::try_from(number).ok());
        let wrong = || self.wrong(value, level, "ways", "ways are a number, or \"full\"");
        number.map(Some).ok_or_else(wrong)
    }

    fn setting(&self, value: &Value<'_>, level: &str, field: &'static str) -> Result<Setting, FileError> {
        let found = match (field, value.get_ref()) {
            ("shared", DeValue::Integer(_)) => {
                let cores = whole(value).and_then(|cores| u32::try_from(cores).ok());
                cores.map(|cores| Setting::Shared(Shared::By(cores)))
            }
            ("shared", DeValue::String(text)) if text != "all" => None,
            ("allocate", DeValue::Boolean(yes)) => Some(Setting::Allocate(*yes)),
            ("allocate", _) => None,
            (_, DeValue::String(text)) => Setting::of_field(field, text),
            _ => None,
        };
        found.ok_or_else(|| {
            let allowed = match field {
                "shared" => "a number of cores, or \"all\"".to_string(),
                _ => format!("one of {}", Setting::allowed(field)),
            };
            self.wrong(value, level, field, format!("it is {allowed}"))
        })
    }
}

fn whole(value: &Value<'_>) -> Option<u64> {
    let integer = value.get_ref().as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Level, Policy, Prefetch, Write};

    #[test]
    fn every_field_is_read() {
        let text = r#"
            cores = 4
            seed = 0x7
            [[level]]
            name = "L1"
            size = "48K"
            line = 64
            ways = 12
            policy = "fifo"
            holds = "data"
            write = "through"
            allocate = false
            prefetch = "next:2"
            [[level]]
            name = "L2"
            size = 1_048_576
            ways = "full"
            inclusion = "inclusive"
            shared = 2
            prefetch = "stride:4"
            [[level]]
            name = "L3"
            size = "8M"
        "#;
        let read = hierarchy(text).unwrap();
        assert_eq!((read.cores, read.seed), (Some(4), 7));
        let shown: Vec<String> = read.levels.iter().map(Level::to_string).collect();
        let expected = [
            "L1=48K:64:12:fifo:data:write-through:no-allocate:private:next=2",
            "L2=1M:64:16384:inclusive:shared=2:stride=4",
            "L3=8M:64:8:shared",
        ];
        assert_eq!(shown, expected);
        assert_eq!(read.levels[0].policy, Policy::Fifo);
        assert_eq!(read.levels[0].write, Write::Through);
        assert_eq!(read.levels[1].prefetch, Prefetch::Stride(4));
        assert_eq!(read.levels[2].shared, Shared::All);
    }

    /// A file of one level with these further lines, and what is wrong with it.
    fn error(lines: &str) -> String {
        hierarchy(&format!("[[level]]\nname = \"L1\"\n{lines}"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        let cases = [
            ("size = \"32K\"\nways = 0", "line 4: L1: ways = 0: a set has at least one way"),
            ("size = 32\nways = 1", "line 3: L1: size = 32: less than a line of 64 bytes"),
            ("size = \"32K\"\nline = 48", "line 4: L1: line = 48: a line is a power of two from 4 to 4096 bytes"),
            ("size = \"32K\"\npolicy = \"mru\"", "line 4: L1: policy = \"mru\": it is one of lru, fifo, random, plru"),
            ("size = \"32K\"\npolicy = 1", "line 4: L1: policy = 1: it is one of lru, fifo, random, plru"),
            ("size = \"32K\"\nholds = \"code\"", "line 4: L1: holds = \"code\": it is one of data, instructions, both"),
            ("size = \"32K\"\nwrite = true", "line 4: L1: write = true: it is one of back, through, none"),
            ("size = \"32K\"\nallocate = \"true\"", "line 4: L1: allocate = \"true\": it is one of true, false"),
            ("size = \"32K\"\nshared = \"some\"", "line 4: L1: shared = \"some\": it is a number of cores, or \"all\""),
            ("size = \"32K\"\nshared = 0", "line 4: L1: shared = 0: a cache belongs to at least one core"),
            (
                "size = \"32K\"\nprefetch = \"next\"",
                "line 4: L1: prefetch = \"next\": it is one of none, next:N, stride:N",
            ),
            (
                "size = \"32K\"\ninclusion = \"inclusive\"",
                "line 4: L1: inclusion = inclusive: there is no level above it",
            ),
            ("size = \"32K\"\nways = 8.5", "line 4: L1: ways = 8.5: ways are a number, or \"full\""),
            ("size = \"32K\"\nline = \"64\"", "line 4: L1: line = \"64\": it is a whole number"),
            ("size = -1", "line 3: L1: size = -1: a size is a number of bytes, or one with K, M or G (1024 each)"),
            ("size = [1]", "line 3: L1: size = [1]: a size is a number of bytes, or one with K, M or G (1024 each)"),
            ("ways = 8", "line 1: L1: size = (missing): each level has a size"),
            (
                "size = \"32K\"\n\nassociativity = 8",
                "line 5: unknown field associativity; there are name, size, line, ways, policy, holds, write, allocate, \
                inclusion, shared, prefetch",
            ),
            ("size = \"1M\"\n[[level]]\nname = \"L1\"\nsize = 64\nways = 1", "line 4: two levels are called L1"),
            (
                "size = \"1M\"\n[[level]]\nname = \"L2\"\nsize = \"512K\"\ninclusion = \"inclusive\"",
                "line 6: L2: size = 524288: an inclusive cache smaller than L1 (1048576 bytes) above it",
            ),
            (
                "size = \"1M\"\nwrite = \"none\"\n[[level]]\nname = \"L2\"\nsize = \"4M\"\ninclusion = \"exclusive\"",
                "line 8: L2: inclusion = exclusive: L1 above it must write back",
            ),
        ];
        for (lines, message) in cases {
            assert_eq!(error(lines), message);
        }
    }

    #[test]
    fn errors_outside_of_levels_name_the_field_too() {
        let cases = [
            ("", "line 1: no cache is given"),
            ("core = 4", "line 1: unknown field core; there are cores, seed, level"),
            (
                "\ncores = \"four\"",
                "line 2: hierarchy: cores = \"four\": it is a whole number",
            ),
            (
                "cores = 5000000000",
                "line 1: hierarchy: cores = 5000000000: it is a whole number",
            ),
            ("seed = 1.5", "line 1: hierarchy: seed = 1.5: it is a whole number"),
            (
                "level = 3",
                "line 1: hierarchy: level = 3: levels are written [[level]]",
            ),
            (
                "level = [3]",
                "line 1: hierarchy: level = 3: levels are written [[level]]",
            ),
            (
                "[[level]]\nsize = 64",
                "line 1: level: name = (missing): each level has a name",
            ),
            ("[[level]]\nname = 3", "line 2: level: name = 3: it is a text"),
            (
                "[[level]]\nname = \"L 1\"",
                "line 2: level: name = \"L 1\": a name consists of letters, digits, '-', '_' and '.'",
            ),
            (
                "\ncores = 0\n[[level]]\nname = \"L1\"\nsize = \"32K\"",
                "line 2: cores = 0: there is at least one",
            ),
            (
                "[[level]]\nname = \"I\"\nsize = \"32K\"\nholds = \"instructions\"",
                "line 1: no level holds data",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(hierarchy(text).unwrap_err().to_string(), message);
        }
        for text in ["[[level]]\nsize = = 3", "[[level]]\nsize"] {
            let error = hierarchy(text).unwrap_err();
            assert!(matches!(error, FileError::Toml { line: 2, .. }), "{error}");
        }
    }
}
