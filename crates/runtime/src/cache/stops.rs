//! Stops: places where translated code goes to the runtime before it goes on.
//!
//! A stop takes the place of the block at its address: branches, links and tables lead to it. The
//! block that is translated from the code there stands *behind* it, known to the stop alone. Where
//! there was a block already it dies, as if its code had changed.
use super::{BlockInfo, Cache, NoCode, Piece, Way};
use crate::hooks::Hook;
use alloc::vec::Vec;
use memtrail_translate::Entry;

/// A block that only leaves, in front of the one that is translated from its code.
#[derive(Clone, Copy)]
pub struct Stop {
    hook: Option<Hook>,
    /// Hooked functions return here.
    returns: bool,
    /// The block behind it.
    behind: Option<u32>,
}

impl Cache {
    /// A stop at `pc`: whoever comes there goes to the runtime first.
    pub(super) fn install_stop(&mut self, pc: u64, hook: Option<Hook>, returns: bool) -> u32 {
        let number = self.blocks.len() as u32;
        let link = self.links.len() as u32;
        self.links.push(Way::Stop(number));
        let a = self.arena(pc);
        let arena = &mut self.arenas[a];
        let (hot, cold) = (arena.hot, arena.cold);
        let (code, head) = Self::leaving(hot, link);
        // SAFETY: free space of an arena we own.
        unsafe { core::ptr::copy_nonoverlapping(code.bytes.as_ptr(), hot as *mut u8, code.bytes.len()) };
        arena.hot = code.here();
        // If it is interrupted there is nothing to settle, as in a stale stub.
        arena.hot_index.push((hot, number, Piece::Stale));
        self.blocks.push(BlockInfo {
            pc,
            code: 0,
            code_len: 1,
            stretches: Vec::new(),
            id: 0,
            first_link: link,
            entry: Entry::Direct,
            hot,
            cold,
            head,
            indirect: 0,
            ret: 0,
            alive: true,
            one_shot: false,
            stop: Some(Stop {
                hook,
                returns,
                behind: None,
            }),
            is_behind: false,
            joins: false,
            onward: false,
            rests_until: 0,
            rests: 0,
            before: None,
        });
        self.enter(number);
        number
    }

    /// What happens at stop `b`: the function that begins there, and whether hooked functions
    /// return there.
    pub fn stop(&self, b: u32) -> (Option<Hook>, bool) {
        self.blocks[b as usize]
            .stop
            .map_or((None, false), |s| (s.hook, s.returns))
    }

    /// The head of the block behind stop `b`.
    pub fn behind(&mut self, b: u32) -> Result<u64, NoCode> {
        let info = &self.blocks[b as usize];
        let (pc, behind) = (info.pc, info.stop.and_then(|s| s.behind));
        if let Some(behind) = behind.map(|i| &self.blocks[i as usize]).filter(|i| i.alive) {
            return Ok(behind.head);
        }
        let range = self.executable(pc)?;
        let number = self.translate(pc, Entry::Direct, false, true, range)?;
        if let Some(stop) = &mut self.blocks[b as usize].stop {
            stop.behind = Some(number);
        }
        Ok(self.blocks[number as usize].head)
    }

    /// Stop at the entry of a function from now on.
    pub(super) fn hook(&mut self, pc: u64, hook: Hook) {
        if let alloc::collections::btree_map::Entry::Vacant(place) = self.hooks.entry(pc) {
            place.insert(hook);
            self.kill(pc, pc + 1);
        }
    }

    /// Stop at an address that a hooked function is about to return to.
    pub fn stop_at_return(&mut self, pc: u64) {
        let there = self.find(pc);
        if there.is_some_and(|b| self.stop(b).1) {
            return;
        }
        self.returns.insert(pc);
        // The block there, and paths that return there.
        self.kill(pc, pc + 1);
    }
}
