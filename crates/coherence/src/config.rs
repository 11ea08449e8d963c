//! Which caches are simulated, and whether that makes sense.

/// Cores of a machine: which of them hold a line is a set of bits.
pub const MOST_CORES: u32 = 128;

/// Which bytes of a line were written is a set of bits, too.
const MOST_LINE: u32 = 128;

/// How private caches agree on who may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// A dirty line that another core reads is written back, and both share it.
    #[default]
    Mesi,
    /// It stays dirty in the cache of its owner, which answers for it.
    Moesi,
}

/// Size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Bytes.
    pub size: u64,
    pub ways: u32,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoherenceConfig {
    pub protocol: Protocol,
    /// Bytes of a line, of all caches.
    pub line: u32,
    /// The caches that each core has, from the processor outwards; each holds all that the ones
    /// before it hold.
    pub private: Vec<Geometry>,
    /// The caches that all cores use, from those outwards.
    pub shared: Vec<Geometry>,
    /// Thread `t` runs on core `t` mod this.
    pub cores: u32,
}

/// What is wrong with a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoherenceError {
    #[error("no cache is private to a core: there is nothing to keep coherent")]
    NothingPrivate,
    #[error("lines of {0} bytes: coherence is simulated for powers of two from 4 to {MOST_LINE}")]
    Line(u32),
    #[error("{0} cores: coherence is simulated for 1 to {MOST_CORES} of them; --cores N lets threads share some")]
    Cores(u32),
    #[error("a cache of {size} bytes in {ways} ways has no whole number of sets of {line}-byte lines")]
    Geometry { size: u64, ways: u32, line: u32 },
}

impl CoherenceConfig {
    pub fn check(&self) -> Result<(), CoherenceError> {
        if self.private.is_empty() {
            return Err(CoherenceError::NothingPrivate);
        }
        if !self.line.is_power_of_two() || !(4..=MOST_LINE).contains(&self.line) {
            return Err(CoherenceError::Line(self.line));
        }
        if !(1..=MOST_CORES).contains(&self.cores) {
            return Err(CoherenceError::Cores(self.cores));
        }
        for &Geometry { size, ways } in self.private.iter().chain(&self.shared) {
            let line = self.line;
            let set = u64::from(line) * u64::from(ways);
            if set == 0 || size == 0 || size % set != 0 {
                return Err(CoherenceError::Geometry { size, ways, line });
            }
        }
        Ok(())
    }
}
