//! Which configurations a sweep runs over: `size=8K..1M,line=32,64,ways=1,2,4,8,policy=lru,fifo`,
//! or the name of a set of them.
//!
//! A field has a list of values; `a..b` stands for a, 2a, 4a, … b. All combinations are meant, but
//! for those that cannot be: a set larger than the cache, or a size that is no multiple of a set.
use crate::config::{Hierarchy, Level, Policy};
use crate::draft::{parse_size, show_size, DEFAULT_LINE, DEFAULT_WAYS, SIZE_FORM};
use crate::presets::METASIM26;

/// What is wrong with a specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("{text:?}: a sweep is written size=8K..1M,line=32,64,ways=1,2,4,policy=lru,fifo, or is {}", METASIM26.0)]
    Form { text: String },
    #[error("{field} = {value:?}: {why}")]
    Value {
        field: &'static str,
        value: String,
        why: &'static str,
    },
    #[error("{field} is given twice")]
    Twice { field: &'static str },
    #[error("size is missing: a sweep runs over sizes at least")]
    NoSize,
    #[error("none of the combinations can be: size is a multiple of line x ways, and line a power of two")]
    Nothing,
}

/// Ways of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ways {
    Number(u32),
    Full,
}

#[derive(Debug, Default)]
struct Fields {
    sizes: Vec<u64>,
    lines: Vec<u32>,
    ways: Vec<Ways>,
    policies: Vec<Policy>,
}

const FIELDS: [&str; 4] = ["size", "line", "ways", "policy"];

/// One data cache for each configuration, named after its geometry, in the order sizes, lines,
/// ways, policies.
pub fn configurations(text: &str) -> Result<Vec<Level>, SpecError> {
    if text == METASIM26.0 {
        let one = |&(size, line, ways): &(u64, u32, u32)| level(size, line, ways, Policy::Lru);
        return Ok(METASIM26.1.iter().map(one).collect());
    }
    let fields = parse(text)?;
    if fields.sizes.is_empty() {
        return Err(SpecError::NoSize);
    }
    let mut all = Vec::new();
    for &size in &fields.sizes {
        for &line in or(&fields.lines, &[DEFAULT_LINE]) {
            for &ways in or(&fields.ways, &[Ways::Number(DEFAULT_WAYS)]) {
                let lines = || {
                    size.checked_div(line.into())
                        .and_then(|lines| u32::try_from(lines).ok())
                };
                let ways = match ways {
                    Ways::Number(ways) => ways,
                    Ways::Full => lines().unwrap_or(0),
                };
                let policies = or(&fields.policies, &[Policy::Lru]).iter();
                all.extend(policies.map(|&policy| level(size, line, ways, policy)));
            }
        }
    }
    all.retain(|level| Hierarchy::of(vec![level.clone()]).check().is_ok());
    match all.is_empty() {
        true => Err(SpecError::Nothing),
        false => Ok(all),
    }
}

fn or<'v, T>(values: &'v [T], default: &'v [T]) -> &'v [T] {
    match values {
        [] => default,
        _ => values,
    }
}

fn level(size: u64, line: u32, ways: u32, policy: Policy) -> Level {
    let word = if policy == Policy::Fifo { ":fifo" } else { "" };
    let name = format!("{}:{line}:{ways}{word}", show_size(size));
    Level {
        policy,
        ..Level::new(name, size, line, ways)
    }
}

fn parse(text: &str) -> Result<Fields, SpecError> {
    let form = || SpecError::Form { text: text.to_string() };
    let mut fields = Fields::default();
    let mut said: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let value = match part.split_once('=') {
            None => part,
            Some((name, value)) => {
                let field = FIELDS.into_iter().find(|f| *f == name).ok_or_else(form)?;
                if said.contains(&field) {
                    return Err(SpecError::Twice { field });
                }
                said.push(field);
                value
            }
        };
        let field = said.last().ok_or_else(form)?;
        fields.add(field, value)?;
    }
    Ok(fields)
}

impl Fields {
    fn add(&mut self, field: &str, value: &str) -> Result<(), SpecError> {
        match field {
            "size" => self.sizes.extend(range(value, "size", SIZE_FORM)?),
            "line" => {
                let why = "a line is a number of bytes, a power of two";
                for bytes in range(value, "line", why)? {
                    let bytes = u32::try_from(bytes).map_err(|_| wrong("line", value, why))?;
                    self.lines.push(bytes);
                }
            }
            "ways" if value == "full" => self.ways.push(Ways::Full),
            "ways" => {
                let why = "ways are numbers, or full";
                for ways in range(value, "ways", why)? {
                    let ways = u32::try_from(ways).map_err(|_| wrong("ways", value, why))?;
                    self.ways.push(Ways::Number(ways));
                }
            }
            _ => self.policies.push(match value {
                "lru" => Policy::Lru,
                "fifo" => Policy::Fifo,
                _ => return Err(wrong("policy", value, "a sweep has lru and fifo")),
            }),
        }
        Ok(())
    }
}

fn wrong(field: &'static str, value: &str, why: &'static str) -> SpecError {
    SpecError::Value {
        field,
        value: value.to_string(),
        why,
    }
}

/// One number, or those from one to another by doubling.
fn range(text: &str, field: &'static str, why: &'static str) -> Result<Vec<u64>, SpecError> {
    let number = |text| {
        parse_size(text)
            .filter(|&n| n > 0)
            .ok_or_else(|| wrong(field, text, why))
    };
    let Some((first, last)) = text.split_once("..") else {
        return Ok(vec![number(text)?]);
    };
    let (first, last) = (number(first)?, number(last)?);
    let values = std::iter::successors(Some(first), |n| n.checked_mul(2));
    let values: Vec<u64> = values.take_while(|&n| n <= last).collect();
    match values.last() {
        Some(&end) if end == last => Ok(values),
        _ => Err(wrong(field, text, "doubling the first does not lead to the last")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        configurations(text).unwrap().into_iter().map(|l| l.name).collect()
    }

    #[test]
    fn lists_and_ranges_are_combined() {
        assert_eq!(names("size=32K"), ["32K:64:8"]);
        assert_eq!(names("size=8K..32K,ways=2"), ["8K:64:2", "16K:64:2", "32K:64:2"]);
        let all = names("size=1K,4K,line=32,64,ways=1,full,policy=lru,fifo");
        let expected = [
            "1K:32:1",
            "1K:32:1:fifo",
            "1K:32:32",
            "1K:32:32:fifo",
            "1K:64:1",
            "1K:64:1:fifo",
            "1K:64:16",
            "1K:64:16:fifo",
            "4K:32:1",
            "4K:32:1:fifo",
            "4K:32:128",
            "4K:32:128:fifo",
            "4K:64:1",
            "4K:64:1:fifo",
            "4K:64:64",
            "4K:64:64:fifo",
        ];
        assert_eq!(all, expected);
        assert_eq!(
            configurations("size=8K..1M,line=32,64,128,ways=1,2,4,8,policy=lru,fifo")
                .unwrap()
                .len(),
            8 * 3 * 4 * 2
        );
        assert_eq!(configurations("metasim26").unwrap().len(), 26);
    }

    #[test]
    fn what_cannot_be_is_left_out() {
        assert_eq!(names("size=512,1K,ways=8,16"), ["512:64:8", "1K:64:8", "1K:64:16"]);
        assert_eq!(configurations("size=100"), Err(SpecError::Nothing));
        assert_eq!(configurations("size=1K,line=24"), Err(SpecError::Nothing));
    }

    #[test]
    fn errors_name_the_field() {
        let cases = [
            (
                "big",
                r#""big": a sweep is written size=8K..1M,line=32,64,ways=1,2,4,policy=lru,fifo, or is metasim26"#,
            ),
            (
                "sets=3",
                r#""sets=3": a sweep is written size=8K..1M,line=32,64,ways=1,2,4,policy=lru,fifo, or is metasim26"#,
            ),
            ("line=64", "size is missing: a sweep runs over sizes at least"),
            ("size=8K,size=16K", "size is given twice"),
            (
                "size=8Q",
                r#"size = "8Q": a size is a number of bytes, or one with K, M or G (1024 each)"#,
            ),
            (
                "size=0",
                r#"size = "0": a size is a number of bytes, or one with K, M or G (1024 each)"#,
            ),
            (
                "size=6K..32K",
                r#"size = "6K..32K": doubling the first does not lead to the last"#,
            ),
            (
                "size=32K..8K",
                r#"size = "32K..8K": doubling the first does not lead to the last"#,
            ),
            (
                "size=8K,line=x",
                r#"line = "x": a line is a number of bytes, a power of two"#,
            ),
            ("size=8K,ways=0", r#"ways = "0": ways are numbers, or full"#),
            ("size=8K,policy=plru", r#"policy = "plru": a sweep has lru and fifo"#),
        ];
        for (text, message) in cases {
            assert_eq!(configurations(text).unwrap_err().to_string(), message, "{text}");
        }
    }
}
