//! Collapsed stacks, for flame graphs: a line for each stack, functions separated by semicolons, a
//! number at the end. The innermost frame is what is accessed.
use super::{one_line, Profile};
use std::collections::BTreeMap;

/// One event of a profile, by its place. Stacks that have none of it are left out.
pub fn collapsed(profile: &Profile, event: usize) -> String {
    let frame = |name: &str| one_line(name).replace(';', ",");
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for sample in profile.samples.iter().filter(|sample| sample.values[event] > 0) {
        let functions = sample.stack.iter().map(|one| frame(&one.function));
        let stack: Vec<String> = functions.chain([frame(&sample.words)]).collect();
        *stacks.entry(stack.join(";")).or_default() += sample.values[event];
    }
    stacks.iter().map(|(stack, n)| format!("{stack} {n}\n")).collect()
}
