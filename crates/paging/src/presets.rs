//! TLBs of real machines, by name: those of a core's data side.
//!
//! Entries and ways are as their makers, or CPUID, tell; page-walk caches, which makers hardly
//! document, as others have measured them. Replacement is LRU here. What a second level shares with
//! instructions is data's alone.
use crate::config::PagingConfig;
use crate::short;

/// TLBs with a name.
#[derive(Clone, Copy, Debug)]
pub struct TlbPreset {
    pub name: &'static str,
    /// Which machine, in a few words.
    pub about: &'static str,
    /// In the short form.
    pub parts: &'static [&'static str],
}

/// What is taken if nothing is known of a machine.
pub const TLB_GENERIC: &str = "generic";

pub const TLB_PRESETS: &[TlbPreset] = &[
    TlbPreset {
        name: TLB_GENERIC,
        about: "an x86 server core of these years, in round numbers",
        parts: &[
            "L1=4K:64:4",
            "L1=2M:32:4",
            "L1=1G:4:full",
            "L2=4K+2M:1536:12",
            "L2=1G:16:4",
            "PDE=32:4",
            "PDPTE=4:full",
            "PML4E=2:full",
        ],
    },
    TlbPreset {
        name: "xeon-e5504",
        about: "Intel Xeon E5504 (Nehalem, 2009)",
        parts: &[
            "L1=4K:64:4",
            "L1=2M:32:4",
            "L2=4K:512:4",
            "PDE=32:4",
            "PDPTE=4:full",
            "PML4E=2:full",
        ],
    },
    TlbPreset {
        name: "haswell",
        about: "Intel Core i7-4770 (Haswell, 2013)",
        parts: &[
            "L1=4K:64:4",
            "L1=2M:32:4",
            "L1=1G:4:full",
            "L2=4K+2M:1024:8",
            "PDE=32:4",
            "PDPTE=4:full",
            "PML4E=2:full",
        ],
    },
    TlbPreset {
        name: "skylake-sp",
        about: "Intel Xeon Platinum 8180 (Skylake-SP, 2017); Skylake and Cascade Lake alike",
        parts: &[
            "L1=4K:64:4",
            "L1=2M:32:4",
            "L1=1G:4:full",
            "L2=4K+2M:1536:12",
            "L2=1G:16:4",
            "PDE=32:4",
            "PDPTE=4:full",
            "PML4E=2:full",
        ],
    },
    TlbPreset {
        name: "sapphire-rapids",
        about: "Intel Xeon Platinum 8480+ (Sapphire Rapids, 2023), Golden Cove cores, 5-level tables",
        parts: &[
            "L1=4K:96:6",
            "L1=2M:32:8",
            "L1=1G:8:full",
            "L2=4K+2M:2048:16",
            "L2=1G:1024:8",
            "PDE=32:4",
            "PDPTE=4:full",
            "PML4E=2:full",
            "PML5E=2:full",
            "levels=5",
        ],
    },
    TlbPreset {
        name: "zen2",
        about: "AMD EPYC 7742 (Zen 2, 2019)",
        parts: &[
            "L1=4K+2M+1G:64:full",
            "L2=4K+2M:2048:16",
            "PDE=64:full",
            "PDPTE=64:full",
            "PML4E=16:full",
        ],
    },
    TlbPreset {
        name: "zen3",
        about: "AMD EPYC 7763 (Zen 3, 2021); four small pages in a row share an entry",
        parts: &[
            "L1=4K+16K+2M+1G:64:full",
            "L2=4K+16K+2M:2048:8",
            "PDE=64:full",
            "PDPTE=64:full",
            "PML4E=16:full",
        ],
    },
    TlbPreset {
        name: "zen4",
        about: "AMD EPYC 9654 (Zen 4, 2022); four small pages in a row share an entry",
        parts: &[
            "L1=4K+16K+2M+1G:72:full",
            "L2=4K+16K+2M:3072:12",
            "PDE=64:full",
            "PDPTE=64:full",
            "PML4E=16:full",
            "levels=5",
        ],
    },
];

impl TlbPreset {
    pub fn named(name: &str) -> Option<&'static TlbPreset> {
        TLB_PRESETS.iter().find(|preset| preset.name == name)
    }

    pub fn config(&self) -> PagingConfig {
        // A test reads them all.
        short::config(self.parts).unwrap_or(PagingConfig {
            arrays: Vec::new(),
            walk_caches: Vec::new(),
            levels: 4,
            cores: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_presets_make_sense_and_have_a_name_of_their_own() {
        for (i, preset) in TLB_PRESETS.iter().enumerate() {
            let config = short::config(preset.parts).unwrap();
            assert_eq!(config, preset.config());
            assert_eq!(config.to_string().split(" levels=").next(), Some(&*listed(preset)));
            assert!(TLB_PRESETS[..i].iter().all(|other| other.name != preset.name));
        }
    }

    fn listed(preset: &TlbPreset) -> String {
        let parts: Vec<&str> = preset
            .parts
            .iter()
            .copied()
            .filter(|part| !part.starts_with("levels"))
            .collect();
        parts.join(" ")
    }
}
