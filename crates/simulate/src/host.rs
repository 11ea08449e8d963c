//! The caches of a machine, from what the kernel tells of them in sysfs.
//!
//! Reading the files is the caller's; here are the texts. A level is shared by as many cores as
//! share it on the machine, where the hardware threads of one core count as one; if that is all of
//! them it is shared by all, however many threads the program has. The kernel tells neither
//! replacement nor inclusion.
use crate::config::{ConfigError, Hierarchy, Holds, Level, Shared};
use crate::draft::{parse_size, wrong, SIZE_FORM};

/// One cache: the texts of the files that describe it, empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// `level`
    pub level: String,
    /// `type`
    pub kind: String,
    /// `size`
    pub size: String,
    /// `coherency_line_size`
    pub line: String,
    /// `ways_of_associativity`
    pub ways: String,
    /// `number_of_sets`
    pub sets: String,
    /// `shared_cpu_list`
    pub shared: String,
}

/// The hierarchy of these caches, checked. `online` is the list of the machine's processors.
pub fn hierarchy(caches: &[Described], online: &str) -> Result<Hierarchy, ConfigError> {
    let mut found = Vec::new();
    for cache in caches {
        let number: u32 = cache
            .level
            .parse()
            .map_err(|_| wrong("cache", "level", &cache.level, "not a number"))?;
        let (holds, letter, rank) = match cache.kind.as_str() {
            "Data" => (Holds::Data, "D", 0),
            "Instruction" => (Holds::Instructions, "I", 1),
            "Unified" => (Holds::Both, "", 2),
            other => return Err(wrong("cache", "type", other, "neither Data, Instruction nor Unified")),
        };
        let mut level = geometry(cache, format!("L{number}{letter}"))?;
        level.holds = holds;
        let users =
            count(&cache.shared).ok_or_else(|| wrong(&level.name, "shared_cpu_list", &cache.shared, NO_LIST))?;
        found.push(((number, rank), level, users));
    }
    found.sort_by_key(|(key, ..)| *key);
    let all = count(online).ok_or_else(|| wrong("machine", "online", online, NO_LIST))?;
    let of_a_core = found.first().map_or(1, |(_, _, users)| *users);
    let shared = |users: u32| match users {
        _ if users >= all && users > of_a_core => Shared::All,
        _ => Shared::By((users / of_a_core).max(1)),
    };
    let levels = found.into_iter().map(|(_, mut level, users)| {
        level.shared = shared(users);
        level
    });
    let hierarchy = Hierarchy::of(levels.collect());
    hierarchy.check()?;
    Ok(hierarchy)
}

const NO_LIST: &str = "not a list of processors";

fn geometry(cache: &Described, name: String) -> Result<Level, ConfigError> {
    let size = parse_size(&cache.size).ok_or_else(|| wrong(&name, "size", &cache.size, SIZE_FORM))?;
    let line: u32 = cache
        .line
        .parse()
        .map_err(|_| wrong(&name, "coherency_line_size", &cache.line, "not a number"))?;
    // Some machines tell only one of ways and sets.
    let told = cache.ways.parse().ok().filter(|&ways| ways > 0);
    let sets: Option<u64> = cache.sets.parse().ok();
    let derived = || {
        size.checked_div(sets?.checked_mul(line.into())?)
            .and_then(|ways| u32::try_from(ways).ok())
    };
    let ways = told.or_else(derived);
    let ways = ways.ok_or_else(|| {
        wrong(
            &name,
            "ways_of_associativity",
            &cache.ways,
            "not a number, and sets are not told",
        )
    })?;
    Ok(Level::new(name, size, line, ways))
}

/// How many processors a list such as `0-3,8` names.
fn count(list: &str) -> Option<u32> {
    list.split(',').try_fold(0u32, |count, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(texts: [&str; 7]) -> Described {
        let [level, kind, size, line, ways, sets, shared] = texts.map(String::from);
        Described {
            level,
            kind,
            size,
            line,
            ways,
            sets,
            shared,
        }
    }

    fn shown(caches: &[Described], online: &str) -> Vec<String> {
        let hierarchy = hierarchy(caches, online).unwrap();
        hierarchy.levels.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_machine_with_hardware_threads() {
        // Two threads a core, four cores to an L3, eight cores.
        let caches = [
            cache(["1", "Instruction", "32K", "64", "8", "64", "0,8"]),
            cache(["1", "Data", "48K", "64", "12", "64", "0,8"]),
            cache(["2", "Unified", "1280K", "64", "20", "1024", "0,8"]),
            cache(["3", "Unified", "16384K", "64", "16", "16384", "0-3,8-11"]),
        ];
        let expected = [
            "L1D=48K:64:12:data:private",
            "L1I=32K:64:8:instructions:private",
            "L2=1280K:64:20:private",
            "L3=16M:64:16:shared=4",
        ];
        assert_eq!(shown(&caches, "0-15"), expected);
        assert_eq!(shown(&caches, "0-3,8-11")[3], "L3=16M:64:16:shared");
    }

    #[test]
    fn a_machine_of_one_core() {
        let caches = [
            cache(["1", "Data", "32K", "64", "8", "", "0"]),
            cache(["2", "Unified", "256K", "64", "", "512", "0"]),
        ];
        assert_eq!(
            shown(&caches, "0"),
            ["L1D=32K:64:8:data:private", "L2=256K:64:8:private"]
        );
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let good = cache(["1", "Data", "32K", "64", "8", "64", "0"]);
        let wrong = |change: fn(&mut Described)| {
            let mut cache = good.clone();
            change(&mut cache);
            hierarchy(&[cache], "0").unwrap_err().to_string()
        };
        assert_eq!(wrong(|c| c.level = "one".into()), "cache: level = one: not a number");
        assert_eq!(
            wrong(|c| c.kind = "Magic".into()),
            "cache: type = Magic: neither Data, Instruction nor Unified"
        );
        assert_eq!(
            wrong(|c| c.size.clear()),
            "L1D: size = : a size is a number of bytes, or one with K, M or G (1024 each)"
        );
        assert_eq!(wrong(|c| c.line.clear()), "L1D: coherency_line_size = : not a number");
        assert_eq!(
            wrong(|c| (c.ways, c.sets) = ("0".into(), "0".into())),
            "L1D: ways_of_associativity = 0: not a number, and sets are not told"
        );
        assert_eq!(
            wrong(|c| c.shared = "3-1".into()),
            "L1D: shared_cpu_list = 3-1: not a list of processors"
        );
        assert_eq!(
            wrong(|c| c.ways = "7".into()),
            "L1D: size = 32768: not a multiple of line x ways = 64 x 7 = 448 bytes"
        );
        assert_eq!(hierarchy(&[], "0"), Err(ConfigError::NoLevels));
    }
}
