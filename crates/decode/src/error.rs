//! What can be wrong with records and definitions. Each error carries the bad value.

/// Records or definitions that make no sense: a damaged file, a damaged ring, or a bug of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("record of block {id}, which was never defined")]
    UnknownBlock { id: u64 },
    #[error("no record can begin with {head:#x} (word {at})")]
    BadHead { head: u64, at: usize },
    #[error("a record of {need} words at word {at}, where only {have} are left")]
    ShortRecord { at: usize, need: usize, have: usize },
    #[error("a CUT that follows no block record")]
    CutWithoutBlock,
    #[error("a note headed {head} has impossible values")]
    BadNote { head: u64 },
    #[error("a CUT before instruction {insn} of a block of {insns}")]
    BadCut { insn: u64, insns: usize },
    #[error("iteration record {id} without the loop's first iteration before it")]
    SteadyWithoutFirst { id: u64 },
    #[error("{count} accesses in one execution of block {id}: impossible")]
    TooMany { id: u32, count: u128 },
    #[error("loop record of block {id} left with counter {exit:#x} after entry with {entry:#x}: impossible")]
    BadTrips { id: u32, entry: u64, exit: u64 },
    #[error("block {id} is defined twice")]
    DefinedTwice { id: u32 },
    #[error("block id {id} is out of range")]
    BadId { id: u64 },
    #[error("the plan of block {id} refers to slot {slot} of {slots}")]
    BadPlan { id: u32, slot: usize, slots: usize },
    #[error("the code of block {id} at {pc:#x} cannot be analysed: {why}")]
    BadCode { id: u32, pc: u64, why: String },
    #[error("block {id} has {have} bytes of code and instructions of {need}")]
    BadCodeLength { id: u32, have: usize, need: usize },
    #[error("block {id} has {have} images for {need} pieces of code")]
    BadImages { id: u32, have: usize, need: usize },
    #[error("image {image}, of which {images} are known")]
    UnknownImage { image: u32, images: usize },
    #[error("an image of module {module}, of which {modules} are known")]
    UnknownModule { module: u32, modules: usize },
    #[error("a message headed {head:#x} at word {at} of {words} makes no sense")]
    BadMessage { head: u64, at: usize, words: usize },
}
