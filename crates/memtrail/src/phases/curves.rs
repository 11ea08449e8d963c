//! The streams, for plotting: every base period, every object that is followed, every level.
use super::Report;
use serde_json::json;
use std::fmt::Write;
use std::path::Path;

/// JSON if the file is called so, CSV otherwise.
pub fn written(report: &Report, path: &Path) -> String {
    match path.extension().is_some_and(|extension| extension == "json") {
        true => format!("{:#}\n", as_json(report)),
        false => as_csv(report),
    }
}

/// A line for each base period, object and level in which there was an access.
fn as_csv(report: &Report) -> String {
    let mut text = "from,object,level,accesses,misses\n".to_string();
    let timeline = &report.timeline;
    for point in 0..timeline.points {
        let from = point as u64 * timeline.base;
        for line in &timeline.lines {
            let name = quoted(&line.name);
            for (level, about) in report.measured.hierarchy.levels.iter().enumerate() {
                let (accesses, misses) = (line.accesses[level].counts[point], line.misses[level].counts[point]);
                if accesses > 0 {
                    writeln!(text, "{from},{name},{},{accesses},{misses}", about.name).expect("strings take all");
                }
            }
        }
    }
    text
}

/// As CSV has it, if it needs quotes.
fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

fn as_json(report: &Report) -> serde_json::Value {
    let timeline = &report.timeline;
    let levels = || report.measured.hierarchy.levels.iter().enumerate();
    let streams = timeline.lines.iter().flat_map(|line| {
        levels().map(move |(level, about)| {
            json!({
                "object": line.name,
                "level": about.name,
                "accesses": line.accesses[level].counts,
                "misses": line.misses[level].counts,
            })
        })
    });
    json!({
        "unit": report.settings.unit.word(),
        "base": timeline.base,
        "points": timeline.points,
        "streams": streams.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(quoted("a (b.c:3)"), "a (b.c:3)");
        assert_eq!(quoted("f(a, b)"), "\"f(a, b)\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
    }
}
