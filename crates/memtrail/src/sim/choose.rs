//! Which caches are simulated: from the command line, a file, a preset or this machine.
use super::args::CacheArgs;
use crate::say;
use anyhow::{bail, Context};
use memtrail_simulate::host::{self, Described};
use memtrail_simulate::presets::{Preset, GENERIC, PRESETS};
use memtrail_simulate::{file, short, Hierarchy};
use std::path::{Path, PathBuf};

/// The preset that is this machine.
pub const HOST: &str = "host";
/// Not a preset: prints them.
pub const LIST: &str = "list";

pub const SYSFS: &str = "/sys/devices/system/cpu";

/// A hierarchy, and where it is from.
#[derive(Debug)]
pub struct Chosen {
    pub hierarchy: Hierarchy,
    pub source: String,
}

pub fn choose(args: &CacheArgs) -> anyhow::Result<Chosen> {
    let (mut hierarchy, source) = given(args)?;
    if let Some(seed) = args.seed {
        hierarchy.seed = seed;
    }
    if args.cores.is_some() {
        hierarchy.cores = args.cores;
    }
    hierarchy.check().with_context(|| source.clone())?;
    if !args.instructions {
        hierarchy = hierarchy.data_only();
    } else if !hierarchy.levels.iter().any(|level| level.holds.instructions()) {
        bail!("--instructions: no level holds instructions");
    }
    Ok(Chosen { hierarchy, source })
}

fn given(args: &CacheArgs) -> anyhow::Result<(Hierarchy, String)> {
    if !args.caches.is_empty() {
        let levels = short::levels(&args.caches).context("--cache")?;
        return Ok((Hierarchy::of(levels), "--cache".to_string()));
    }
    if let Some(path) = &args.config {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| name.clone())?;
        let hierarchy = file::hierarchy(&text).with_context(|| name.clone())?;
        return Ok((hierarchy, name));
    }
    let preset = |name: &str| Preset::named(name).map(Preset::hierarchy);
    match args.preset.as_deref() {
        Some(HOST) => Ok((this_machine(Path::new(SYSFS))?, HOST.to_string())),
        Some(name) => match preset(name) {
            Some(hierarchy) => Ok((hierarchy, name.to_string())),
            None => bail!("there is no preset {name}; memtrail sim --preset list names them"),
        },
        None => match this_machine(Path::new(SYSFS)) {
            Ok(hierarchy) => Ok((hierarchy, HOST.to_string())),
            Err(error) => {
                say::line(format_args!("{error:#}: simulating --preset {GENERIC} instead"));
                Ok((preset(GENERIC).unwrap_or_default(), GENERIC.to_string()))
            }
        },
    }
}

/// The caches that the kernel says this machine has.
pub fn this_machine(sysfs: &Path) -> anyhow::Result<Hierarchy> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
    let directory = sysfs.join("cpu0/cache");
    let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
    let of_cache = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with("index"))
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(of_cache).collect();
    paths.sort();
    if paths.is_empty() {
        bail!("{} tells of no cache", directory.display());
    }
    let caches: Vec<Described> = paths
        .iter()
        .map(|path| Described {
            level: read(path.join("level")),
            kind: read(path.join("type")),
            size: read(path.join("size")),
            line: read(path.join("coherency_line_size")),
            ways: read(path.join("ways_of_associativity")),
            sets: read(path.join("number_of_sets")),
            shared: read(path.join("shared_cpu_list")),
        })
        .collect();
    host::hierarchy(&caches, &read(sysfs.join("online"))).with_context(|| directory.display().to_string())
}

/// All presets, with their levels as they can be given to `--cache`.
pub fn list() -> String {
    let width = PRESETS.iter().map(|p| p.name.len()).max().unwrap_or(0);
    let mut text = format!("{HOST:<width$}  this machine, as its kernel describes it\n");
    for preset in PRESETS {
        text += &format!("{:<width$}  {}\n", preset.name, preset.about);
        text += &format!("{:<width$}  {}\n", "", preset.levels.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A directory like the kernel's, with these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        dir
    }

    const ONE: &[(&str, &str)] = &[
        ("online", "0-1"),
        ("cpu0/cache/uevent", ""),
        ("cpu0/cache/index0/level", "1"),
        ("cpu0/cache/index0/type", "Data"),
        ("cpu0/cache/index0/size", "48K"),
        ("cpu0/cache/index0/coherency_line_size", "64"),
        ("cpu0/cache/index0/ways_of_associativity", "12"),
        ("cpu0/cache/index0/number_of_sets", "64"),
        ("cpu0/cache/index0/shared_cpu_list", "0"),
    ];

    #[test]
    fn this_machine_is_what_the_kernel_tells() {
        let dir = machine(ONE);
        let hierarchy = this_machine(dir.path()).unwrap();
        let shown: Vec<String> = hierarchy.levels.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["L1D=48K:64:12:data:private"]);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_an_error_that_names_the_place() {
        let dir = machine(&[("online", "0")]);
        let place = dir.path().join("cpu0/cache");
        let error = this_machine(dir.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("{} tells of no cache", place.display()));
        let dir = machine(&ONE[..5]);
        let error = this_machine(dir.path()).unwrap_err();
        let place = dir.path().join("cpu0/cache");
        assert_eq!(
            format!("{error:#}"),
            format!("{}: L1D: coherency_line_size = : not a number", place.display())
        );
    }

    #[test]
    fn every_preset_is_listed_with_its_levels() {
        let text = list();
        assert_eq!(text.lines().count(), 1 + 2 * PRESETS.len());
        assert!(text.contains("\nr12000           MIPS R12000, first level, as METRIC simulates it\n"));
        assert!(text.contains("\n                 L1=32K:32:2:data\n"));
    }
}
