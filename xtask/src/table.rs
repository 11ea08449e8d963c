//! Markdown tables whose columns line up in a terminal as well.

/// Renders rows under a header. Columns named in `right` are right-aligned.
pub fn markdown(header: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|h| h.chars().count().max(3)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(i, cell)| {
                let blank = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
                if right.contains(&i) {
                    format!("{blank}{cell}")
                } else {
                    format!("{cell}{blank}")
                }
            })
            .collect();
        format!("| {} |\n", padded.join(" | "))
    };
    let header: Vec<String> = header.iter().map(|h| h.to_string()).collect();
    let rule: Vec<String> = (0..header.len())
        .map(|i| {
            let dashes = "-".repeat(widths[i] - 1);
            if right.contains(&i) {
                format!("{dashes}:")
            } else {
                format!("-{dashes}")
            }
        })
        .collect();
    let mut out = line(&header) + &line(&rule);
    for row in rows {
        out += &line(row);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::markdown;

    #[test]
    fn columns_line_up() {
        let rows = vec![
            vec!["a".to_string(), "1.0".to_string()],
            vec!["long name".to_string(), "10.25".to_string()],
        ];
        let text = markdown(&["name", "value"], &[1], &rows);
        let expected = "| name      | value |\n| --------- | ----: |\n| a         |   1.0 |\n| long name | 10.25 |\n";
        assert_eq!(text, expected);
    }
}
