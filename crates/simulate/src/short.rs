//! The short form of a level, for the command line: `NAME=SIZE[:LINE[:WAYS[:OPTION…]]]`.
//!
//! `L2=1M:64:16:plru:shared=2`. Sizes have the units K, M and G; ways may be `full`; options come
//! in any order, each field once. What is not said has the default of the table in
//! `docs/simulation.md`.
use crate::config::{ConfigError, Level};
use crate::draft::{check_name, finish, parse_size, show_size, wrong, Draft, Setting, SHORT_WORDS, SIZE_FORM};
use std::fmt;

/// The levels of a hierarchy, from the processor outwards. They are not checked.
pub fn levels<S: AsRef<str>>(texts: &[S]) -> Result<Vec<Level>, ConfigError> {
    let drafts: Result<Vec<Draft>, ConfigError> = texts.iter().map(|text| draft(text.as_ref())).collect();
    drafts.map(finish)
}

fn draft(text: &str) -> Result<Draft, ConfigError> {
    let Some((name, rest)) = text.split_once('=') else {
        return Err(wrong(
            "level",
            "name",
            format_args!("{text:?}"),
            "a level is written NAME=SIZE:LINE:WAYS, as in L1=32K:64:8",
        ));
    };
    check_name(name)?;
    let mut fields = rest.split(':');
    let size = fields.next().unwrap_or_default();
    let size = parse_size(size).ok_or_else(|| wrong(name, "size", format_args!("{size:?}"), SIZE_FORM))?;
    let mut draft = Draft::new(name, size);
    if let Some(line) = fields.next() {
        let bytes = parse_size(line).and_then(|bytes| u32::try_from(bytes).ok());
        draft.line(bytes.ok_or_else(|| wrong(name, "line", format_args!("{line:?}"), "a line is a number of bytes"))?);
    }
    if let Some(ways) = fields.next() {
        let number: Option<u32> = ways.parse().ok();
        if number.is_none() && ways != "full" {
            return Err(wrong(
                name,
                "ways",
                format_args!("{ways:?}"),
                "ways are a number, or full",
            ));
        }
        draft.ways(number);
    }
    for option in fields {
        let setting = Setting::of_short(option);
        let unknown = || {
            wrong(
                name,
                "option",
                format_args!("{option:?}"),
                format!("there are {SHORT_WORDS}"),
            )
        };
        draft.set(setting.ok_or_else(unknown)?)?;
    }
    Ok(draft)
}

/// In the short form. Who shares the cache is always said, since the default depends on the other
/// levels.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}:{}:{}", self.name, show_size(self.size), self.line, self.ways)?;
        let usual = Setting::of_level(&Level::new("", self.size, self.line, self.ways));
        for (setting, usual) in Setting::of_level(self).into_iter().zip(usual) {
            if setting != usual || setting.field() == "shared" {
                write!(f, ":{}", setting.short())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Holds, Inclusion, Policy, Prefetch, Shared, Write};
    use proptest::prelude::*;

    fn one(text: &str) -> Level {
        levels(&[text]).unwrap().remove(0)
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        assert_eq!(one("L1=32K"), Level::new("L1", 32 << 10, 64, 8));
        assert_eq!(one("L1=32K:32:2"), Level::new("L1", 32 << 10, 32, 2));
        assert_eq!(one("L1=4K:64:full").ways, 64);
        let two = levels(&["L1=32K:64:8", "L2=1M:64:16:plru"]).unwrap();
        let mut second = Level::new("L2", 1 << 20, 64, 16);
        second.policy = Policy::Plru;
        second.shared = Shared::All;
        assert_eq!(two, [Level::new("L1", 32 << 10, 64, 8), second]);
        let private = levels(&["L1=32K", "L2=1M:64:16:private"]).unwrap();
        assert_eq!(private[1].shared, Shared::By(1));
    }

    #[test]
    fn options_come_in_any_order() {
        let level = one("LLC=3M:128:24:stride=4:shared=2:exclusive:no-allocate:write-through:data:random");
        let expected = Level {
            name: "LLC".into(),
            size: 3 << 20,
            line: 128,
            ways: 24,
            policy: Policy::Random,
            holds: Holds::Data,
            write: Write::Through,
            allocate: false,
            inclusion: Inclusion::Exclusive,
            shared: Shared::By(2),
            prefetch: Prefetch::Stride(4),
        };
        assert_eq!(level, expected);
        let shown = "LLC=3M:128:24:random:data:write-through:no-allocate:exclusive:shared=2:stride=4";
        assert_eq!(level.to_string(), shown);
    }

    #[test]
    fn errors_name_the_level_and_the_field() {
        let cases = [
            ("32K:64:8", r#"level: name = "32K:64:8": a level is written NAME=SIZE:LINE:WAYS, as in L1=32K:64:8"#),
            ("=32K", r#"level: name = "": a name consists of letters, digits, '-', '_' and '.'"#),
            ("L 1=32K", r#"level: name = "L 1": a name consists of letters, digits, '-', '_' and '.'"#),
            ("L1=big", r#"L1: size = "big": a size is a number of bytes, or one with K, M or G (1024 each)"#),
            ("L1=", r#"L1: size = "": a size is a number of bytes, or one with K, M or G (1024 each)"#),
            ("L1=32K:x", r#"L1: line = "x": a line is a number of bytes"#),
            ("L1=32K:8G", r#"L1: line = "8G": a line is a number of bytes"#),
            ("L1=32K:64:many", r#"L1: ways = "many": ways are a number, or full"#),
            ("L1=32K:64:8:lru:fifo", "L1: policy = fifo: it is given twice"),
            ("L1=32K:64:8:next=4:stride=2", "L1: prefetch = stride:2: it is given twice"),
            (
                "L1=32K:64:8:mru",
                "L1: option = \"mru\": there are lru, fifo, random, plru; data, instructions, both; write-back, write-through, \
                write-none; allocate, no-allocate; inclusive, exclusive, non-inclusive; private, shared, shared=N; next=N, stride=N, \
                no-prefetch",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(levels(&[text]).unwrap_err().to_string(), message);
        }
        for option in ["", "next", "next=", "next=-1", "shared=x", "lru=1", "next=5000000000"] {
            let error = levels(&[format!("L1=32K:64:8:{option}")]).unwrap_err();
            assert!(matches!(error, ConfigError::Field { field: "option", .. }), "{option}");
        }
    }

    fn level() -> impl Strategy<Value = Level> {
        let policy = prop::sample::select(vec![Policy::Lru, Policy::Fifo, Policy::Random, Policy::Plru]);
        let holds = prop::sample::select(vec![Holds::Data, Holds::Instructions, Holds::Both]);
        let write = prop::sample::select(vec![Write::Back, Write::Through, Write::None]);
        let inclusion = prop::sample::select(vec![Inclusion::None, Inclusion::Inclusive, Inclusion::Exclusive]);
        let shared = prop_oneof![Just(Shared::All), any::<u32>().prop_map(Shared::By)];
        let prefetch = prop_oneof![
            Just(Prefetch::None),
            any::<u32>().prop_map(Prefetch::Next),
            any::<u32>().prop_map(Prefetch::Stride)
        ];
        let geometry = (
            "[A-Za-z0-9_.-]{1,8}",
            any::<u64>(),
            0..40u32,
            any::<u32>(),
            any::<u32>(),
        );
        let settings = (policy, holds, write, any::<bool>(), inclusion, shared, prefetch);
        (geometry, settings).prop_map(|((name, size, shift, line, ways), settings)| {
            let (policy, holds, write, allocate, inclusion, shared, prefetch) = settings;
            Level {
                name,
                size: size >> shift << shift,
                line,
                ways,
                policy,
                holds,
                write,
                allocate,
                inclusion,
                shared,
                prefetch,
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_as_the_same(expected in prop::collection::vec(level(), 1..4)) {
            let shown: Vec<String> = expected.iter().map(ToString::to_string).collect();
            prop_assert_eq!(levels(&shown).unwrap(), expected);
        }
    }
}
