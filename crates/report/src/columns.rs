//! Text in aligned columns, within a width.
//!
//! A table that is wider than it may be gives way in this order: long names are cut in the middle,
//! columns that the table can do without go, and names are cut once more. What went is told below
//! the table.
use std::fmt;

/// How the texts of a column are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of as many texts as there are columns, the head first.
#[derive(Debug)]
pub struct Columns {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
    /// Heads of the columns that had no room.
    dropped: Vec<String>,
}

/// Between columns.
const GAP: &str = "  ";
/// Names are cut to no less than this as long as there is a column that can go.
const READABLE: usize = 40;
/// And never to less than this.
const SHORTEST: usize = 12;

/// A text of at most `width` characters: the middle of a longer one is left out.
pub fn cut(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_string();
    }
    let kept = width.saturating_sub(1);
    let (head, tail) = (kept - kept / 2, kept / 2);
    let head: String = text.chars().take(head).collect();
    let tail: String = text.chars().skip(length - tail).collect();
    format!("{head}…{tail}")
}

impl Columns {
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = (S, Align)>) -> Columns {
        let (names, aligns) = head.into_iter().map(|(name, align)| (name.into(), align)).unzip();
        Columns {
            aligns,
            rows: vec![names],
            dropped: Vec::new(),
        }
    }

    pub fn row(&mut self, texts: Vec<String>) {
        debug_assert_eq!(texts.len(), self.aligns.len());
        self.rows.push(texts);
    }

    /// Without its head.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Makes it no wider than `width`, if there is a limit and it can be done. `spare` are the
    /// columns that the table can do without, the least useful first.
    pub fn fit(mut self, width: Option<usize>, spare: &[usize]) -> Columns {
        let Some(width) = width else { return self };
        self.cut_names(width, READABLE);
        let mut gone: Vec<usize> = Vec::new();
        for &at in spare {
            if self.total(&gone) <= width {
                break;
            }
            gone.push(at);
        }
        // The last to go may have been wide: others have room again.
        for &at in gone.clone().iter().rev() {
            let without: Vec<usize> = gone.iter().copied().filter(|&other| other != at).collect();
            if self.total(&without) <= width {
                gone = without;
            }
        }
        gone.sort_unstable();
        for &at in gone.iter().rev() {
            self.aligns.remove(at);
            for (number, row) in self.rows.iter_mut().enumerate() {
                let text = row.remove(at);
                if number == 0 {
                    self.dropped.insert(0, text);
                }
            }
        }
        self.cut_names(width, SHORTEST);
        self
    }

    fn width(&self, column: usize) -> usize {
        let widths = self.rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    }

    /// The width of the whole table, without some columns.
    fn total(&self, without: &[usize]) -> usize {
        let shown = (0..self.aligns.len()).filter(|at| !without.contains(at));
        let widths: Vec<usize> = shown.map(|at| self.width(at)).collect();
        widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
    }

    /// Shortens the widest names, as far as needed, but to no less than `least`.
    fn cut_names(&mut self, width: usize, least: usize) {
        let names: Vec<usize> = (0..self.aligns.len())
            .filter(|&at| self.aligns[at] == Align::Left)
            .collect();
        let mut over = self.total(&[]).saturating_sub(width);
        let mut widths: Vec<usize> = names.iter().map(|&at| self.width(at)).collect();
        while over > 0 {
            let Some(widest) = widths.iter_mut().filter(|w| **w > least).max() else {
                break;
            };
            *widest -= 1;
            over -= 1;
        }
        for (&at, &width) in names.iter().zip(&widths) {
            self.rows.iter_mut().for_each(|row| row[at] = cut(&row[at], width));
        }
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.aligns.len()).map(|at| self.width(at)).collect();
        for row in &self.rows {
            let texts = row.iter().zip(&self.aligns).zip(&widths);
            let placed: Vec<String> = texts
                .map(|((text, align), &width)| match align {
                    Align::Left => format!("{text:<width$}"),
                    Align::Right => format!("{text:>width$}"),
                })
                .collect();
            writeln!(f, "{}", placed.join(GAP).trim_end())?;
        }
        match self.dropped.len() {
            0 => Ok(()),
            1 => writeln!(f, "1 more column with --wide"),
            more => writeln!(f, "{more} more columns with --wide"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Columns {
        let mut columns = Columns::new([("name", Align::Left), ("n", Align::Right), ("word", Align::Left)]);
        assert!(columns.is_empty());
        columns.row(vec!["a".into(), "1,000".into(), "x".into()]);
        columns.row(vec!["longer".into(), "7".into(), String::new()]);
        assert!(!columns.is_empty());
        columns
    }

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let wide = "name        n  word\na       1,000  x\nlonger      7\n";
        assert_eq!(table().to_string(), wide);
        assert_eq!(table().fit(None, &[1]).to_string(), wide);
        assert_eq!(table().fit(Some(19), &[1]).to_string(), wide);
    }

    #[test]
    fn a_narrow_table_does_without_what_is_spare() {
        let narrow = "name    word\na       x\nlonger\n1 more column with --wide\n";
        assert_eq!(table().fit(Some(18), &[1]).to_string(), narrow);
    }

    #[test]
    fn long_names_are_cut_in_the_middle() {
        assert_eq!(cut("abcdefghij", 10), "abcdefghij");
        assert_eq!(cut("abcdefghij", 9), "abcd…ghij");
        assert_eq!(cut("abcdefghij", 6), "abc…ij");
        assert_eq!(cut("äöüäöü", 3), "ä…ü");
        let mut columns = Columns::new([("name", Align::Left), ("n", Align::Right)]);
        columns.row(vec!["x".repeat(80) + ":9", "1".into()]);
        let text = columns.fit(Some(40), &[]).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("x:9  1\n"), "{text}");
    }
}
