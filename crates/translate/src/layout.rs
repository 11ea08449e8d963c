//! Where translated code finds the runtime: offsets from the `gs` base.
//!
//! Translated code and the runtime meet only here; the runtime checks its structure against these
//! constants at compile time.

/// rcx while an indirect branch or return is under way.
pub const SAVED_RCX: u32 = 0x08;
/// rdx while an indirect branch is under way.
pub const SAVED_RDX: u32 = 0x10;
/// The register that stands in for r15 in the current block.
pub const SAVED_STAND_IN: u32 = 0x18;
/// A scratch register inside one rewritten instruction.
pub const SAVED_SCRATCH: u32 = 0x20;
/// The target's r15, outside blocks that use it: the hardware's r15 is the buffer pointer.
pub const APP_R15: u32 = 0x28;
/// The target's own gs base.
pub const APP_GS: u32 = 0x30;
/// Code addresses of the ways into the runtime.
pub const LEAVE: u32 = 0x38;
pub const INDIRECT_MISS: u32 = 0x40;
pub const RETURN_MISS: u32 = 0x48;
/// Number of the link through which the cache was left.
pub const LINK: u32 = 0x50;
/// Where an indirect branch leads, while that is compared with what is expected.
pub const TARGET: u32 = 0x58;
/// Tables of entry points, indexed by the low 16 bits of the target address.
pub const INDIRECT_TABLE: u32 = 0x1_0000;
pub const RETURN_TABLE: u32 = 0x9_0000;
pub const TABLE_ENTRIES: usize = 1 << 16;
