//! Which memory lies in pages of which size: small ones, unless a plan says otherwise.
use crate::config::PageSize;
use crate::hash::PageSet;

/// Areas in larger pages.
#[derive(Clone, Debug, Default)]
pub struct PagePlan {
    /// Larger sizes first; each with the pages of that size, by address space and number.
    sizes: Vec<(PageSize, PageSet<(u32, u64)>)>,
}

impl PagePlan {
    /// A page of an address space, by its number in pages of this size, is such a page.
    pub fn add(&mut self, space: u32, page: u64, size: PageSize) {
        let at = self.sizes.partition_point(|(known, _)| *known > size);
        if self.sizes.get(at).is_none_or(|(known, _)| *known != size) {
            self.sizes.insert(at, (size, PageSet::default()));
        }
        self.sizes[at].1.insert((space, page));
    }

    /// The size of the page that an address lies in.
    #[inline]
    pub fn size(&self, space: u32, address: u64) -> PageSize {
        let larger = self
            .sizes
            .iter()
            .find(|(size, pages)| pages.contains(&(space, size.page(address))));
        larger.map_or(PageSize::SMALL, |(size, _)| *size)
    }

    /// Pages that are larger than small ones.
    pub fn pages(&self) -> usize {
        self.sizes.iter().map(|(_, pages)| pages.len()).sum()
    }

    /// Bytes in them.
    pub fn bytes(&self) -> u64 {
        let bytes = |(size, pages): &(PageSize, PageSet<_>)| size.bytes() * pages.len() as u64;
        self.sizes.iter().map(bytes).sum()
    }
}
