//! Caches of real machines, by name.
//!
//! Geometry and who shares what are as their makers document them. Replacement is not documented
//! for most and is LRU here; hardware prefetchers are left out. An outermost cache that only takes
//! what the level above evicts (a victim cache) is exclusive; `inclusive` is said only where it
//! holds for all levels above. Addresses are virtual, so caches far out see other sets than the
//! machine's would.
use crate::config::Hierarchy;
use crate::short;

/// A hierarchy with a name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    pub name: &'static str,
    /// Which machine, in a few words.
    pub about: &'static str,
    /// In the short form.
    pub levels: &'static [&'static str],
}

/// What is taken if nothing is known of a machine.
pub const GENERIC: &str = "generic";

pub const PRESETS: &[Preset] = &[
    Preset {
        name: GENERIC,
        about: "an x86 server core of these years, in round numbers",
        levels: &[
            "L1D=32K:64:8:data",
            "L1I=32K:64:8:instructions",
            "L2=1M:64:16",
            "L3=32M:64:16:shared",
        ],
    },
    Preset {
        name: "r12000",
        about: "MIPS R12000, first level, as METRIC simulates it",
        levels: &["L1=32K:32:2:data"],
    },
    Preset {
        name: "alpha21264",
        about: "Alpha 21264-like data caches, as DTrack simulates them",
        levels: &["L1D=64K:64:2:data", "L2=512K:64:1:private"],
    },
    Preset {
        name: "xeon-e5504",
        about: "Intel Xeon E5504 (Nehalem, 2009), 4 cores",
        levels: &[
            "L1D=32K:64:8:data",
            "L1I=32K:64:4:instructions",
            "L2=256K:64:8",
            "L3=4M:64:16:inclusive:shared=4",
        ],
    },
    Preset {
        name: "haswell",
        about: "Intel Core i7-4770 (Haswell, 2013), 4 cores",
        levels: &[
            "L1D=32K:64:8:data",
            "L1I=32K:64:8:instructions",
            "L2=256K:64:8",
            "L3=8M:64:16:inclusive:shared=4",
        ],
    },
    Preset {
        name: "skylake",
        about: "Intel Core i7-6700K (Skylake, 2015), 4 cores",
        levels: &[
            "L1D=32K:64:8:data",
            "L1I=32K:64:8:instructions",
            "L2=256K:64:4",
            "L3=8M:64:16:inclusive:shared=4",
        ],
    },
    Preset {
        name: "skylake-sp",
        about: "Intel Xeon Platinum 8180 (Skylake-SP, 2017), 28 cores",
        levels: &[
            "L1D=32K:64:8:data",
            "L1I=32K:64:8:instructions",
            "L2=1M:64:16",
            "L3=39424K:64:11:shared=28",
        ],
    },
    Preset {
        name: "icelake-sp",
        about: "Intel Xeon Platinum 8380 (Ice Lake-SP, 2021), 40 cores",
        levels: &[
            "L1D=48K:64:12:data",
            "L1I=32K:64:8:instructions",
            "L2=1280K:64:20",
            "L3=60M:64:12:shared=40",
        ],
    },
    Preset {
        name: "alderlake-p",
        about: "Intel Core i9-12900K (Alder Lake, 2021), its 8 P-cores",
        levels: &[
            "L1D=48K:64:12:data",
            "L1I=32K:64:8:instructions",
            "L2=1280K:64:10",
            "L3=30M:64:12:shared=8",
        ],
    },
    Preset {
        name: "sapphire-rapids",
        about: "Intel Xeon Platinum 8480+ (Sapphire Rapids, 2023), 56 cores",
        levels: &[
            "L1D=48K:64:12:data",
            "L1I=32K:64:8:instructions",
            "L2=2M:64:16",
            "L3=105M:64:15:shared=56",
        ],
    },
    Preset {
        name: "zen2",
        about: "AMD EPYC 7742 (Zen 2, 2019), 4 cores share an L3",
        levels: &[
            "L1D=32K:64:8:data",
            "L1I=32K:64:8:instructions",
            "L2=512K:64:8:inclusive",
            "L3=16M:64:16:exclusive:shared=4",
        ],
    },
    Preset {
        name: "zen3",
        about: "AMD EPYC 7763 (Zen 3, 2021), 8 cores share an L3",
        levels: &[
            "L1D=32K:64:8:data",
            "L1I=32K:64:8:instructions",
            "L2=512K:64:8:inclusive",
            "L3=32M:64:16:exclusive:shared=8",
        ],
    },
    Preset {
        name: "zen4",
        about: "AMD EPYC 9654 (Zen 4, 2022), 8 cores share an L3",
        levels: &[
            "L1D=32K:64:8:data",
            "L1I=32K:64:8:instructions",
            "L2=1M:64:8:inclusive",
            "L3=32M:64:16:exclusive:shared=8",
        ],
    },
    Preset {
        name: "neoverse-n1",
        about: "Arm Neoverse N1 as in AWS Graviton2 (2020), 64 cores",
        levels: &[
            "L1D=64K:64:4:data",
            "L1I=64K:64:4:instructions",
            "L2=1M:64:8",
            "SLC=32M:64:16:shared=64",
        ],
    },
    Preset {
        name: "neoverse-v1",
        about: "Arm Neoverse V1 as in AWS Graviton3 (2022), 64 cores",
        levels: &[
            "L1D=64K:64:4:data",
            "L1I=64K:64:4:instructions",
            "L2=1M:64:8",
            "SLC=32M:64:16:shared=64",
        ],
    },
    Preset {
        name: "power9",
        about: "IBM POWER9 (2017), a pair of cores shares L2 and L3",
        levels: &[
            "L1D=32K:128:8:data:write-through:no-allocate",
            "L1I=32K:128:8:instructions",
            "L2=512K:128:8:shared=2",
            "L3=10M:128:20:exclusive:shared=2",
        ],
    },
    Preset {
        name: "a64fx",
        about: "Fujitsu A64FX (2019), 12 cores share an L2",
        levels: &[
            "L1D=64K:256:4:data",
            "L1I=64K:256:4:instructions",
            "L2=8M:256:16:shared=12",
        ],
    },
    Preset {
        name: "cachegrind",
        about: "what Cachegrind takes on x86 if it cannot ask the machine; writes are reads, as there",
        levels: &[
            "D1=64K:64:2:data:write-none",
            "I1=64K:64:2:instructions:write-none",
            "LL=256K:64:8:write-none:shared",
        ],
    },
];

impl Preset {
    pub fn named(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    pub fn hierarchy(&self) -> Hierarchy {
        // A test reads them all.
        Hierarchy::of(short::levels(self.levels).unwrap_or_default())
    }
}

/// Configurations of one level for [`crate::spec`], by name.
///
/// The MetaSim tracer ran every address through 26 cache simulators; which ones is not told. These
/// 26 stand for the caches that were around: first levels of 4K to 64K with short lines, second
/// levels, and third levels up to 8M with long ones, from direct-mapped to 16 ways. Each is size,
/// line, ways.
pub const METASIM26: (&str, [(u64, u32, u32); 26]) = (
    "metasim26",
    [
        (4 << 10, 32, 1),
        (8 << 10, 32, 1),
        (8 << 10, 32, 2),
        (16 << 10, 32, 1),
        (16 << 10, 32, 4),
        (32 << 10, 32, 2),
        (32 << 10, 32, 4),
        (64 << 10, 32, 2),
        (16 << 10, 64, 2),
        (32 << 10, 64, 1),
        (32 << 10, 64, 4),
        (32 << 10, 64, 8),
        (64 << 10, 64, 2),
        (64 << 10, 64, 8),
        (128 << 10, 64, 4),
        (256 << 10, 64, 8),
        (512 << 10, 64, 16),
        (1 << 20, 64, 16),
        (2 << 20, 64, 8),
        (8 << 20, 64, 16),
        (32 << 10, 128, 2),
        (64 << 10, 128, 1),
        (256 << 10, 128, 4),
        (1 << 20, 128, 8),
        (4 << 20, 128, 4),
        (8 << 20, 128, 8),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Level;
    use std::collections::BTreeSet;

    /// Name, and size, line, ways and sets of each level.
    type Geometry = (&'static str, &'static [(u64, u32, u32, u64)]);

    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;

    const EXPECTED: &[Geometry] = &[
        (
            "generic",
            &[
                (32 * K, 64, 8, 64),
                (32 * K, 64, 8, 64),
                (M, 64, 16, 1024),
                (32 * M, 64, 16, 32768),
            ],
        ),
        ("r12000", &[(32 * K, 32, 2, 512)]),
        ("alpha21264", &[(64 * K, 64, 2, 512), (512 * K, 64, 1, 8192)]),
        (
            "xeon-e5504",
            &[
                (32 * K, 64, 8, 64),
                (32 * K, 64, 4, 128),
                (256 * K, 64, 8, 512),
                (4 * M, 64, 16, 4096),
            ],
        ),
        (
            "haswell",
            &[
                (32 * K, 64, 8, 64),
                (32 * K, 64, 8, 64),
                (256 * K, 64, 8, 512),
                (8 * M, 64, 16, 8192),
            ],
        ),
        (
            "skylake",
            &[
                (32 * K, 64, 8, 64),
                (32 * K, 64, 8, 64),
                (256 * K, 64, 4, 1024),
                (8 * M, 64, 16, 8192),
            ],
        ),
        (
            "skylake-sp",
            &[
                (32 * K, 64, 8, 64),
                (32 * K, 64, 8, 64),
                (M, 64, 16, 1024),
                (39424 * K, 64, 11, 28 * 2048),
            ],
        ),
        (
            "icelake-sp",
            &[
                (48 * K, 64, 12, 64),
                (32 * K, 64, 8, 64),
                (1280 * K, 64, 20, 1024),
                (60 * M, 64, 12, 40 * 2048),
            ],
        ),
        (
            "alderlake-p",
            &[
                (48 * K, 64, 12, 64),
                (32 * K, 64, 8, 64),
                (1280 * K, 64, 10, 2048),
                (30 * M, 64, 12, 10 * 4096),
            ],
        ),
        (
            "sapphire-rapids",
            &[
                (48 * K, 64, 12, 64),
                (32 * K, 64, 8, 64),
                (2 * M, 64, 16, 2048),
                (105 * M, 64, 15, 56 * 2048),
            ],
        ),
        (
            "zen2",
            &[
                (32 * K, 64, 8, 64),
                (32 * K, 64, 8, 64),
                (512 * K, 64, 8, 1024),
                (16 * M, 64, 16, 16384),
            ],
        ),
        (
            "zen3",
            &[
                (32 * K, 64, 8, 64),
                (32 * K, 64, 8, 64),
                (512 * K, 64, 8, 1024),
                (32 * M, 64, 16, 32768),
            ],
        ),
        (
            "zen4",
            &[
                (32 * K, 64, 8, 64),
                (32 * K, 64, 8, 64),
                (M, 64, 8, 2048),
                (32 * M, 64, 16, 32768),
            ],
        ),
        (
            "neoverse-n1",
            &[
                (64 * K, 64, 4, 256),
                (64 * K, 64, 4, 256),
                (M, 64, 8, 2048),
                (32 * M, 64, 16, 32768),
            ],
        ),
        (
            "neoverse-v1",
            &[
                (64 * K, 64, 4, 256),
                (64 * K, 64, 4, 256),
                (M, 64, 8, 2048),
                (32 * M, 64, 16, 32768),
            ],
        ),
        (
            "power9",
            &[
                (32 * K, 128, 8, 32),
                (32 * K, 128, 8, 32),
                (512 * K, 128, 8, 512),
                (10 * M, 128, 20, 4096),
            ],
        ),
        (
            "a64fx",
            &[(64 * K, 256, 4, 64), (64 * K, 256, 4, 64), (8 * M, 256, 16, 2048)],
        ),
        (
            "cachegrind",
            &[(64 * K, 64, 2, 512), (64 * K, 64, 2, 512), (256 * K, 64, 8, 512)],
        ),
    ];

    #[test]
    fn every_preset_makes_sense_and_is_what_is_documented() {
        assert_eq!(PRESETS.len(), EXPECTED.len());
        for (preset, (name, expected)) in PRESETS.iter().zip(EXPECTED) {
            assert_eq!(preset.name, *name);
            let hierarchy = preset.hierarchy();
            assert_eq!(hierarchy.check(), Ok(()), "{name}");
            assert_eq!(hierarchy.clone().data_only().check(), Ok(()), "{name}");
            let geometry = |l: &Level| (l.size, l.line, l.ways, l.sets());
            let found: Vec<_> = hierarchy.levels.iter().map(geometry).collect();
            assert_eq!(found, *expected, "{name}");
            assert!(
                hierarchy.levels[0].holds.data(),
                "{name}: data accesses begin at the first level"
            );
        }
        assert!(Preset::named("pentium").is_none());
    }

    #[test]
    fn the_26_are_different_and_cover_the_range() {
        let all: BTreeSet<_> = METASIM26.1.into_iter().collect();
        assert_eq!(all.len(), 26);
        for &(size, line, ways) in &all {
            assert_eq!(Hierarchy::of(vec![Level::new("L1", size, line, ways)]).check(), Ok(()));
        }
        assert_eq!(all.first(), Some(&(4 * K, 32, 1)));
        assert_eq!(all.last().map(|c| c.0), Some(8 * M));
        let lines: BTreeSet<u32> = all.iter().map(|c| c.1).collect();
        let ways: BTreeSet<u32> = all.iter().map(|c| c.2).collect();
        assert_eq!(lines, [32, 64, 128].into());
        assert_eq!(ways, [1, 2, 4, 8, 16].into());
    }
}
