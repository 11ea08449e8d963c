//! The short form, for the command line: `L1=4K:64:4`, `L2=4K+2M:1536:12`, `PDE=32:4`, `levels=5`.
//!
//! A TLB is its level, the page sizes it holds, entries and ways; a page-walk cache the name of its
//! entries, entries and ways. Ways may be `full`, and are if they are left out.
use crate::config::{PageSize, PagingConfig, PagingError, TlbArray, WalkCache, MOST_TLB_LEVELS};
use memtrail_simulate::parse_size;
use std::fmt;

fn wrong(text: &str, why: impl Into<String>) -> PagingError {
    PagingError::Text {
        text: text.to_string(),
        why: why.into(),
    }
}

/// A configuration of these parts, checked.
pub fn config<S: AsRef<str>>(parts: &[S]) -> Result<PagingConfig, PagingError> {
    let mut config = PagingConfig {
        arrays: Vec::new(),
        walk_caches: Vec::new(),
        levels: 4,
        cores: None,
    };
    for part in parts {
        add(&mut config, part.as_ref())?;
    }
    config.check()?;
    Ok(config)
}

fn add(config: &mut PagingConfig, text: &str) -> Result<(), PagingError> {
    let form = "a TLB is written L1=4K:64:4 (level, page sizes, entries, ways), a page-walk cache PDE=32:4";
    let (name, rest) = text.split_once('=').ok_or_else(|| wrong(text, form))?;
    if name == "levels" {
        config.levels = rest
            .parse()
            .map_err(|_| wrong(text, "page tables have 4 or 5 levels"))?;
        return Ok(());
    }
    if let Some(&(_, shift)) = WalkCache::NAMES.iter().find(|(known, _)| *known == name) {
        let (entries, ways) = geometry(text, rest)?;
        config.walk_caches.push(WalkCache { shift, entries, ways });
        return Ok(());
    }
    let level = name.strip_prefix('L').and_then(|level| level.parse::<u8>().ok());
    let level = level.filter(|&level| (1..=MOST_TLB_LEVELS).contains(&usize::from(level)));
    let level = level.ok_or_else(|| {
        let names = WalkCache::NAMES.map(|(name, _)| name).join(", ");
        wrong(text, format!("there are L1 to L{MOST_TLB_LEVELS}, {names} and levels"))
    })?;
    let (sizes, rest) = rest.split_once(':').ok_or_else(|| wrong(text, form))?;
    let size = |size: &str| {
        let bytes = parse_size(size).and_then(PageSize::of_bytes);
        bytes.ok_or_else(|| wrong(text, format!("{size:?} is no page size: a power of two from 4K to 1G")))
    };
    let sizes: Result<Vec<PageSize>, PagingError> = sizes.split('+').map(size).collect();
    let (entries, ways) = geometry(text, rest)?;
    config.arrays.push(TlbArray {
        level,
        sizes: sizes?,
        entries,
        ways,
    });
    Ok(())
}

fn geometry(text: &str, rest: &str) -> Result<(u32, u32), PagingError> {
    let number = |part: &str| {
        part.parse::<u32>()
            .map_err(|_| wrong(text, format!("{part:?} is no number")))
    };
    match rest.split(':').collect::<Vec<_>>()[..] {
        [entries] | [entries, "full"] => number(entries).map(|entries| (entries, entries)),
        [entries, ways] => Ok((number(entries)?, number(ways)?)),
        _ => Err(wrong(text, "entries and ways, as in 64:4")),
    }
}

fn show_geometry(f: &mut fmt::Formatter<'_>, entries: u32, ways: u32) -> fmt::Result {
    match entries == ways {
        true => write!(f, "{entries}:full"),
        false => write!(f, "{entries}:{ways}"),
    }
}

impl fmt::Display for TlbArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        write!(f, "L{}={}:", self.level, sizes.join("+"))?;
        show_geometry(f, self.entries, self.ways)
    }
}

impl WalkCache {
    pub fn name(&self) -> &'static str {
        let known = WalkCache::NAMES.iter().find(|(_, shift)| *shift == self.shift);
        known.map_or("?", |(name, _)| name)
    }
}

impl fmt::Display for WalkCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.name())?;
        show_geometry(f, self.entries, self.ways)
    }
}

impl PagingConfig {
    /// Of parts in the short form, or the name of a preset.
    pub fn parse<S: AsRef<str>>(parts: &[S]) -> Result<PagingConfig, PagingError> {
        match parts {
            [name] if !name.as_ref().contains('=') => match crate::TlbPreset::named(name.as_ref()) {
                Some(preset) => Ok(preset.config()),
                None => Err(PagingError::NoPreset(name.as_ref().to_string())),
            },
            parts => config(parts),
        }
    }
}

/// In the short form.
impl fmt::Display for PagingConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for array in &self.arrays {
            write!(f, "{array} ")?;
        }
        for cache in &self.walk_caches {
            write!(f, "{cache} ")?;
        }
        write!(f, "levels={}", self.levels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_is_read_and_written() {
        let parts = ["L1=4K+16K:64:4", "L1=2M:32:full", "L2=4K:512:4", "PDE=32:4", "levels=5"];
        let config = PagingConfig::parse(&parts).unwrap();
        assert_eq!(config.to_string(), parts.join(" "));
        assert_eq!(config.depth(), 2);
        assert_eq!(config.held_as(PageSize::GIANT), PageSize::HUGE);
        assert_eq!(config.held_as(PageSize::of_bytes(64 << 10).unwrap()).bytes(), 16 << 10);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |parts: &[&str]| PagingConfig::parse(parts).unwrap_err().to_string();
        assert_eq!(error(&["L1=2M:32"]), PagingError::NoSmallPages.to_string());
        assert_eq!(
            error(&["L1=4K:64:5"]),
            "L1=4K:64:5: 64 entries in 5 ways: entries are a multiple of ways, from 1 to 1048576"
        );
        assert_eq!(
            error(&["L1=3K:64:4"]),
            "\"L1=3K:64:4\": \"3K\" is no page size: a power of two from 4K to 1G"
        );
        assert_eq!(
            error(&["L1=4K:64", "L3=4K:64"]),
            PagingError::LevelLeftOut(3, 2).to_string()
        );
        assert_eq!(
            error(&["L1=4K:64", "L1=4K+2M:8"]),
            "two TLBs of level 1 hold pages of 4K"
        );
        assert_eq!(error(&["L1=4K:64", "levels=3"]), PagingError::Levels(3).to_string());
        assert_eq!(
            error(&["L1=4K:64", "L9=4K:64"]),
            "\"L9=4K:64\": there are L1 to L3, PDE, PDPTE, PML4E, PML5E and levels"
        );
        assert_eq!(
            error(&["pentium"]),
            "there is no TLB preset pentium; memtrail pages --tlb list names them"
        );
    }
}
