//! Which core is modelled: a preset, a file, or this machine as it was measured.
use crate::say;
use anyhow::{bail, Context};
use memtrail_timing::presets::{CorePreset, CORES};
use memtrail_timing::CoreSpec;
use std::path::PathBuf;

/// The core that `memtrail calibrate` measured.
pub const HOST: &str = "host";
/// Not a core: prints them.
pub const LIST: &str = "list";
/// The core that is modelled if nothing was measured.
const DEFAULT: &str = "golden-cove";

/// Where `memtrail calibrate` leaves what it found, unless told otherwise.
pub fn host_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")));
    Some(cache?.join("memtrail").join("host-core.toml"))
}

pub fn choose(asked: Option<&str>) -> anyhow::Result<CoreSpec> {
    match asked {
        Some(HOST) => {
            let path = host_file().context("neither XDG_CACHE_HOME nor HOME says where host is kept")?;
            if !path.exists() {
                bail!("--core host: this machine was not measured yet; run: memtrail calibrate");
            }
            read(path)
        }
        Some(name) => match CorePreset::named(name) {
            Some(preset) => preset.spec().with_context(|| name.to_string()),
            None if PathBuf::from(name).exists() => read(name.into()),
            None => bail!("--core {name}: neither a core nor a file; memtrail stalls --core list names them"),
        },
        None => match host_file().filter(|path| path.exists()) {
            Some(path) => read(path),
            None => {
                say::line(format_args!(
                    "modelling a core like {DEFAULT}; for this machine, run memtrail calibrate once"
                ));
                choose(Some(DEFAULT))
            }
        },
    }
}

fn read(path: PathBuf) -> anyhow::Result<CoreSpec> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(&path).with_context(name)?;
    CoreSpec::parse(&text).with_context(name)
}

/// All cores.
pub fn list() -> String {
    let mut text = format!("{HOST:<12} this machine, as memtrail calibrate measures it\n");
    for core in CORES {
        let about = core.spec().map(|spec| spec.about).unwrap_or_default();
        text += &format!("{:<12} {about}\n", core.name);
    }
    text
}
