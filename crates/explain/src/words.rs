//! Numbers and names as one would say them.
use memtrail_report::format::thousands;

/// A share in words where there is a good one: `an eighth of`, `half of`, `12% of`, `all of`.
pub fn part_of(share: f64) -> String {
    const WORDS: [(f64, &str); 8] = [
        (1.0, "all of"),
        (0.75, "three quarters of"),
        (0.5, "half of"),
        (1.0 / 3.0, "a third of"),
        (0.25, "a quarter of"),
        (0.125, "an eighth of"),
        (1.0 / 16.0, "a sixteenth of"),
        (0.0, "nothing of"),
    ];
    // As near as a reader of the rounded percentage would take for the same.
    let near = |(value, _): &&(f64, &str)| (share - value).abs() <= 0.015 * value.max(0.01);
    match WORDS.iter().find(near) {
        Some((_, words)) => words.to_string(),
        None => format!("{} of", percent(share)),
    }
}

/// A share, with as many digits as tell it from nothing and from everything.
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        p if p > 0.0 && p < 0.95 || p > 99.05 && p < 100.0 => format!("{p:.1}%"),
        p => format!("{p:.0}%"),
    }
}

/// `1 thread`, `2,000 threads`.
pub fn plural(n: u64, one: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{} {one}s", thousands(n)),
    }
}

/// A function of the C library as programmers call it: `memmove` for
/// `__memmove_avx_unaligned_erms`.
pub fn plain_function(name: &str) -> &str {
    let bare = name.trim_start_matches('_');
    const VARIANTS: [&str; 6] = ["_avx", "_evex", "_sse", "_erms", "_generic", "_ssse"];
    let end = VARIANTS.iter().filter_map(|variant| bare.find(variant)).min();
    match end {
        Some(end) if end > 0 => &bare[..end],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_words() {
        assert_eq!(part_of(0.125), "an eighth of");
        assert_eq!(part_of(0.1255), "an eighth of");
        assert_eq!(part_of(0.13), "13% of");
        assert_eq!(part_of(1.0), "all of");
        assert_eq!(part_of(0.999), "all of");
        assert_eq!(part_of(0.0), "nothing of");
        assert_eq!(part_of(0.004), "0.4% of");
    }

    #[test]
    fn percentages_do_not_round_to_all_or_nothing() {
        assert_eq!(percent(0.004), "0.4%");
        assert_eq!(percent(0.9961), "99.6%");
        assert_eq!(percent(0.6349), "63%");
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(1.0), "100%");
    }

    #[test]
    fn variants_of_functions_are_called_by_their_name() {
        assert_eq!(plain_function("__memmove_avx_unaligned_erms"), "memmove");
        assert_eq!(plain_function("__memset_evex_unaligned"), "memset");
        assert_eq!(plain_function("main"), "main");
        assert_eq!(plain_function("_int_malloc"), "_int_malloc");
        assert_eq!(plain_function("_avx"), "_avx");
    }
}
