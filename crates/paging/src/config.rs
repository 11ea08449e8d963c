//! What translation is like on a machine, and whether that makes sense.
use std::fmt;

/// The size of a page: a power of two from 4 KiB to 1 GiB.
///
/// 4 KiB, 2 MiB and 1 GiB are what page tables have entries for. Sizes between 4 KiB and 2 MiB are
/// runs of small pages that a TLB holds in one entry; sizes between 2 MiB and 1 GiB the same of
/// huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct PageSize(u8);

impl PageSize {
    pub const SMALL: PageSize = PageSize(12);
    pub const HUGE: PageSize = PageSize(21);
    pub const GIANT: PageSize = PageSize(30);

    pub fn of_bytes(bytes: u64) -> Option<PageSize> {
        let fits = bytes.is_power_of_two() && (1 << 12..=1 << 30).contains(&bytes);
        fits.then(|| PageSize(bytes.trailing_zeros() as u8))
    }

    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// Bits of an address within a page.
    pub const fn shift(self) -> u32 {
        self.0 as u32
    }

    /// The number of the page that an address lies in.
    pub const fn page(self, address: u64) -> u64 {
        address >> self.0
    }

    /// The lowest bit that the last table entry of a walk translates: 12, 21 or 30.
    pub const fn leaf_shift(self) -> u32 {
        match self.0 {
            30.. => 30,
            21.. => 21,
            _ => 12,
        }
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            30.. => write!(f, "{}G", 1u64 << (self.0 - 30)),
            20.. => write!(f, "{}M", 1u64 << (self.0 - 20)),
            _ => write!(f, "{}K", 1u64 << (self.0 - 10)),
        }
    }
}

/// One array of a TLB level: translations of some page sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlbArray {
    /// 1 is the first.
    pub level: u8,
    pub sizes: Vec<PageSize>,
    pub entries: u32,
    pub ways: u32,
}

/// A cache of directory entries, which lets a walk begin further down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkCache {
    /// The lowest address bit that its entries translate: 21 for those that point to page tables, 30,
    /// 39 or 48 for those above.
    pub shift: u32,
    pub entries: u32,
    pub ways: u32,
}

impl WalkCache {
    /// By the maker's name of the entries they hold.
    pub const NAMES: [(&'static str, u32); 4] = [("PDE", 21), ("PDPTE", 30), ("PML4E", 39), ("PML5E", 48)];
}

/// Translation, for each core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PagingConfig {
    pub arrays: Vec<TlbArray>,
    pub walk_caches: Vec<WalkCache>,
    /// Of the page table: 4 or 5.
    pub levels: u32,
    /// Thread t runs on core t mod this; without it each thread has a core to itself.
    pub cores: Option<u32>,
}

/// TLB levels at most.
pub const MOST_TLB_LEVELS: usize = 3;
/// Entries of one array at most.
pub const MOST_ENTRIES: u32 = 1 << 20;

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagingError {
    #[error("no TLB is given: at least one like L1=4K:64:4")]
    NoArrays,
    #[error("no TLB of the first level holds pages of 4K: give one like L1=4K:64:4")]
    NoSmallPages,
    #[error("there are TLBs of level {0}, but none of level {1}")]
    LevelLeftOut(u8, u8),
    #[error("two TLBs of level {0} hold pages of {1}")]
    Twice(u8, PageSize),
    #[error("cores = 0: there is at least one")]
    NoCores,
    #[error("levels = {0}: page tables have 4 or 5 levels")]
    Levels(u32),
    #[error("{array}: {entries} entries in {ways} ways: entries are a multiple of ways, from 1 to {MOST_ENTRIES}")]
    Geometry { array: String, entries: u32, ways: u32 },
    #[error("two page-walk caches hold entries of {0}")]
    SameWalkCache(&'static str),
    #[error("{text:?}: {why}")]
    Text { text: String, why: String },
    #[error("there is no TLB preset {0}; memtrail pages --tlb list names them")]
    NoPreset(String),
}

impl PagingConfig {
    /// TLB levels.
    pub fn depth(&self) -> usize {
        self.arrays
            .iter()
            .map(|array| usize::from(array.level))
            .max()
            .unwrap_or(0)
    }

    /// As which pages a page is held in TLBs: those of the next smaller size that any of them holds,
    /// if none holds its own.
    pub fn held_as(&self, size: PageSize) -> PageSize {
        let sizes = self.arrays.iter().flat_map(|array| &array.sizes);
        sizes
            .copied()
            .filter(|&held| held <= size)
            .max()
            .unwrap_or(PageSize::SMALL)
    }

    pub fn check(&self) -> Result<(), PagingError> {
        if self.arrays.is_empty() {
            return Err(PagingError::NoArrays);
        }
        if self.cores == Some(0) {
            return Err(PagingError::NoCores);
        }
        if !(4..=5).contains(&self.levels) {
            return Err(PagingError::Levels(self.levels));
        }
        for level in 1..=self.depth() as u8 {
            let of_level = || self.arrays.iter().filter(move |array| array.level == level);
            if of_level().next().is_none() {
                return Err(PagingError::LevelLeftOut(self.depth() as u8, level));
            }
            let mut sizes: Vec<PageSize> = of_level().flat_map(|array| array.sizes.iter().copied()).collect();
            sizes.sort_unstable();
            if let Some(pair) = sizes.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(PagingError::Twice(level, pair[0]));
            }
            if level == 1 && sizes.first() != Some(&PageSize::SMALL) {
                return Err(PagingError::NoSmallPages);
            }
        }
        for array in &self.arrays {
            geometry(array.to_string(), array.entries, array.ways)?;
        }
        for (i, cache) in self.walk_caches.iter().enumerate() {
            geometry(cache.to_string(), cache.entries, cache.ways)?;
            if self.walk_caches[..i].iter().any(|other| other.shift == cache.shift) {
                return Err(PagingError::SameWalkCache(cache.name()));
            }
        }
        Ok(())
    }
}

fn geometry(array: String, entries: u32, ways: u32) -> Result<(), PagingError> {
    let fits = ways > 0 && entries > 0 && entries <= MOST_ENTRIES && entries % ways == 0;
    match fits {
        true => Ok(()),
        false => Err(PagingError::Geometry { array, entries, ways }),
    }
}
