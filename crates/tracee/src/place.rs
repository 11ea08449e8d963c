//! Where in a target's address space the runtime is put.
//!
//! **Problem.** Programs may lay claim to fixed addresses long after they have started. Sanitizers
//! do: each has a shadow memory at addresses that its compiler put into the code, refuses to start
//! if anything lies there, and closes the gaps in between. ThreadSanitizer refuses to start if
//! anything lies outside the ranges where a program's own code, data and stack belong.
//!
//! **Idea.** There is one range that is the program's own in every one of these layouts, and that
//! the kernel never uses by itself: below the lowest address of position-independent programs,
//! 2/3 of the address space, 0x5555_5555_4000.
//!
//! | layout on x86-64 | the program's own, around this range |
//! |---|---|
//! | Linux | programs from 0x5555_5555_4000 upwards; libraries from below 0x7fff_ffff_f000 downwards |
//! | AddressSanitizer | 0x1000_7fff_8000 to 0x7fff_ffff_ffff; allocator at 0x6000_0000_0000 or 0x5000_0000_0000, 4 TB |
//! | ThreadSanitizer | 0x5500_0000_0000 to 0x5680_0000_0000 |
//! | MemorySanitizer, DataFlowSanitizer | 0x5100_0000_0000 to 0x6000_0000_0000 |
//! | LeakSanitizer, HWAddressSanitizer | wherever the kernel finds place |
//! | Go's race detector | shadow up to 0x4000_0000_0000, traces from 0x6000_0000_0000 |
//!
//! (compiler-rt: `tsan_platform.h`, `asan_mapping.h`, `asan_allocator.h`, `msan.h`.)
//! If the program itself lies there, any other range of addresses that is free must do.
use crate::image::page_ceil;
use crate::Error;
use memtrail_ring::{PAGE, SESSION_BYTES};

/// Ranges to be tried, in this order.
const WINDOWS: [(u64, u64); 4] = [
    (0x5500_0000_0000, 0x5555_0000_0000),
    // Not for ThreadSanitizer.
    (0x5400_0000_0000, 0x5500_0000_0000),
    (0x3000_0000_0000, 0x4000_0000_0000),
    (0x0001_0000_0000, 0x7000_0000_0000),
];
/// Room that a runtime may come to need: heaps, and 1.5 MB for each thread.
const LEAST_ROOM: u64 = 32 << 30;
/// The parts begin at multiples of this, so that there is a gap behind each.
const ALIGN: u64 = 2 << 20;

/// Addresses for the parts of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub image: u64,
    /// The boot page.
    pub boot: u64,
    pub session: u64,
    /// For what the runtime maps itself.
    pub room: u64,
    pub room_end: u64,
}

fn behind(end: u64) -> u64 {
    (end + ALIGN) & !(ALIGN - 1)
}

impl Place {
    /// A place in process `pid`, which stands still, for an image of `image_bytes`.
    pub fn find(pid: i32, image_bytes: u64) -> Result<Place, Error> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|source| Error::System {
            call: "reading the target's mappings",
            source,
        })?;
        Place::among(&maps, image_bytes).ok_or(Error::NoRoom { pid })
    }

    fn among(maps: &str, image_bytes: u64) -> Option<Place> {
        let at_zero = Place::from(0, image_bytes, 0);
        let bytes = at_zero.room + LEAST_ROOM;
        let found = WINDOWS.iter().find_map(|&window| hole(maps, window, bytes));
        found.map(|(start, end)| Place::from(start, image_bytes, end))
    }

    fn from(start: u64, image_bytes: u64, end: u64) -> Place {
        let boot = behind(start + page_ceil(image_bytes));
        let session = behind(boot + PAGE as u64);
        Place {
            image: start,
            boot,
            session,
            room: behind(session + SESSION_BYTES as u64),
            room_end: end,
        }
    }
}

/// The first range without mappings in `window` that has at least `bytes`.
fn hole(maps: &str, window: (u64, u64), bytes: u64) -> Option<(u64, u64)> {
    let mut start = window.0;
    for (from, to) in maps.lines().filter_map(range).chain([(u64::MAX, u64::MAX)]) {
        let end = from.min(window.1) & !(ALIGN - 1);
        if end.saturating_sub(start) >= bytes {
            return Some((start, end));
        }
        if to > start {
            start = behind(to.min(window.1));
        }
    }
    None
}

/// First address and end of a line of /proc/PID/maps.
fn range(line: &str) -> Option<(u64, u64)> {
    let (start, rest) = line.split_once('-')?;
    let end = rest.split(' ').next()?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "\
555555554000-555555556000 r--p 00000000 fe:01 131 /usr/bin/true
555555559000-55555555b000 rw-p 00004000 fe:01 131 /usr/bin/true
7ffff7fc9000-7ffff7ffe000 r-xp 00000000 fe:01 132 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
";

    #[test]
    fn the_parts_lie_where_every_sanitizer_lets_the_program_be() {
        let place = Place::among(USUAL, 0xc_4000).unwrap();
        assert_eq!(
            place,
            Place {
                image: 0x5500_0000_0000,
                boot: 0x5500_0020_0000,
                session: 0x5500_0040_0000,
                room: 0x5502_0560_0000,
                room_end: 0x5555_0000_0000,
            }
        );
        assert!(place.session + SESSION_BYTES as u64 <= place.room);
    }

    #[test]
    fn a_program_that_lies_there_keeps_its_place() {
        let here = "550000001000-550000002000 r-xp 00000000 fe:01 131 /a/program\n";
        let place = Place::among(&format!("{here}{USUAL}"), 0xc_4000).unwrap();
        assert_eq!(place.image, 0x5500_0020_0000);
        let all = "550000000000-555500000000 rw-p 00000000 00:00 0\n";
        let place = Place::among(&format!("{all}{USUAL}"), 0xc_4000).unwrap();
        assert_eq!((place.image, place.room_end), (0x5400_0000_0000, 0x5500_0000_0000));
        let nearly_all = "000000010000-7fffff000000 rw-p 00000000 00:00 0\n";
        assert_eq!(Place::among(nearly_all, 0xc_4000), None);
    }

    #[test]
    fn lines_that_say_nothing_are_left_out() {
        assert_eq!(range("1000-2000 r--p 0 0 0"), Some((0x1000, 0x2000)));
        assert_eq!(range("1000-2000"), Some((0x1000, 0x2000)));
        for line in ["", "-", "x-y z", "1000"] {
            assert_eq!(range(line), None, "{line}");
        }
    }
}
