//! From where the target is to the translated code that goes on from there.
use crate::attach;
use crate::buffer;
use crate::cache::{Cache, NoCode, Way, CACHE};
use crate::hooks;
use crate::lock::{rank, Guard};
use crate::notes;
use crate::signals;
use crate::sys;
use crate::syscalls;
use crate::thread::{Thread, LINK_INDIRECT, LINK_RETURN, RAX, RCX, RSP};
use memtrail_ring::record;
use memtrail_translate::{Entry, LinkKind};

/// Translated code left through `t.link`. Returns with `t.resume` set.
#[no_mangle]
extern "C" fn rt_dispatch(t: &mut Thread) {
    buffer::join_eagerly(t);
    match t.link {
        LINK_INDIRECT => arrive(t, t.next_pc, Entry::Indirect),
        LINK_RETURN => arrive(t, t.next_pc, Entry::Return),
        n => {
            let mut cache = CACHE.lock();
            let kind = match cache.way(n) {
                Way::Link(kind) => kind,
                Way::Stop(b) => return stop(t, cache, b),
            };
            match kind {
                LinkKind::Direct { target, patch } => {
                    t.pc = target;
                    if let Ok(b) = cache.block(target, Entry::Direct, false) {
                        if patch != 0 {
                            cache.connect(n, b);
                        }
                        t.resume = cache.blocks[b as usize].head;
                        return;
                    }
                    drop(cache);
                    go_on(t);
                }
                LinkKind::Syscall { pc } => {
                    drop(cache);
                    t.pc = pc;
                    syscalls::run(t);
                    go_on(t);
                }
                LinkKind::Emulate { pc } => {
                    drop(cache);
                    t.pc = pc;
                    emulate(t);
                    go_on(t);
                }
                LinkKind::Marker { next, marker, .. } => {
                    drop(cache);
                    t.pc = next;
                    notes::marker(t, marker);
                    go_on(t);
                }
            }
        }
    }
}

/// The thread is where hooked functions begin, or return to: stop number `b`. It goes on with the
/// block behind the stop.
fn stop(t: &mut Thread, mut cache: Guard<'_, Cache, { rank::CACHE }>, b: u32) {
    t.pc = cache.blocks[b as usize].pc;
    // A signal comes first, and then this again.
    if t.mail().is_full() {
        drop(cache);
        return go_on(t);
    }
    let behind = cache.behind(b);
    let (hook, returns) = cache.stop(b);
    let mut call = None;
    if let (Some(hook), false) = (hook, t.unrecorded) {
        if let Some(back) = crate::heap::read_word(t.regs[RSP]) {
            call = hooks::arrive(t, hook, back);
            if call.is_some() {
                cache.stop_at_return(back);
            }
        }
    }
    drop(cache);
    if returns {
        hooks::return_(t);
    }
    if let Some(call) = call {
        hooks::begin(t, call);
    }
    match behind {
        Ok(head) => t.resume = head,
        Err(why) => {
            no_code(t, why);
            go_on(t);
        }
    }
}

/// An indirect branch whose table entry did not match.
fn arrive(t: &mut Thread, pc: u64, entry: Entry) {
    t.pc = pc;
    let mut cache = CACHE.lock();
    if let Ok(b) = cache.block(pc, entry, false) {
        cache.table_entry(b, entry);
        t.resume = cache.blocks[b as usize].head;
        return;
    }
    drop(cache);
    go_on(t);
}

/// The thread's state was rearranged, or a signal waits.
#[no_mangle]
extern "C" fn rt_redispatch(t: &mut Thread) {
    go_on(t);
}

/// Set `t.resume` for `t.pc`, giving the target its signals first.
pub fn go_on(t: &mut Thread) {
    loop {
        signals::deliver_pending(t);
        if t.mail().is_to_park() && !attach::park(t) {
            continue;
        }
        if t.pc & !0xfff == 0xffff_ffff_ff60_0000 {
            vsyscall(t);
            continue;
        }
        let one_shot = core::mem::take(&mut t.one_shot);
        let mut cache = CACHE.lock();
        match cache.block(t.pc, Entry::Direct, one_shot) {
            Ok(b) => {
                t.resume = cache.blocks[b as usize].head;
                return;
            }
            Err(why) => {
                drop(cache);
                no_code(t, why);
            }
        }
    }
}

/// There is nothing to run at `t.pc`: the target gets the signal it would get natively.
fn no_code(t: &mut Thread, why: NoCode) {
    match why {
        NoCode::Unmapped => signals::synthesize(t, signals::SIGSEGV, 1, t.pc, 14, 0x14),
        NoCode::NotExecutable => signals::synthesize(t, signals::SIGSEGV, 2, t.pc, 14, 0x15),
        NoCode::Unknown => {
            if !signals::has_handler(t, signals::SIGILL) {
                let mut bytes = [0u8; 8];
                crate::heap::copy_in_target(bytes.as_mut_ptr() as u64, t.pc, 8);
                sys::say(&[
                    b"unknown instruction at ",
                    &sys::hex(t.pc),
                    b", bytes ",
                    &sys::hex(u64::from_be_bytes(bytes)),
                    b": delivering SIGILL",
                ]);
            }
            signals::synthesize(t, signals::SIGILL, 2, t.pc, 6, 0);
        }
    }
}

/// The legacy vsyscall page cannot be read: do what its three entries do.
fn vsyscall(t: &mut Thread) {
    let n = match t.pc & 0xfff {
        0x000 => sys::GETTIMEOFDAY,
        0x400 => sys::TIME,
        0x800 => sys::GETCPU,
        _ => {
            signals::synthesize(t, signals::SIGSEGV, 1, t.pc, 14, 0x14);
            return;
        }
    };
    // SAFETY: the target's own call.
    t.regs[RAX] = unsafe { sys::call(n, [t.regs[7] as usize, t.regs[6] as usize, t.regs[2] as usize, 0, 0, 0]) } as u64;
    t.pc = crate::heap::read_target(t.regs[RSP]).unwrap_or(0);
    t.regs[RSP] += 8;
    buffer::push_state(t);
}

/// Rare instructions the runtime carries out itself. Their accesses are in the block's plan.
fn emulate(t: &mut Thread) {
    use iced_x86::{Code, Decoder, DecoderOptions, Mnemonic, OpKind, Register};
    let mut bytes = [0u8; 15];
    let mut have = 15;
    while have > 0 && !crate::heap::copy_in_target(bytes.as_mut_ptr() as u64, t.pc, have) {
        have -= 1;
    }
    let insn = Decoder::with_ip(64, &bytes[..have], t.pc, DecoderOptions::NONE).decode();
    let reg = |r: Register| r.full_register().number();
    let pop = |t: &Thread, k: u64, size: u64| -> Option<u64> {
        let at = t.regs[RSP] + k * size;
        match size {
            8 => crate::heap::read_target::<u64>(at),
            4 => crate::heap::read_target::<u32>(at).map(u64::from),
            _ => crate::heap::read_target::<u16>(at).map(u64::from),
        }
    };
    let next = insn.next_ip();
    match insn.code() {
        Code::Rdgsbase_r64 => t.regs[reg(insn.op0_register())] = t.app_gs,
        Code::Rdgsbase_r32 => t.regs[reg(insn.op0_register())] = t.app_gs as u32 as u64,
        Code::Wrgsbase_r64 => t.app_gs = t.regs[reg(insn.op0_register())],
        Code::Wrgsbase_r32 => t.app_gs = t.regs[reg(insn.op0_register())] as u32 as u64,
        Code::Wrfsbase_r64 | Code::Wrfsbase_r32 => {
            let v = t.regs[reg(insn.op0_register())];
            t.fs_base = if insn.code() == Code::Wrfsbase_r64 {
                v
            } else {
                v as u32 as u64
            };
            // SAFETY: the runtime does not use fs.
            unsafe { sys::call(sys::ARCH_PRCTL, [0x1002, t.fs_base as usize, 0, 0, 0, 0]) };
        }
        Code::Retfq | Code::Retfq_imm16 | Code::Retfd | Code::Retfd_imm16 => {
            let size = if matches!(insn.code(), Code::Retfq | Code::Retfq_imm16) {
                8
            } else {
                4
            };
            let (Some(pc), Some(cs)) = (pop(t, 0, size), pop(t, 1, size)) else {
                return fault(t, t.regs[RSP]);
            };
            if cs & 0xffff != 0x33 {
                return unsupported(t, b"a far return out of 64-bit code");
            }
            let extra = if insn.op_count() == 1 {
                insn.immediate16() as u64
            } else {
                0
            };
            t.regs[RSP] += 2 * size + extra;
            t.pc = pc;
            return buffer::push_state(t);
        }
        Code::Iretq | Code::Iretd => {
            let size = if insn.code() == Code::Iretq { 8 } else { 4 };
            let (Some(pc), Some(cs), Some(flags), Some(rsp)) =
                (pop(t, 0, size), pop(t, 1, size), pop(t, 2, size), pop(t, 3, size))
            else {
                return fault(t, t.regs[RSP]);
            };
            if cs & 0xffff != 0x33 {
                return unsupported(t, b"an interrupt return out of 64-bit code");
            }
            t.flags = flags & 0x24_4dd5 | 0x202;
            t.regs[RSP] = rsp;
            t.pc = pc;
            return buffer::push_state(t);
        }
        _ => match insn.mnemonic() {
            // A selector load: base 0 follows, as the kernel has no descriptors for user bases.
            Mnemonic::Mov | Mnemonic::Pop if insn.op0_kind() == OpKind::Register => {
                let gs = insn.op0_register() == Register::GS;
                if insn.mnemonic() == Mnemonic::Pop {
                    t.regs[RSP] += 8;
                }
                if gs {
                    t.app_gs = 0;
                } else {
                    t.fs_base = 0;
                    // SAFETY: as above.
                    unsafe { sys::call(sys::ARCH_PRCTL, [0x1002, 0, 0, 0, 0, 0]) };
                }
            }
            _ if insn.is_call_far_indirect() || insn.is_jmp_far_indirect() => return far(t, &insn),
            _ => return unsupported(t, b"this form of far jump or call"),
        },
    }
    t.pc = next;
    buffer::push_state(t);
}

/// A far jump or call through memory, within 64-bit code.
fn far(t: &mut Thread, insn: &iced_x86::Instruction) {
    use iced_x86::{Code, Register};
    let value = |r: Register| match r {
        Register::FS => t.fs_base,
        Register::GS => t.app_gs,
        r if r.is_segment_register() => 0,
        r => t.regs[r.full_register().number()],
    };
    let at = insn.virtual_address(0, 0, |r, _, _| Some(value(r))).unwrap_or(0);
    let size: u64 = match insn.code() {
        Code::Call_m1664 | Code::Jmp_m1664 => 8,
        Code::Call_m1632 | Code::Jmp_m1632 => 4,
        _ => return unsupported(t, b"a 16-bit far jump or call"),
    };
    let mut words = [0u64; 2];
    let read = crate::heap::copy_in_target(words.as_mut_ptr() as u64, at, size as usize + 2);
    let (target, selector) = if size == 8 {
        (words[0], words[1])
    } else {
        (words[0] & 0xffff_ffff, words[0] >> 32)
    };
    if !read {
        return fault(t, at);
    }
    if selector & 0xffff != 0x33 {
        return unsupported(t, b"a far branch out of 64-bit code");
    }
    if insn.is_call_far_indirect() {
        let (cs, back) = (0x33u64.to_le_bytes(), insn.next_ip().to_le_bytes());
        let rsp = t.regs[RSP];
        let n = size as usize;
        if !crate::heap::copy_in_target(rsp - size, cs.as_ptr() as u64, n)
            || !crate::heap::copy_in_target(rsp - 2 * size, back.as_ptr() as u64, n)
        {
            return fault(t, rsp - size);
        }
        t.regs[RSP] -= 2 * size;
    }
    t.pc = target;
    buffer::push_state(t);
}

/// The instruction at `t.pc` faulted at `addr` while we carried it out: its accesses did not
/// happen.
fn fault(t: &mut Thread, addr: u64) {
    let done = CACHE.lock().instructions_of_link(t.link) - 1;
    let words = [record::CUT, done, t.regs[RCX], t.regs[6], t.regs[7], 0];
    buffer::push(t, &words);
    buffer::push_state(t);
    signals::synthesize(t, signals::SIGSEGV, 1, addr, 14, 4);
}

fn unsupported(t: &mut Thread, what: &[u8]) {
    sys::die(&[b"cannot translate ", what, b" at ", &sys::hex(t.pc)])
}
