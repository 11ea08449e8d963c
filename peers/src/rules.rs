//! The conventions in which the tools differ, as functions.
//!
//! The architectural view is the common one: what an instruction reads and
//! writes, each once, in full size. Measured with one assembly loop per kind of
//! instruction (Valgrind 3.19, QEMU 7.2), the differences that these programs
//! meet are:
//!
//! | case | lackey | QEMU |
//! |---|---|---|
//! | locked read-modify-write, `xchg` with memory | one read too many | as is |
//! | `bt`/`bts`/`btr`/`btc` between registers | a phantom store and load | as is |
//! | 16 and 32 bytes | as is | 2 and 4 pieces of 8 |
//! | 10 bytes (x87) | as is | 8 + 2 |
//!
//! Where no rule can be given (state saves, gathers, masked moves, bit tests in
//! memory, `rep lods`) the instruction is left out for all tools alike.

use crate::listing::{Class, Listing};
use crate::profile::{Direction, Profile, Sizes};

/// lackey's view → the architectural view.
pub fn architectural(lackey: &Profile, listing: &Listing) -> Profile {
    let mut out = Profile::default();
    for (pc, sizes) in &lackey.by_pc {
        let sizes = match listing.class(*pc) {
            Class::ExtraRead => without_extra_reads(sizes),
            Class::Phantom => continue,
            Class::Ordinary | Class::LeftOut => sizes.clone(),
        };
        out.by_pc.insert(*pc, sizes);
    }
    out
}

/// Every write came with one read too many of the same size.
fn without_extra_reads(sizes: &Sizes) -> Sizes {
    let mut fixed = sizes.clone();
    for ((direction, size), times) in sizes {
        if *direction == Direction::Write {
            let reads = fixed.entry((Direction::Read, *size)).or_default();
            *reads = reads.saturating_sub(*times);
        }
    }
    fixed.retain(|_, times| *times > 0);
    fixed
}

/// The architectural view → the pieces of at most 8 bytes that QEMU works in.
pub fn pieces(profile: &Profile) -> Profile {
    let mut out = Profile::default();
    for (pc, sizes) in &profile.by_pc {
        for ((direction, size), times) in sizes {
            if *size <= 8 {
                out.add(*pc, *direction, *size, *times);
                continue;
            }
            out.add(*pc, *direction, 8, times * u64::from(size / 8));
            if size % 8 != 0 {
                out.add(*pc, *direction, size % 8, *times);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Counts;

    #[test]
    fn vector_accesses_fall_to_pieces() {
        let mut profile = Profile::default();
        profile.add(1, Direction::Read, 32, 3);
        profile.add(1, Direction::Write, 10, 1);
        let got = Counts::from(&pieces(&profile).by_pc[&1]);
        assert_eq!(
            got,
            Counts {
                reads: 12,
                read_bytes: 96,
                writes: 2,
                written_bytes: 10
            }
        );
    }

    #[test]
    fn a_locked_instruction_reads_once() {
        let sizes = Sizes::from([((Direction::Read, 4), 20), ((Direction::Write, 4), 10)]);
        assert_eq!(
            without_extra_reads(&sizes),
            Sizes::from([((Direction::Read, 4), 10), ((Direction::Write, 4), 10)])
        );
    }
}
