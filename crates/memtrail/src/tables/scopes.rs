//! What loops are called.
use super::run::Measured;
use memtrail_report::Loop;

/// A loop, named after the instructions that are known to be in it.
pub fn named(found: &Measured, number: u32) -> Loop {
    let one = &found.scopes.loops()[number as usize];
    let header = found.names.code(one.header);
    let inside = |code: &u64| one.ranges.iter().any(|&(start, end)| (start..end).contains(code));
    let lines = header.line().map(|(file, first)| {
        let line_in = |code| {
            let code = found.names.code(code);
            let (other, line) = code.line()?;
            (other == file).then_some(line)
        };
        let (mut low, mut high) = (first, first);
        let codes = found.points.iter().map(|point| point.code);
        for line in codes.filter(inside).filter_map(line_in) {
            (low, high) = (low.min(line), high.max(line));
        }
        (file.to_string(), low, high)
    });
    let (file, first_line, last_line) = lines.map_or((None, None, None), |(f, l, h)| (Some(f), Some(l), Some(h)));
    Loop {
        address: header.address(),
        function: header.function_or_address(),
        file,
        first_line,
        last_line,
        depth: one.depth,
        irreducible: one.irreducible,
    }
}
