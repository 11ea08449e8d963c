//! Text in aligned columns.
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
}

/// Between columns.
const GAP: &str = "  ";

impl Columns {
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = (S, Align)>) -> Columns {
        let (names, aligns) = head.into_iter().map(|(name, align)| (name.into(), align)).unzip();
        Columns {
            aligns,
            rows: vec![names],
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
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.aligns.len()).map(width).collect();
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
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let mut columns = Columns::new([("name", Align::Left), ("n", Align::Right), ("word", Align::Left)]);
        assert!(columns.is_empty());
        columns.row(vec!["a".into(), "1,000".into(), "x".into()]);
        columns.row(vec!["longer".into(), "7".into(), String::new()]);
        assert!(!columns.is_empty());
        assert_eq!(
            columns.to_string(),
            "name        n  word\na       1,000  x\nlonger      7\n"
        );
    }
}
