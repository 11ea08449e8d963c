//! The check in front of a block that indirect branches and returns arrive at.
use super::{Emitted, Entry, Site, SitePc, Sites, RCX, RDX};
use crate::code::Code;
use crate::layout as at;
use alloc::vec::Vec;

/// A separate entry for a block that was first met otherwise; jumps on to `head`.
pub fn emit_entry(entry: Entry, tag: u64, hot: u64, cold: u64, head: u64) -> Emitted {
    let (mut h, mut c) = (Code::at(hot), Code::at(cold));
    let mut sites = Sites::new(true);
    entry_check(&mut h, &mut c, entry, tag, &mut sites);
    h.jump(head);
    Emitted {
        hot: h.bytes,
        cold: c.bytes,
        head: 0,
        links: Vec::new(),
        sites: sites.list,
    }
}

/// The check of the target address in front of a head.
pub(super) fn entry_check(hot: &mut Code, cold: &mut Code, entry: Entry, tag: u64, sites: &mut Sites) {
    let mut now = Site {
        rcx_saved: true,
        rdx_saved: true,
        ..Site::at(SitePc::Rcx(0))
    };
    let low = tag <= i32::MAX as u64;
    let constant = |cold: &mut Code| {
        while cold.here() % 8 != 0 {
            cold.put(&[0xcc]);
        }
        let at = cold.here();
        cold.put(&tag.wrapping_neg().to_le_bytes());
        at
    };
    match entry {
        Entry::Direct => {}
        Entry::Indirect => {
            sites.mark(hot.here(), now);
            if low {
                hot.put(&[0x48, 0x8d, 0x89]); // lea rcx, [rcx-tag]
                hot.put32((tag as u32).wrapping_neg());
            } else {
                let k = constant(cold);
                hot.put(&[0x48, 0x8b, 0x15]); // mov rdx, [rip+k]
                hot.rel32(k);
                hot.put(&[0x48, 0x8d, 0x0c, 0x11]); // lea rcx, [rcx+rdx]
            }
            now.pc = SitePc::Rcx(tag);
            sites.mark(hot.here(), now);
            let undo: u8 = if low { 7 } else { 8 };
            hot.put(&[0xe3, undo + 8]); // jrcxz ok
            if low {
                hot.put(&[0x48, 0x8d, 0x89]); // lea rcx, [rcx+tag]
                hot.put32(tag as u32);
            } else {
                hot.put(&[0x48, 0xf7, 0xd2]); // not rdx
                hot.put(&[0x48, 0x8d, 0x4c, 0x11, 0x01]); // lea rcx, [rcx+rdx+1]
            }
            now.pc = SitePc::Rcx(0);
            sites.mark(hot.here(), now);
            hot.jump_gs(at::INDIRECT_MISS);
            now.pc = SitePc::Const(tag);
            sites.mark(hot.here(), now);
            hot.load_gs(RDX, at::SAVED_RDX);
            now.rdx_saved = false;
            sites.mark(hot.here(), now);
            hot.load_gs(RCX, at::SAVED_RCX);
            now.rcx_saved = false;
            sites.mark(hot.here(), now);
        }
        Entry::Return => {
            now.pc = SitePc::BelowStack;
            now.rdx_saved = false;
            sites.mark(hot.here(), now);
            if low {
                hot.put(&[0x48, 0x8b, 0x4c, 0x24, 0xf8]); // mov rcx, [rsp-8]
                hot.put(&[0x48, 0x8d, 0x89]); // lea rcx, [rcx-tag]
                hot.put32((tag as u32).wrapping_neg());
            } else {
                let k = constant(cold);
                hot.store_gs(at::SAVED_RDX, RDX);
                now.rdx_saved = true;
                sites.mark(hot.here(), now);
                hot.put(&[0x48, 0x8b, 0x4c, 0x24, 0xf8]); // mov rcx, [rsp-8]
                hot.put(&[0x48, 0x8b, 0x15]); // mov rdx, [rip+k]
                hot.rel32(k);
                hot.put(&[0x48, 0x8d, 0x0c, 0x11]); // lea rcx, [rcx+rdx]
                hot.load_gs(RDX, at::SAVED_RDX);
                now.rdx_saved = false;
                sites.mark(hot.here(), now);
            }
            hot.put(&[0xe3, 8]); // jrcxz ok
            hot.jump_gs(at::RETURN_MISS);
            now.pc = SitePc::Const(tag);
            sites.mark(hot.here(), now);
            hot.load_gs(RCX, at::SAVED_RCX);
            now.rcx_saved = false;
            sites.mark(hot.here(), now);
        }
    }
}
