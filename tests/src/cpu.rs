//! Which instruction sets this machine offers, by the kernel's names for them.
//!
//! The kernel's list is used rather than CPUID because it also knows what the
//! system has enabled: a feature that is there but off would still fault.

use std::collections::HashSet;
use std::sync::OnceLock;

/// Features among `needed` that are missing here.
pub fn missing(needed: &[String]) -> Vec<String> {
    static FLAGS: OnceLock<HashSet<String>> = OnceLock::new();
    let flags = FLAGS.get_or_init(|| {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = info.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect()
    });
    needed.iter().filter(|f| !flags.contains(*f)).cloned().collect()
}
