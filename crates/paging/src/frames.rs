//! Physical memory, handed out in the order in which it is asked for. Nothing is handed out twice.
use crate::config::PageSize;

/// Larger pages lie from here on, so that they cost small ones no alignment.
const LARGE: u64 = 1 << 40;

#[derive(Clone, Debug)]
pub struct Frames {
    small: u64,
    large: u64,
}

impl Default for Frames {
    fn default() -> Frames {
        Frames {
            // Physical address 0 belongs to nobody.
            small: PageSize::SMALL.bytes(),
            large: LARGE,
        }
    }
}

impl Frames {
    /// The physical address of a new page.
    pub fn take(&mut self, size: PageSize) -> u64 {
        let next = match size {
            PageSize::SMALL => &mut self.small,
            _ => &mut self.large,
        };
        let start = next.next_multiple_of(size.bytes());
        *next = start + size.bytes();
        start
    }
}
