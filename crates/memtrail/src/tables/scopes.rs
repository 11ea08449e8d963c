//! What loops are called.
use super::names::{base, Names};
use memtrail_analyze::scopes::Loop;

/// A loop, as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopName {
    pub function: String,
    /// File, first and last line.
    pub lines: Option<(String, u32, u32)>,
    pub address: String,
    pub depth: u32,
    pub irreducible: bool,
}

impl LoopName {
    /// From the instructions that are known to be in it.
    pub fn of(one: &Loop, names: &Names, codes: impl Iterator<Item = u64>) -> LoopName {
        let header = names.code(one.header);
        let inside = |code: &u64| one.ranges.iter().any(|&(start, end)| (start..end).contains(code));
        let lines = header.line().map(|(file, first)| {
            let line_in = |code| {
                let code = names.code(code);
                let (other, line) = code.line()?;
                (other == file).then_some(line)
            };
            let (mut low, mut high) = (first, first);
            for line in codes.filter(inside).filter_map(line_in) {
                (low, high) = (low.min(line), high.max(line));
            }
            (file.to_string(), low, high)
        });
        LoopName {
            function: header.function_or_address(),
            lines,
            address: header.address(),
            depth: one.depth,
            irreducible: one.irreducible,
        }
    }
}

impl std::fmt::Display for LoopName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.lines {
            Some((file, low, high)) => write!(f, "{} ({}:{low}-{high})", self.function, base(file)),
            None => write!(f, "{} ({})", self.function, self.address),
        }
    }
}
