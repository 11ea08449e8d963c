//! The ways between translated code and the runtime, in assembly.
//!
//! - `_start`: the tracer jumps here once, with rdi at the boot page.
//! - `rt_enter`: a thread of a process that was running already comes here; see `attach`.
//! - `rt_leave`: translated code leaves through a link; all registers are the target's, but r15.
//! - `rt_indirect_miss`, `rt_return_miss`: a table entry did not match. They look the target up in
//!   the map of all heads and go there, or end in `rt_leave`.
//! - `rt_again`: a signal handler rearranged the thread's state and wants dispatch to go on from
//!   it.
//! - `rt_resume`..`rt_resume_end`: back into the cache. Reads the saved state and changes nothing
//!   of it, so a signal here simply starts it again.
//! - `rt_syscall`..: a system call of the target. A signal before the instruction has completed
//!   abandons it: nothing happened yet.
use crate::cache::heads;
use crate::frame::{Ucontext, UC_RAX, UC_RBX, UC_RCX, UC_RDX};
use crate::space;
use crate::sys;
use crate::thread::{Area, Thread, LINK_INDIRECT, LINK_RETURN};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::AtomicU64;
use memtrail_ring::boot::{report, AppState, Boot};
use memtrail_translate::layout;

global_asm!(
    ".globl _start, rt_leave, rt_indirect_miss, rt_return_miss, rt_again, rt_resume, rt_resume_end",
    "_start:",
    // The target's own stack is not ours to use: a small one for the first steps lies in .bss.
    "lea rsp, [rip + rt_boot_stack_top]",
    "and rsp, -16",
    "call rt_boot",
    "jmp rt_resume",
    ".macro SAVE_XMM",
    "movups gs:[{xmm}+0*16], xmm0",
    "movups gs:[{xmm}+1*16], xmm1",
    "movups gs:[{xmm}+2*16], xmm2",
    "movups gs:[{xmm}+3*16], xmm3",
    "movups gs:[{xmm}+4*16], xmm4",
    "movups gs:[{xmm}+5*16], xmm5",
    "movups gs:[{xmm}+6*16], xmm6",
    "movups gs:[{xmm}+7*16], xmm7",
    "movups gs:[{xmm}+8*16], xmm8",
    "movups gs:[{xmm}+9*16], xmm9",
    "movups gs:[{xmm}+10*16], xmm10",
    "movups gs:[{xmm}+11*16], xmm11",
    "movups gs:[{xmm}+12*16], xmm12",
    "movups gs:[{xmm}+13*16], xmm13",
    "movups gs:[{xmm}+14*16], xmm14",
    "movups gs:[{xmm}+15*16], xmm15",
    ".endm",
    ".macro LOAD_XMM",
    "movups xmm0, gs:[{xmm}+0*16]",
    "movups xmm1, gs:[{xmm}+1*16]",
    "movups xmm2, gs:[{xmm}+2*16]",
    "movups xmm3, gs:[{xmm}+3*16]",
    "movups xmm4, gs:[{xmm}+4*16]",
    "movups xmm5, gs:[{xmm}+5*16]",
    "movups xmm6, gs:[{xmm}+6*16]",
    "movups xmm7, gs:[{xmm}+7*16]",
    "movups xmm8, gs:[{xmm}+8*16]",
    "movups xmm9, gs:[{xmm}+9*16]",
    "movups xmm10, gs:[{xmm}+10*16]",
    "movups xmm11, gs:[{xmm}+11*16]",
    "movups xmm12, gs:[{xmm}+12*16]",
    "movups xmm13, gs:[{xmm}+13*16]",
    "movups xmm14, gs:[{xmm}+14*16]",
    "movups xmm15, gs:[{xmm}+15*16]",
    ".endm",
    // A thread that was running natively: gs points to its area, and the tracer has its registers
    // in there, but for the vector registers, which are the target's still.
    ".globl rt_enter",
    "rt_enter:",
    "SAVE_XMM",
    "mov rsp, gs:[{stack_top}]",
    "mov rdi, gs:[{this}]",
    "call rt_entered",
    "jmp rt_resume",
    // void rt_park(AppState*): report, with all vector registers the target's. Returns if no tracer
    // takes the thread away.
    ".globl rt_park",
    "rt_park:",
    "LOAD_XMM",
    "mov rdx, rdi",
    "movabs rdi, {report_magic}",
    "mov esi, {parked}",
    "mov eax, {report}",
    "syscall",
    "ret",
    // One thread of a process whose threads are all parked comes here, on the boot stack.
    ".globl rt_departure, rt_boot_stack_top",
    "rt_departure:",
    "and rsp, -16",
    "mov rdi, gs:[{this}]",
    "call rt_depart",
    "ud2",
    // Another target had the table's entry. Look the address up in the whole map; flags are kept in
    // ax. Every eighth time the entry is taken over, so that the busier target holds it most of the
    // time.
    ".macro MISS table, which",
    "mov gs:[{next_pc}], rcx",
    "mov gs:[{miss_rax}], rax",
    "lahf",
    "seto al",
    "mov gs:[{miss_flags}], rax",
    "mov gs:[{miss_rbx}], rbx",
    "mov rbx, [rip + rt_heads]",
    "mov rdx, rcx",
    "shr rdx, {hash_shift}",
    "xor rdx, rcx",
    "shl rdx, {row_shift}",
    "3: and rdx, [rbx]",
    "cmp [rbx+rdx+{rows}], rcx",
    "je 4f",
    "cmp qword ptr [rbx+rdx+{rows}], 0",
    "je rt_miss_slow",
    "add rdx, {row}",
    "jmp 3b",
    "4: add rbx, rdx",
    "mov rdx, [rbx+{rows}+{row_head}]",
    "movsxd rbx, dword ptr [rbx+{rows}+\\which]",
    "test rdx, rdx",
    "jz rt_miss_slow",
    "test rbx, rbx",
    "jz rt_miss_slow",
    "add rbx, rdx",
    "mov gs:[{resume}], rdx",
    "inc dword ptr gs:[{misses}]",
    "test dword ptr gs:[{misses}], 7",
    "jnz rt_miss_hit",
    "movzx ecx, cx",
    "mov gs:[rcx*8+\\table], rbx",
    "jmp rt_miss_hit",
    ".endm",
    "rt_return_miss:",
    "mov gs:[{saved_rdx}], rdx",
    "mov rcx, [rsp-8]",
    "mov dword ptr gs:[{link}], {link_return}",
    "MISS {return_table}, {row_return}",
    "rt_indirect_miss:",
    "mov dword ptr gs:[{link}], {link_indirect}",
    "MISS {indirect_table}, {row_indirect}",
    "rt_miss_hit:",
    "cmp qword ptr gs:[{waiting}], 0",
    // From here on a signal handler does the rest itself (`finish_miss`): no signal was waiting, or
    // none could come now.
    ".globl rt_miss_found, rt_miss_end",
    "rt_miss_found:",
    "jne rt_miss_slow",
    "add al, 0x7f",
    "sahf",
    "mov rbx, gs:[{miss_rbx}]",
    "mov rax, gs:[{miss_rax}]",
    "mov rcx, gs:[{saved_rcx}]",
    "mov rdx, gs:[{saved_rdx}]",
    "jmp qword ptr gs:[{resume}]",
    "rt_miss_end:",
    "rt_miss_slow:",
    "add al, 0x7f",
    "sahf",
    "mov rbx, gs:[{miss_rbx}]",
    "mov rax, gs:[{miss_rax}]",
    "mov rcx, gs:[{saved_rcx}]",
    "mov rdx, gs:[{saved_rdx}]",
    "rt_leave:",
    "mov gs:[{regs}+0*8], rax",
    "mov gs:[{regs}+1*8], rcx",
    "mov gs:[{regs}+2*8], rdx",
    "mov gs:[{regs}+3*8], rbx",
    "mov gs:[{regs}+4*8], rsp",
    "mov gs:[{regs}+5*8], rbp",
    "mov gs:[{regs}+6*8], rsi",
    "mov gs:[{regs}+7*8], rdi",
    "mov gs:[{regs}+8*8], r8",
    "mov gs:[{regs}+9*8], r9",
    "mov gs:[{regs}+10*8], r10",
    "mov gs:[{regs}+11*8], r11",
    "mov gs:[{regs}+12*8], r12",
    "mov gs:[{regs}+13*8], r13",
    "mov gs:[{regs}+14*8], r14",
    "mov gs:[{cursor}], r15",
    "mov rax, gs:[{app_r15}]",
    "mov gs:[{regs}+15*8], rax",
    "mov rsp, gs:[{stack_top}]",
    "pushfq",
    "pop rax",
    "mov gs:[{flags}], rax",
    "push 2",
    "popfq",
    "SAVE_XMM",
    "mov rdi, gs:[{this}]",
    "call rt_dispatch",
    "jmp rt_resume",
    "rt_again:",
    "SAVE_XMM",
    "mov rsp, gs:[{stack_top}]",
    "mov rdi, gs:[{this}]",
    "call rt_redispatch",
    "rt_resume:",
    "mov rax, gs:[{waiting}]",
    "test rax, rax",
    "jz 2f",
    "mov rsp, gs:[{stack_top}]",
    "mov rdi, gs:[{this}]",
    "call rt_redispatch",
    "jmp rt_resume",
    "2:",
    "LOAD_XMM",
    "mov rsp, gs:[{stack_top}]",
    "mov rax, gs:[{regs}+15*8]",
    "mov gs:[{app_r15}], rax",
    "push qword ptr gs:[{flags}]",
    "popfq",
    "mov rax, gs:[{regs}+0*8]",
    "mov rcx, gs:[{regs}+1*8]",
    "mov rdx, gs:[{regs}+2*8]",
    "mov rbx, gs:[{regs}+3*8]",
    "mov rbp, gs:[{regs}+5*8]",
    "mov rsi, gs:[{regs}+6*8]",
    "mov rdi, gs:[{regs}+7*8]",
    "mov r8, gs:[{regs}+8*8]",
    "mov r9, gs:[{regs}+9*8]",
    "mov r10, gs:[{regs}+10*8]",
    "mov r11, gs:[{regs}+11*8]",
    "mov r12, gs:[{regs}+12*8]",
    "mov r13, gs:[{regs}+13*8]",
    "mov r14, gs:[{regs}+14*8]",
    "mov r15, gs:[{cursor}]",
    "mov rsp, gs:[{regs}+4*8]",
    "jmp qword ptr gs:[{resume}]",
    "rt_resume_end:",
    // long rt_syscall(long n, long args[6]): ABANDONED if a signal is waiting.
    ".globl rt_syscall, rt_syscall_insn, rt_syscall_abandon",
    "rt_syscall:",
    "cmp qword ptr gs:[{waiting}], 0",
    "jne rt_syscall_abandon",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11+8]",
    "mov rdx, [r11+16]",
    "mov r10, [r11+24]",
    "mov r8, [r11+32]",
    "mov r9, [r11+40]",
    "rt_syscall_insn:",
    "syscall",
    "ret",
    "rt_syscall_abandon:",
    "movabs rax, {abandoned}",
    "ret",
    // long rt_clone(flags, child stack, ptid, ctid, tls, new thread): the child never returns here.
    ".globl rt_clone",
    "rt_clone:",
    "push rbx",
    "mov rbx, r9",
    "mov r10, rcx",
    "mov eax, {clone}",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "pop rbx",
    "ret",
    "2:",
    // On the new thread's runtime stack already: `child stack` was its top.
    "mov rdi, rbx",
    "call rt_thread_begin",
    "jmp rt_resume",
    ".globl rt_restorer",
    "rt_restorer:",
    "mov eax, {sigreturn}",
    "syscall",
    ".bss",
    ".balign 16",
    ".skip {boot_stack}",
    "rt_boot_stack_top:",
    ".skip 64",
    ".balign 8",
    ".globl rt_heads",
    "rt_heads: .skip 8",
    ".text",
    this = const offset_of!(Thread, this),
    saved_rcx = const offset_of!(Thread, saved_rcx),
    saved_rdx = const offset_of!(Thread, saved_rdx),
    app_r15 = const offset_of!(Thread, app_r15),
    link = const offset_of!(Thread, link),
    misses = const offset_of!(Thread, misses),
    next_pc = const offset_of!(Thread, next_pc),
    stack_top = const offset_of!(Thread, stack_top),
    regs = const offset_of!(Thread, regs),
    flags = const offset_of!(Thread, flags),
    resume = const offset_of!(Thread, resume),
    cursor = const offset_of!(Thread, cursor),
    miss_rax = const offset_of!(Thread, miss_rax),
    miss_rbx = const offset_of!(Thread, miss_rbx),
    miss_flags = const offset_of!(Thread, miss_flags),
    xmm = const offset_of!(Thread, xmm),
    waiting = const offset_of!(Area, mail.waiting),
    indirect_table = const layout::INDIRECT_TABLE,
    return_table = const layout::RETURN_TABLE,
    link_indirect = const LINK_INDIRECT,
    link_return = const LINK_RETURN,
    hash_shift = const heads::HASH_SHIFT,
    row_shift = const heads::ROW_SHIFT,
    row = const heads::ROW,
    rows = const heads::ROWS,
    row_head = const heads::HEAD,
    row_indirect = const heads::INDIRECT,
    row_return = const heads::RETURN,
    abandoned = const ABANDONED,
    clone = const sys::CLONE,
    sigreturn = const sys::RT_SIGRETURN,
    boot_stack = const BOOT_STACK,
    report = const report::CALL,
    report_magic = const report::MAGIC,
    parked = const report::PARKED,
);

/// Bytes of the stack on which the image begins.
const BOOT_STACK: usize = 64 * 1024;

extern "C" {
    static rt_resume: u8;
    static rt_resume_end: u8;
    static rt_again: u8;
    static rt_miss_found: u8;
    static rt_miss_end: u8;
    /// The map from target addresses to heads that the miss path reads: see `cache::Heads`.
    pub static rt_heads: AtomicU64;
    static rt_syscall_insn: u8;
    static rt_syscall_abandon: u8;
    fn rt_syscall(n: usize, args: *const usize) -> isize;
    pub fn rt_clone(flags: usize, stack: u64, ptid: usize, ctid: usize, tls: usize, thread: u64) -> isize;
    pub fn rt_restorer();
    fn rt_enter();
    fn rt_departure();
    pub fn rt_park(state: *mut AppState);
    static rt_boot_stack_top: u8;
}

/// Tells the tracer the places that it must know.
pub fn tell_places(boot: &mut Boot) {
    const SYSCALL_BYTES: u64 = 2;
    let image = space::image();
    // SAFETY: only addresses are taken.
    unsafe {
        boot.enter = rt_enter as *const () as u64;
        boot.depart = rt_departure as *const () as u64;
        boot.depart_stack = address(&rt_boot_stack_top);
        boot.syscall = rt_syscall as *const () as u64;
        boot.syscall_end = address(&rt_syscall_insn) + SYSCALL_BYTES;
        boot.abandon = address(&rt_syscall_abandon);
        boot.resume = address(&rt_resume);
        boot.resume_end = address(&rt_resume_end);
        boot.found = address(&rt_miss_found);
        boot.found_end = address(&rt_miss_end);
    }
    (boot.image, boot.image_end) = (image.start, image.end);
    boot.tid = offset_of!(Area, thread.tid) as u64;
    boot.waiting = offset_of!(Area, mail.waiting) as u64;
}

/// The system call did not happen: a signal came first.
pub const ABANDONED: isize = 0x8000_0000_0000_0001u64 as isize;

/// A system call on behalf of the target.
pub fn app_syscall(n: usize, args: &[usize; 6]) -> isize {
    // SAFETY: it is the target's own call with its own arguments.
    unsafe { rt_syscall(n, args.as_ptr()) }
}

fn address(symbol: &u8) -> u64 {
    symbol as *const u8 as u64
}

/// Where a signal handler must send the thread, if it interrupted one of the runtime's own
/// sensitive places.
pub enum Place {
    /// Going back to the cache: start again.
    Resuming(u64),
    /// In front of the target's system call: give it up.
    BeforeSyscall(u64),
    Elsewhere,
}

pub fn place(pc: u64) -> Place {
    // SAFETY: only addresses are taken.
    unsafe {
        if (address(&rt_resume)..address(&rt_resume_end)).contains(&pc) {
            return Place::Resuming(address(&rt_resume));
        }
        if (rt_syscall as *const () as u64..=address(&rt_syscall_insn)).contains(&pc) {
            return Place::BeforeSyscall(address(&rt_syscall_abandon));
        }
    }
    Place::Elsewhere
}

/// Whether the miss path was interrupted after it found its block: [`finish_miss`] does the rest.
pub fn in_found_miss(pc: u64) -> bool {
    // SAFETY: only addresses are taken.
    unsafe { (address(&rt_miss_found)..address(&rt_miss_end)).contains(&pc) }
}

/// Do the rest of the miss path: afterwards the thread stands at the head of the block it found.
pub fn finish_miss(t: &Thread, uc: &mut Ucontext) {
    // What lahf and seto saved.
    const STATUS: u64 = 0xd5;
    let saved = t.miss_flags;
    let flags = (saved >> 8 & STATUS) | (saved & 1) << 11;
    uc.eflags = uc.eflags & !(STATUS | 1 << 11) | flags;
    for (slot, v) in [
        (UC_RAX, t.miss_rax),
        (UC_RBX, t.miss_rbx),
        (UC_RCX, t.saved_rcx),
        (UC_RDX, t.saved_rdx),
    ] {
        uc.regs[slot] = v;
    }
    uc.rip = t.resume;
}

pub fn again() -> u64 {
    // SAFETY: only the address is taken.
    unsafe { address(&rt_again) }
}
