//! Wrappers that nobody named: recognised by what they are asked for.
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Callers, and sizes of blocks, that make a call one of a wrapper.
const MANY_CALLERS: usize = 3;
const MANY_SIZES: usize = 3;

/// Calls that ask for blocks of many sizes on behalf of many callers. `paths` are the calls that
/// lead to allocations, the outermost first, each with the usual size of the blocks.
///
/// ```
/// use memtrail_analyze::objects::busy;
/// let path = |caller, size| (vec!["main", caller, "get"], size);
/// assert!(busy(&[path("a", 8), path("b", 16)]).is_empty());
/// assert!(busy(&[path("a", 8), path("b", 16), path("c", 32)]).contains("get"));
/// ```
pub fn busy<K: Clone + Eq + Hash>(paths: &[(Vec<K>, u64)]) -> HashSet<K> {
    let mut busy = HashSet::new();
    loop {
        let mut seen: HashMap<&K, (HashSet<&K>, HashSet<u64>)> = HashMap::new();
        for (path, size) in paths {
            let mut outwards = path.iter().rev().skip_while(|call| busy.contains(*call));
            if let (Some(call), Some(caller)) = (outwards.next(), outwards.next()) {
                let (callers, sizes) = seen.entry(call).or_default();
                callers.insert(caller);
                sizes.insert(*size);
            }
        }
        let many =
            |(callers, sizes): &(HashSet<&K>, HashSet<u64>)| callers.len() >= MANY_CALLERS && sizes.len() >= MANY_SIZES;
        let found: Vec<K> = seen
            .iter()
            .filter(|(_, seen)| many(seen))
            .map(|(&call, _)| call.clone())
            .collect();
        if found.is_empty() {
            return busy;
        }
        busy.extend(found);
    }
}
