//! Equal, or a message that shows where not: by function, then by instruction.

use crate::listing::Listing;
use crate::profile::{Counts, Function, Profile};
use crate::qemu::Pieces;
use crate::Result;
use std::collections::BTreeSet;
use std::fmt::Write;

/// How many differing functions, and instructions in each, a message shows.
const SHOWN: usize = 8;

/// Two architectural views. Returns how many functions had accesses at all.
pub fn equal(
    functions: &[Function],
    listing: &Listing,
    (a_name, a): (&str, &Profile),
    (b_name, b): (&str, &Profile),
) -> Result<usize> {
    let at = |p: &Profile, pc: u64| p.by_pc.get(&pc).map(Counts::from).unwrap_or_default();
    let pcs = a.by_pc.keys().chain(b.by_pc.keys()).copied().collect();
    let left_out = |pc: u64| listing.left_out(pc);
    report(functions, &pcs, a_name, b_name, &|pc| {
        (!left_out(pc)).then(|| (at(a, pc), at(b, pc)))
    })
}

/// An architectural view, already in pieces, against QEMU's.
pub fn equal_pieces(
    functions: &[Function],
    listing: &Listing,
    (a_name, a): (&str, &Profile),
    qemu: &Pieces,
) -> Result<usize> {
    let pcs = a.by_pc.keys().chain(qemu.by_pc.keys()).copied().collect();
    report(functions, &pcs, a_name, "QEMU", &|pc| {
        let mine = a.by_pc.get(&pc).map(Counts::from).unwrap_or_default();
        let theirs = qemu.by_pc.get(&pc).copied().unwrap_or_default();
        (!listing.left_out(pc)).then_some((mine, theirs))
    })
}

fn report(
    functions: &[Function],
    pcs: &BTreeSet<u64>,
    a_name: &str,
    b_name: &str,
    both: &dyn Fn(u64) -> Option<(Counts, Counts)>,
) -> Result<usize> {
    let mut message = String::new();
    let (mut active, mut wrong) = (0, 0);
    for function in functions {
        let (mut a_sum, mut b_sum) = (Counts::default(), Counts::default());
        let mut differing = Vec::new();
        for pc in pcs.range(function.start..function.end) {
            let Some((a, b)) = both(*pc) else { continue };
            a_sum.add(&a);
            b_sum.add(&b);
            if a != b {
                differing.push((*pc, a, b));
            }
        }
        active += usize::from(!a_sum.is_zero() || !b_sum.is_zero());
        // Stricter than the sums: two errors in one function must not cancel out.
        if differing.is_empty() {
            continue;
        }
        wrong += 1;
        if wrong <= SHOWN {
            let _ = writeln!(message, "{}: {a_name} {a_sum}, {b_name} {b_sum}", function.name);
            for (pc, a, b) in differing.iter().take(SHOWN) {
                let _ = writeln!(message, "    {pc:#x}: {a_name} {a}, {b_name} {b}");
            }
        }
    }
    match (wrong, active) {
        (_, 0) => Err("nothing to compare: no function has an access".into()),
        (0, _) => Ok(active),
        _ => Err(format!("{wrong} of {active} functions differ:\n{message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Direction;

    fn functions() -> Vec<Function> {
        let one = |name: &str, start| Function {
            name: name.into(),
            start,
            end: start + 0x10,
        };
        vec![one("f", 0x10), one("g", 0x20)]
    }

    fn verdict(a: &[(u64, u32)], b: &[(u64, u32)]) -> Result<usize> {
        let profile = |list: &[(u64, u32)]| {
            let mut profile = Profile::default();
            list.iter()
                .for_each(|(pc, size)| profile.add(*pc, Direction::Read, *size, 1));
            profile
        };
        let listing = Listing::parse("  2f:\txsave (%rax)\n");
        equal(&functions(), &listing, ("a", &profile(a)), ("b", &profile(b)))
    }

    #[test]
    fn equal_views_agree_and_others_do_not() {
        assert_eq!(verdict(&[(0x10, 8), (0x20, 4)], &[(0x10, 8), (0x20, 4)]), Ok(2));
        let why = verdict(&[(0x10, 8), (0x20, 4)], &[(0x10, 8), (0x20, 8)]).expect_err("sizes differ");
        assert!(why.starts_with("1 of 2 functions differ:\ng: a"), "{why}");
        assert!(verdict(&[(0x10, 8)], &[]).is_err());
    }

    #[test]
    fn errors_within_a_function_do_not_cancel_out() {
        assert!(verdict(&[(0x10, 8)], &[(0x18, 8)]).is_err());
    }

    #[test]
    fn what_is_left_out_is_left_out_on_both_sides() {
        assert_eq!(verdict(&[(0x10, 8), (0x2f, 64)], &[(0x10, 8), (0x2f, 8)]), Ok(1));
    }

    #[test]
    fn comparing_nothing_is_no_agreement() {
        assert!(verdict(&[], &[]).is_err());
    }
}
