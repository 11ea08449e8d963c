//! One page to look at, in any browser, without a network.
//!
//! A [`Page`] is a list of [`Section`]s. Each says what it is and holds its data; how it is drawn is
//! the business of `page.js`, which knows a way to draw each kind of [`Body`]. **To add a view**,
//! make a section of one of these kinds ([`Body::Table`] and [`Body::Chart`] serve for most) and push
//! it; nothing else has to change.
//!
//! **Size.** Whatever the recording, tables have at most [`MOST_ROWS`] rows, names at most
//! [`MOST_NAME`] characters, and sources come within a budget, so that a page stays far below 6 MB.
//!
//! **Hostile names.** A name comes from a program, and may hold anything. Names get into the page in
//! one way only: as JSON in an element that no browser executes, with `<` escaped. The script puts
//! them into the document as text, never as markup, and a policy in the page forbids everything that
//! is not in it.
//!
//! **Why no charting library.** Plotly's bundle is 3.5 to 4.5 MB, most of the limit, and draws
//! neither the map nor an icicle as they are wanted here; `page.js` is 15 KB.
mod build;

pub use build::{icicle, sections, Inputs, Sources};

use serde::Serialize;
use std::fmt::Write;

/// Rows of a table.
pub const MOST_ROWS: usize = 500;
/// Characters of a name.
pub const MOST_NAME: usize = 200;

/// What a section holds.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Body {
    /// Paragraphs; those in `code` as they are.
    Text { lines: Vec<String> },
    /// Sortable and searchable.
    Table(Table),
    /// Lines over a numeric axis.
    Chart(Chart),
    /// Address by time.
    Map(Picture),
    /// Who evicts whom.
    Matrix(Matrix),
    /// A line over time for each name.
    Timelines {
        names: Vec<String>,
        accesses: Vec<String>,
        misses: Vec<String>,
    },
    /// Files with figures beside their lines.
    Source { heads: Vec<String>, files: Vec<SourceFile> },
    /// Nested boxes: call paths, the outermost on top.
    Icicle(Box<Node>),
}

/// A table. Cells are texts or numbers; numbers are sorted as such.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    pub heads: Vec<String>,
    pub rows: Vec<Vec<serde_json::Value>>,
    /// Rows that are not here.
    pub more: u64,
}

/// Several lines.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Chart {
    pub x: String,
    pub y: String,
    /// Whether x is drawn as its logarithm.
    pub log: bool,
    pub series: Vec<Series>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A map. Each row has a digit for each column: 0 for nothing, 9 for the most, by logarithms.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Picture {
    pub columns: usize,
    /// Accesses in a column.
    pub step: u64,
    pub rows: Vec<PictureRow>,
}

/// A piece of memory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PictureRow {
    pub from: String,
    pub bytes: u64,
    pub object: String,
    pub accesses: String,
    pub misses: String,
}

/// Who evicts whom: `cells` are loser, evictor, count, by place among the names.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Matrix {
    pub names: Vec<String>,
    pub cells: Vec<(u32, u32, u64)>,
    /// Cycles of mutual eviction, in words.
    pub cycles: Vec<String>,
}

/// A source, or the parts of it where something happened.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SourceFile {
    pub name: String,
    pub note: String,
    /// Line number, text, figures.
    pub lines: Vec<(u32, String, Vec<u64>)>,
}

/// A function in a call path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Node {
    pub name: String,
    /// Of it and all it called.
    pub misses: u64,
    pub accesses: u64,
    pub calls: Vec<Node>,
}

/// A view.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// A word, for links.
    pub id: &'static str,
    pub title: String,
    /// What it shows and how to read it.
    pub about: String,
    pub body: Body,
}

/// The page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Page {
    pub title: String,
    pub sections: Vec<Section>,
}

/// A name as it can be shown anywhere: no longer than [`MOST_NAME`], without characters that
/// control a terminal or the direction of text.
pub fn shown(name: &str) -> String {
    let mut text = String::new();
    for c in memtrail_report::columns::cut(name, MOST_NAME).chars() {
        match c {
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(text, "\\u{{{:x}}}", c as u32);
            }
            c if c.is_control() => {
                let _ = write!(text, "\\x{:02x}", c as u32);
            }
            c => text.push(c),
        }
    }
    text
}

/// Text for HTML.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

impl Page {
    /// The whole page.
    pub fn html(&self) -> String {
        // Nothing in the data can end the element that it is in.
        let data = serde_json::to_string(self).unwrap_or_default().replace('<', "\\u003c");
        let template = include_str!("page.html");
        let (head, rest) = template.split_once("{{title}}").unwrap_or((template, ""));
        let (middle, rest) = rest.split_once("{{style}}").unwrap_or((rest, ""));
        let (before_data, rest) = rest.split_once("{{data}}").unwrap_or((rest, ""));
        let (before_script, tail) = rest.split_once("{{script}}").unwrap_or((rest, ""));
        [
            head,
            &escaped(&self.title),
            middle,
            include_str!("page.css"),
            before_data,
            &data,
            before_script,
            include_str!("page.js"),
            tail,
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_gets_out_of_the_data() {
        let hostile = "</script><script>alert(1)</script><!-- \"'&\u{202e}\u{7}";
        let page = Page {
            title: hostile.into(),
            sections: vec![Section {
                id: "x",
                title: hostile.into(),
                about: String::new(),
                body: Body::Text {
                    lines: vec![shown(hostile)],
                },
            }],
        };
        let html = page.html();
        assert_eq!(html.matches("</script>").count(), 2, "the data's and the script's own");
        assert!(!html.contains("<script>alert"));
        assert!(html.contains("&lt;/script&gt;"));
        assert_eq!(shown("a\u{202e}b\u{7}c"), "a\\u{202e}b\\x07c");
        assert!(shown(&"x".repeat(10_000)).chars().count() <= MOST_NAME);
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let html = Page::default().html();
        for outside in ["src=", "url(", "@import", "fetch(", "XMLHttpRequest", "href=\"http"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("default-src 'none'"));
        assert!(!html.contains("{{"), "everything was filled in");
    }
}
