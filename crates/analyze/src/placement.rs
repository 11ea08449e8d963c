//! Accesses to some objects, put elsewhere on their way from a tagger to its sink: how a layout
//! that the program does not have is simulated.

/// An object as a [`Placement`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its number, which another may get after its death; with its birth it is unique.
    pub object: u32,
    pub birth: u64,
    /// Where the program has it. A variable that was mapped in pieces is whole here.
    pub address: u64,
    pub bytes: u64,
    pub group: u32,
}

/// Says where accesses go instead.
pub trait Placement {
    /// Whether it has anything to say about the objects of a group.
    fn moves(&self, group: u32) -> bool;
    /// The address that is accessed instead of `addr`, an address of `object`.
    fn place(&mut self, object: &Placed, addr: u64) -> u64;
}
