//! The layout of the xsave area: how many bytes xsave and its kin touch follows from it.
use alloc::vec::Vec;

/// One component of the xsave area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XsaveComponent {
    pub index: u8,
    pub size: u32,
    /// Offset in the standard layout.
    pub offset: u32,
    /// In the compact layout this component begins at a multiple of 64.
    pub aligned: bool,
}

/// The xsave area of the machine that recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XsaveTable {
    /// Components the kernel has enabled.
    pub xcr0: u64,
    /// Components from 2 on; 0 and 1 are the legacy area.
    pub components: Vec<XsaveComponent>,
}
