//! Lines into statements, statements into tokens.
use super::Language;
use std::ops::Range;

pub(super) struct Lines<'t> {
    pub source: &'t str,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub fn new(source: &'t str) -> Lines<'t> {
        let starts = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1));
        let starts = starts.collect();
        Lines { source, starts }
    }

    /// Counted from 0.
    fn get(&self, index: usize) -> Option<&'t str> {
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.source.len());
        self.source
            .get(start..end)
            .map(|line| line.trim_end_matches(['\n', '\r']))
    }
}

/// The lines of the statement that a line is part of, counted from 0.
pub(super) fn statement(lines: &Lines<'_>, line: u32, language: Language) -> Option<Range<usize>> {
    const LONGEST: usize = 24;
    let line = (line as usize).checked_sub(1)?;
    lines.get(line)?;
    let continues = |index: usize| goes_on(lines, index, language);
    let first = (line.saturating_sub(LONGEST)..line)
        .rev()
        .take_while(|&l| continues(l))
        .last();
    let end = (line..line + LONGEST).find(|&l| !continues(l)).unwrap_or(line);
    Some(first.unwrap_or(line)..end + 1)
}

/// Does the statement go on in the next line?
fn goes_on(lines: &Lines<'_>, index: usize, language: Language) -> bool {
    let (Some(line), Some(next)) = (lines.get(index), lines.get(index + 1)) else {
        return false;
    };
    match language {
        Language::Fortran => line.split('!').next().unwrap_or_default().trim_end().ends_with('&'),
        Language::FixedFortran => {
            let mark = next.as_bytes().get(5).copied().unwrap_or(b' ');
            next.starts_with("     ") && mark != b' ' && mark != b'0'
        }
        Language::C => {
            let code = line.split("//").next().unwrap_or_default().trim();
            let ended = code.is_empty() || code.starts_with('#') || code.ends_with("*/");
            !ended && !code.ends_with([';', '{', '}', ':', ')'])
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Number,
    Text,
    Mark,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
    pub line: u32,
    pub column: u32,
}

const C_MARKS: &str = "<<= >>= ... ..= -> ++ -- += -= *= /= %= &= |= ^= == != <= >= && || << >> => :: ..";
const FORTRAN_MARKS: &str = "** == /= <= >= => :: //";

pub(super) fn tokens(lines: &Lines<'_>, range: Range<usize>, language: Language) -> Vec<Token> {
    const MOST: usize = 4096;
    let mut tokens = Vec::new();
    let mut comment = false;
    for index in range {
        let Some(line) = lines.get(index) else { break };
        let fixed = language == Language::FixedFortran;
        if (fixed && line.starts_with(['C', 'c', '*', '!']))
            || line.trim_start().starts_with('#') && !language.is_fortran()
        {
            continue;
        }
        let mut at = if fixed { 6.min(line.len()) } else { 0 };
        while at < line.len() && tokens.len() < MOST {
            let Some(rest) = line.get(at..).filter(|r| !r.is_empty()) else {
                at += 1;
                continue;
            };
            if comment {
                let end = rest.find("*/");
                comment = end.is_none();
                at = end.map_or(line.len(), |end| at + end + 2);
                continue;
            }
            let (kind, len) = match language.is_fortran() {
                true if rest.starts_with('!') => break,
                false if rest.starts_with("//") => break,
                false if rest.starts_with("/*") => {
                    comment = true;
                    at += 2;
                    continue;
                }
                fortran => token(rest, fortran),
            };
            if let Some(kind) = kind {
                let start = lines.starts[index] + at;
                tokens.push(Token {
                    kind,
                    start,
                    end: start + len,
                    line: index as u32 + 1,
                    column: at as u32 + 1,
                });
            }
            at += len;
        }
    }
    tokens
}

/// The kind and length of the token that a text begins with; no kind: nothing to keep.
fn token(rest: &str, fortran: bool) -> (Option<Kind>, usize) {
    let first = rest.chars().next().unwrap_or(' ');
    let run = |accept: fn(char) -> bool| rest.find(|c| !accept(c)).unwrap_or(rest.len());
    if first.is_whitespace() || (fortran && first == '&') {
        return (None, first.len_utf8());
    }
    if first.is_alphabetic() || first == '_' || first == '$' {
        return (Some(Kind::Word), run(|c| c.is_alphanumeric() || c == '_' || c == '$'));
    }
    if first.is_ascii_digit() {
        return (Some(Kind::Number), number(rest));
    }
    if first == '"' || (first == '\'' && (fortran || is_character(rest))) {
        let mut escaped = false;
        let closing = rest.char_indices().skip(1).find(|&(_, c)| {
            let found = c == first && !escaped;
            escaped = c == '\\' && !escaped && !fortran;
            found
        });
        return (Some(Kind::Text), closing.map_or(rest.len(), |(at, _)| at + 1));
    }
    if fortran && first == '.' {
        // `.and.` and its kin are operators.
        let word = rest[1..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(0);
        if word > 0 && rest[1 + word..].starts_with('.') {
            return (Some(Kind::Mark), word + 2);
        }
    }
    let marks = if fortran { FORTRAN_MARKS } else { C_MARKS };
    let mark = marks.split(' ').find(|mark| rest.starts_with(mark));
    (Some(Kind::Mark), mark.map_or(first.len_utf8(), |mark| mark.len()))
}

/// A number's length; a range `0..n` and a member `x.0.y` end it.
fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let exponent = at > 0 && matches!(bytes[at - 1], b'e' | b'E') && !rest.starts_with("0x");
        let point = byte == b'.'
            && bytes
                .get(at + 1)
                .is_none_or(|next| next.is_ascii_digit() || next.is_ascii_whitespace());
        match byte {
            b'+' | b'-' if exponent => {}
            _ if byte.is_ascii_alphanumeric() || byte == b'_' || point => {}
            _ => break,
        }
        at += 1;
    }
    at.max(1)
}

/// `'a'`, not the lifetime `'a`.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    matches!((chars.next(), chars.next()), (Some('\\'), _) | (Some(_), Some('\'')))
}
