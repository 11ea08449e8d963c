//! Numbers as people read them.

/// 1234567 as `1,234,567`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A path's last part.
pub fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A part of a whole, if there is one.
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A ratio, or what is missing for one.
pub fn shown_ratio(ratio: Option<f64>, missing: &str) -> String {
    ratio.map_or_else(|| missing.to_string(), |ratio| format!("{ratio:.5}"))
}

/// A share in percent.
pub fn percent(part: u64, whole: u64) -> String {
    ratio(part, whole).map_or_else(|| "-".to_string(), |share| format!("{:.2}", 100.0 * share))
}

/// Bytes with a unit.
pub fn bytes(n: u64) -> String {
    let mut value = n as f64;
    let mut unit = "bytes";
    for next in ["KB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if unit == "bytes" {
        format!("{n} bytes")
    } else {
        format!("{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1000), "1,000");
        assert_eq!(thousands(1234567), "1,234,567");
    }

    #[test]
    fn bytes_get_units() {
        assert_eq!(bytes(12), "12 bytes");
        assert_eq!(bytes(1500), "1.5 KB");
        assert_eq!(bytes(2_500_000), "2.5 MB");
    }
}
