//! A level as it is being written down.
//!
//! The short form and the file say the same things in different words. Both are read into drafts,
//! which know what was said, so that nothing is said twice and what was not said gets its default:
//! also the one that depends on the other levels, since the last of several is shared by all. The
//! words of both forms stand in one table.
use crate::config::{ConfigError, Holds, Inclusion, Level, Policy, Prefetch, Shared, Write};
use std::fmt;

/// What can be said of a level besides its geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Policy(Policy),
    Holds(Holds),
    Write(Write),
    Allocate(bool),
    Inclusion(Inclusion),
    Shared(Shared),
    Prefetch(Prefetch),
}

/// A setting without a number: the field and its value in a file, and the word for both in the
/// short form.
struct Word {
    field: &'static str,
    value: &'static str,
    short: &'static str,
    setting: Setting,
}

const fn word(field: &'static str, value: &'static str, short: &'static str, setting: Setting) -> Word {
    Word {
        field,
        value,
        short,
        setting,
    }
}

const WORDS: &[Word] = &[
    word("policy", "lru", "lru", Setting::Policy(Policy::Lru)),
    word("policy", "fifo", "fifo", Setting::Policy(Policy::Fifo)),
    word("policy", "random", "random", Setting::Policy(Policy::Random)),
    word("policy", "plru", "plru", Setting::Policy(Policy::Plru)),
    word("holds", "data", "data", Setting::Holds(Holds::Data)),
    word(
        "holds",
        "instructions",
        "instructions",
        Setting::Holds(Holds::Instructions),
    ),
    word("holds", "both", "both", Setting::Holds(Holds::Both)),
    word("write", "back", "write-back", Setting::Write(Write::Back)),
    word("write", "through", "write-through", Setting::Write(Write::Through)),
    word("write", "none", "write-none", Setting::Write(Write::None)),
    word("allocate", "true", "allocate", Setting::Allocate(true)),
    word("allocate", "false", "no-allocate", Setting::Allocate(false)),
    word(
        "inclusion",
        "none",
        "non-inclusive",
        Setting::Inclusion(Inclusion::None),
    ),
    word(
        "inclusion",
        "inclusive",
        "inclusive",
        Setting::Inclusion(Inclusion::Inclusive),
    ),
    word(
        "inclusion",
        "exclusive",
        "exclusive",
        Setting::Inclusion(Inclusion::Exclusive),
    ),
    word("shared", "1", "private", Setting::Shared(Shared::By(1))),
    word("shared", "all", "shared", Setting::Shared(Shared::All)),
    word("prefetch", "none", "no-prefetch", Setting::Prefetch(Prefetch::None)),
];

/// What the short form allows, for its errors.
pub(crate) const SHORT_WORDS: &str = "lru, fifo, random, plru; data, instructions, both; write-back, write-through, write-none; \
    allocate, no-allocate; inclusive, exclusive, non-inclusive; private, shared, shared=N; next=N, stride=N, no-prefetch";

impl Setting {
    /// By its word in the short form.
    pub fn of_short(text: &str) -> Option<Setting> {
        if let Some((name, number)) = text.split_once('=') {
            let number = number.parse().ok()?;
            return match name {
                "shared" => Some(Setting::Shared(Shared::By(number))),
                _ => ahead(name, number),
            };
        }
        Some(WORDS.iter().find(|w| w.short == text)?.setting)
    }

    /// By a field and a text, as in a file.
    pub fn of_field(field: &str, value: &str) -> Option<Setting> {
        if let Some(word) = WORDS.iter().find(|w| w.field == field && w.value == value) {
            return Some(word.setting);
        }
        let (name, number) = value.split_once(':').filter(|_| field == "prefetch")?;
        ahead(name, number.parse().ok()?)
    }

    /// The texts a field can have in a file.
    pub fn allowed(field: &str) -> String {
        let words = WORDS.iter().filter(|w| w.field == field).map(|w| w.value);
        let mut allowed: Vec<&str> = words.collect();
        if field == "prefetch" {
            allowed.extend(["next:N", "stride:N"]);
        }
        allowed.join(", ")
    }

    pub fn field(self) -> &'static str {
        match self {
            Setting::Policy(_) => "policy",
            Setting::Holds(_) => "holds",
            Setting::Write(_) => "write",
            Setting::Allocate(_) => "allocate",
            Setting::Inclusion(_) => "inclusion",
            Setting::Shared(_) => "shared",
            Setting::Prefetch(_) => "prefetch",
        }
    }

    /// Its word in the short form.
    pub fn short(self) -> String {
        match (self.word(), self) {
            (Some(word), _) => word.short.to_string(),
            (None, Setting::Shared(_)) => format!("shared={self}"),
            (None, _) => self.to_string().replace(':', "="),
        }
    }

    fn word(self) -> Option<&'static Word> {
        WORDS.iter().find(|w| w.setting == self)
    }

    fn apply(self, level: &mut Level) {
        match self {
            Setting::Policy(policy) => level.policy = policy,
            Setting::Holds(holds) => level.holds = holds,
            Setting::Write(write) => level.write = write,
            Setting::Allocate(allocate) => level.allocate = allocate,
            Setting::Inclusion(inclusion) => level.inclusion = inclusion,
            Setting::Shared(shared) => level.shared = shared,
            Setting::Prefetch(prefetch) => level.prefetch = prefetch,
        }
    }

    /// All settings of a level.
    pub fn of_level(level: &Level) -> [Setting; 7] {
        [
            Setting::Policy(level.policy),
            Setting::Holds(level.holds),
            Setting::Write(level.write),
            Setting::Allocate(level.allocate),
            Setting::Inclusion(level.inclusion),
            Setting::Shared(level.shared),
            Setting::Prefetch(level.prefetch),
        ]
    }
}

fn ahead(prefetcher: &str, number: u32) -> Option<Setting> {
    match prefetcher {
        "next" => Some(Setting::Prefetch(Prefetch::Next(number))),
        "stride" => Some(Setting::Prefetch(Prefetch::Stride(number))),
        _ => None,
    }
}

/// The value, as in a file.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.word(), self) {
            (Some(word), _) => f.write_str(word.value),
            (None, Setting::Shared(Shared::By(n))) => write!(f, "{n}"),
            (None, Setting::Prefetch(Prefetch::Next(n))) => write!(f, "next:{n}"),
            (None, Setting::Prefetch(Prefetch::Stride(n))) => write!(f, "stride:{n}"),
            (None, _) => Err(fmt::Error),
        }
    }
}

impl Level {
    /// The fields besides name and geometry, with their values as in a file.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, String)> {
        Setting::of_level(self).into_iter().map(|s| (s.field(), s.to_string()))
    }
}

/// A level of which more may be said.
#[derive(Debug)]
pub(crate) struct Draft {
    level: Level,
    full: bool,
    said: Vec<&'static str>,
}

pub(crate) const DEFAULT_LINE: u32 = 64;
pub(crate) const DEFAULT_WAYS: u32 = 8;

impl Draft {
    pub fn new(name: &str, size: u64) -> Draft {
        Draft {
            level: Level::new(name, size, DEFAULT_LINE, DEFAULT_WAYS),
            full: false,
            said: Vec::new(),
        }
    }

    pub fn line(&mut self, bytes: u32) {
        self.level.line = bytes;
    }

    /// `None`: one set.
    pub fn ways(&mut self, ways: Option<u32>) {
        self.full = ways.is_none();
        self.level.ways = ways.unwrap_or(DEFAULT_WAYS);
    }

    pub fn set(&mut self, setting: Setting) -> Result<(), ConfigError> {
        let field = setting.field();
        if self.said.contains(&field) {
            return Err(wrong(&self.level.name, field, setting, "it is given twice"));
        }
        self.said.push(field);
        setting.apply(&mut self.level);
        Ok(())
    }

    fn finish(mut self, last_of_several: bool) -> Level {
        let level = &mut self.level;
        if self.full {
            // What makes no sense here is found by the check.
            let lines = level.size.checked_div(level.line.into()).unwrap_or(1).max(1);
            level.ways = u32::try_from(lines).unwrap_or(u32::MAX);
        }
        if last_of_several && !self.said.contains(&"shared") {
            level.shared = Shared::All;
        }
        self.level
    }
}

/// The levels, with the defaults for what was not said.
pub(crate) fn finish(drafts: Vec<Draft>) -> Vec<Level> {
    let count = drafts.len();
    let finished = drafts.into_iter().enumerate();
    finished
        .map(|(i, draft)| draft.finish(count > 1 && i + 1 == count))
        .collect()
}

pub(crate) fn wrong(level: &str, field: &'static str, value: impl fmt::Display, why: impl Into<String>) -> ConfigError {
    ConfigError::Field {
        level: level.to_string(),
        field,
        value: value.to_string(),
        why: why.into(),
    }
}

/// A name that can be written in either form.
pub(crate) fn check_name(name: &str) -> Result<(), ConfigError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        let why = "a name consists of letters, digits, '-', '_' and '.'";
        return Err(wrong("level", "name", format_args!("{name:?}"), why));
    }
    Ok(())
}

const UNITS: [(char, u64); 3] = [('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)];
pub(crate) const SIZE_FORM: &str = "a size is a number of bytes, or one with K, M or G (1024 each)";

/// `32K` as 32768.
pub fn parse_size(text: &str) -> Option<u64> {
    let unit = UNITS
        .iter()
        .find(|(letter, _)| text.ends_with([*letter, letter.to_ascii_lowercase()]));
    let (digits, unit) = unit.map_or((text, 1), |&(_, unit)| (&text[..text.len() - 1], unit));
    let number: u64 = digits.parse().ok().filter(|_| !digits.starts_with('+'))?;
    number.checked_mul(unit)
}

/// 32768 as `32K`.
pub fn show_size(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(_, unit)| bytes != 0 && bytes % unit == 0);
    unit.map_or_else(
        || bytes.to_string(),
        |(letter, unit)| format!("{}{letter}", bytes / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("0", 0), ("12", 12), ("32K", 32768), ("1m", 1 << 20), ("3G", 3 << 30)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(show_size(bytes), text.to_uppercase());
        }
        assert_eq!(show_size(1536 << 10), "1536K");
        for text in ["", "K", "1T", "-1", "+1", "1.5M", "1KB", "17179869184G", " 1"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn every_word_is_read_as_what_it_is_written_for() {
        for word in WORDS {
            assert_eq!(Setting::of_short(word.short), Some(word.setting));
            assert_eq!(Setting::of_field(word.field, word.value), Some(word.setting));
            assert_eq!(word.setting.field(), word.field);
            assert!(
                SHORT_WORDS.split([',', ';']).any(|w| w.trim() == word.short),
                "{}",
                word.short
            );
        }
    }
}
