//! The little of Markdown that the tidy check needs: code and links, with line numbers.

/// Directories and files at the root that make a word in code a path of the project.
const ROOTS: &[&str] = &[
    "crates/",
    "docs/",
    "bench/",
    "tests/",
    "peers/",
    "xtask/",
    ".ci/",
    ".cargo/",
    "README.md",
    "CHANGELOG.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "Cargo.toml",
    "LICENSE-",
];

/// Inline code and every line of fenced blocks, each with its line number.
pub fn code_spans(text: &str) -> Vec<(usize, String)> {
    let mut spans = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            spans.push((index + 1, line.to_string()));
        } else {
            let inline = line.split('`').skip(1).step_by(2);
            spans.extend(inline.map(|code| (index + 1, code.to_string())));
        }
    }
    spans
}

/// Words of a code span that claim to be files of the project. Patterns and
/// placeholders (`*`, `…`, capitals such as `DATE`) claim nothing.
pub fn paths_in(span: &str) -> impl Iterator<Item = &str> {
    span.split_whitespace()
        .map(|word| word.trim_matches(|c: char| "()[],;:\"'".contains(c)))
        .map(|word| word.strip_prefix("./").unwrap_or(word))
        .filter(|word| ROOTS.iter().any(|r| word.starts_with(r)))
        .filter(|word| !word.contains(['*', '…', '{', '<', '$']) && !placeholder(word))
        .map(|word| word.split_once(':').map_or(word, |(path, _)| path))
}

/// Does a component consist of capitals, like the DATE in `bench/results/DATE.md`?
fn placeholder(path: &str) -> bool {
    let Some((_, name)) = path.rsplit_once('/') else {
        return false;
    };
    let stem = name.split('.').next().unwrap_or(name);
    !stem.is_empty() && stem != "README" && stem.chars().all(|c| c.is_ascii_uppercase())
}

/// Relative targets of `[text](target)`, without fragments.
pub fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices("](") {
            let Some(target) = line[at + 2..].split(')').next() else {
                continue;
            };
            let target = target.split('#').next().unwrap_or("");
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((index + 1, target.to_string()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_paths() {
        let text = "see `crates/model/src/lib.rs` and `bench/results/DATE.md`\n```\ncat docs/x.md | less\n```\n";
        let spans = code_spans(text);
        assert_eq!(spans.len(), 3);
        let paths: Vec<&str> = spans.iter().flat_map(|(_, s)| paths_in(s)).collect();
        assert_eq!(paths, ["crates/model/src/lib.rs", "docs/x.md"]);
    }

    #[test]
    fn relative_links_only() {
        let text = "[a](docs/guide.md#top) [b](https://example.org) [c](#here)";
        assert_eq!(links(text), [(1, "docs/guide.md".to_string())]);
    }
}
