//! Cores that come with memtrail: files like those that `memtrail stalls --core` takes.
use crate::spec::{CoreSpec, CoreSpecError};

/// A core by name.
#[derive(Clone, Copy, Debug)]
pub struct CorePreset {
    pub name: &'static str,
    pub text: &'static str,
}

pub const CORES: &[CorePreset] = &[
    CorePreset {
        name: "alpha21264",
        text: include_str!("../presets/alpha21264.toml"),
    },
    CorePreset {
        name: "zen5",
        text: include_str!("../presets/zen5.toml"),
    },
    CorePreset {
        name: "golden-cove",
        text: include_str!("../presets/golden-cove.toml"),
    },
];

impl CorePreset {
    pub fn named(name: &str) -> Option<&'static CorePreset> {
        CORES.iter().find(|core| core.name == name)
    }

    pub fn spec(&self) -> Result<CoreSpec, CoreSpecError> {
        CoreSpec::parse(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_makes_sense_and_survives_being_written() {
        for core in CORES {
            let spec = core.spec().unwrap();
            assert_eq!(spec.name, core.name);
            assert!(!spec.about.is_empty());
            assert_eq!(CoreSpec::parse(&spec.to_toml()).unwrap(), spec);
        }
    }

    #[test]
    fn the_papers_machine_is_that_of_its_figure_2() {
        let spec = CorePreset::named("alpha21264").unwrap().spec().unwrap();
        let levels: Vec<(&str, u32)> = spec.level.iter().map(|l| (l.cache.as_str(), l.latency)).collect();
        assert_eq!(levels[0], ("L1D=64K:64:2:data", 3));
        assert_eq!(levels[2], ("L2=512K:64:1", 12));
        assert_eq!((spec.width, spec.tlb[0].entries), (4, 128));
        assert_eq!((spec.memory.closed, spec.memory.open), (32 + 24 + 48, 48));
        assert_eq!((spec.memory.banks, spec.memory.row), (64, 2048));
        assert_eq!(spec.reached_after(|holds| holds.data()), [3, 15]);
    }
}
