//! Why an answer is less than it could be.
use std::fmt;
use std::path::PathBuf;

/// Why something has no name, or a poorer one than debug information would give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("{} not found", .0.display())]
    NotFound(PathBuf),
    #[error("{} cannot be read: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("{} is no 64-bit little-endian ELF file", .0.display())]
    NotElf(PathBuf),
    #[error("{} is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("{} is another build: its build id is {found}, {expected} was recorded", path.display())]
    BuildIdDiffers {
        path: PathBuf,
        expected: BuildId,
        found: BuildId,
    },
    #[error("{} does not belong to the program: its checksum is {found:08x}, not {expected:08x}", path.display())]
    ChecksumDiffers { path: PathBuf, expected: u32, found: u32 },
    #[error("split debug information {} not found", .0.display())]
    SplitMissing(PathBuf),
    #[error("supplementary debug information {} not found", .0.display())]
    SupplementaryMissing(PathBuf),
    #[error("no debug information")]
    NoDebugInfo,
    #[error("stripped: only exported symbols are left")]
    Stripped,
    #[error("stripped: no symbols")]
    NoSymbols,
    #[error("debug information does not cover this address")]
    NotCovered,
    #[error("no symbol covers this address")]
    NoSymbolHere,
    #[error("offset {0:#x} is in no segment of the file")]
    NotLoaded(u64),
}

/// The bytes by which the linker tells builds apart; displayed in hexadecimal, or as `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BuildId(pub Vec<u8>);

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
