//! What records refer to by number, and the numbers that take their place.
use memtrail_merge::Mapped;
use memtrail_ring::record::{ALLOC, ENTER, FORKED, FREE, LEAVE, MAPPED, NAME, REALLOC, STARTED};
use std::collections::HashMap;

/// There is none.
const NONE: u64 = u32::MAX as u64;

const HOOK: u8 = 1;
const TEXT: u8 = 2;
const PROCESS: u8 = 3;
const THREAD: u8 = 4;

/// Other numbers for all that the records of a recording refer to.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Of records: those of block ids.
    pub heads: HashMap<u32, u32>,
    pub texts: HashMap<u32, u32>,
    /// Added to the others.
    pub hooks: u32,
    pub processes: u32,
    pub threads: u32,
}

impl Mapped for Numbers {
    fn key(&self, key: u32) -> u32 {
        self.heads.get(&key).copied().unwrap_or(key)
    }

    fn roles(&self, key: u32) -> &[u8] {
        match u64::from(key) {
            ALLOC | FREE | REALLOC => &[0, HOOK],
            MAPPED => &[0, 0, 0, 0, TEXT],
            NAME => &[0, 0, 0, TEXT],
            ENTER | LEAVE => &[0, TEXT],
            FORKED => &[0, PROCESS],
            STARTED => &[0, THREAD],
            _ => &[],
        }
    }

    fn value(&self, role: u8, value: u64) -> u64 {
        let Some(number) = u32::try_from(value).ok().filter(|_| value != NONE) else {
            return value;
        };
        let new = match role {
            HOOK => number.wrapping_add(self.hooks),
            TEXT => self.texts.get(&number).copied().unwrap_or(number),
            PROCESS => number.wrapping_add(self.processes),
            THREAD => number.wrapping_add(self.threads),
            _ => number,
        };
        new.into()
    }
}
