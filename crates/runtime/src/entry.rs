//! The ways between translated code and the runtime, in assembly.
//!
//! - `_start`: the tracer jumps here once, with rdi at the boot page.
//! - `rt_leave`: translated code leaves through a link; all registers are the target's, but r15.
//! - `rt_indirect_miss`, `rt_return_miss`: a table entry did not match. They look the target up in the map of all heads and go there, or
//!   end in `rt_leave`.
//! - `rt_again`: a signal handler rearranged the thread's state and wants dispatch to go on from it.
//! - `rt_resume`..`rt_resume_end`: back into the cache. Reads the saved state and changes nothing of it, so a
//!   signal here simply starts it again.
//! - `rt_syscall`..: a system call of the target. A signal before the instruction has completed abandons it: nothing happened yet.
use crate::frame::{Ucontext, UC_RAX, UC_RBX, UC_RCX, UC_RDX};
use crate::thread::Thread;
use core::arch::global_asm;
use core::sync::atomic::AtomicU64;

global_asm!(
    ".globl _start, rt_leave, rt_indirect_miss, rt_return_miss, rt_again, rt_resume, rt_resume_end",
    "_start:",
    // The target's own stack is not ours to use: a small one for the first steps lies in .bss.
    "lea rsp, [rip + rt_boot_stack_top]",
    "and rsp, -16",
    "call rt_boot",
    "jmp rt_resume",
    ".macro SAVE_XMM",
    "movups gs:[0x130], xmm0",
    "movups gs:[0x140], xmm1",
    "movups gs:[0x150], xmm2",
    "movups gs:[0x160], xmm3",
    "movups gs:[0x170], xmm4",
    "movups gs:[0x180], xmm5",
    "movups gs:[0x190], xmm6",
    "movups gs:[0x1a0], xmm7",
    "movups gs:[0x1b0], xmm8",
    "movups gs:[0x1c0], xmm9",
    "movups gs:[0x1d0], xmm10",
    "movups gs:[0x1e0], xmm11",
    "movups gs:[0x1f0], xmm12",
    "movups gs:[0x200], xmm13",
    "movups gs:[0x210], xmm14",
    "movups gs:[0x220], xmm15",
    ".endm",
    // Another target had the table's entry. Look the address up in the whole map; flags are kept in ax.
    // Every eighth time the entry is taken over, so that the busier target holds it most of the time.
    ".macro MISS table, which",
    "mov gs:[0x58], rcx",
    "mov gs:[0x108], rax",
    "lahf",
    "seto al",
    "mov gs:[0x118], rax",
    "mov gs:[0x110], rbx",
    "mov rbx, [rip + rt_heads]",
    "mov rdx, rcx",
    "shr rdx, 15",
    "xor rdx, rcx",
    "shl rdx, 5",
    "3: and rdx, [rbx]",
    "cmp [rbx+rdx+32], rcx",
    "je 4f",
    "cmp qword ptr [rbx+rdx+32], 0",
    "je rt_miss_slow",
    "add rdx, 32",
    "jmp 3b",
    "4: add rbx, rdx",
    "mov rdx, [rbx+40]",
    "movsxd rbx, dword ptr [rbx+\\which]",
    "test rdx, rdx",
    "jz rt_miss_slow",
    "test rbx, rbx",
    "jz rt_miss_slow",
    "add rbx, rdx",
    "mov gs:[0xf0], rdx",
    "inc dword ptr gs:[0x54]",
    "test dword ptr gs:[0x54], 7",
    "jnz rt_miss_hit",
    "movzx ecx, cx",
    "mov gs:[rcx*8+\\table], rbx",
    "jmp rt_miss_hit",
    ".endm",
    "rt_return_miss:",
    "mov gs:[0x10], rdx",
    "mov rcx, [rsp-8]",
    "mov dword ptr gs:[0x50], 0xfffffff1",
    "MISS 0x90000, 52",
    "rt_indirect_miss:",
    "mov dword ptr gs:[0x50], 0xfffffff0",
    "MISS 0x10000, 48",
    "rt_miss_hit:",
    "cmp qword ptr gs:[0xf8], 0",
    // From here on a signal handler does the rest itself (`finish_miss`): no signal was waiting, or none could come now.
    ".globl rt_miss_found, rt_miss_end",
    "rt_miss_found:",
    "jne rt_miss_slow",
    "add al, 0x7f",
    "sahf",
    "mov rbx, gs:[0x110]",
    "mov rax, gs:[0x108]",
    "mov rcx, gs:[0x08]",
    "mov rdx, gs:[0x10]",
    "jmp qword ptr gs:[0xf0]",
    "rt_miss_end:",
    "rt_miss_slow:",
    "add al, 0x7f",
    "sahf",
    "mov rbx, gs:[0x110]",
    "mov rax, gs:[0x108]",
    "mov rcx, gs:[0x08]",
    "mov rdx, gs:[0x10]",
    "rt_leave:",
    "mov gs:[0x68], rax",
    "mov gs:[0x70], rcx",
    "mov gs:[0x78], rdx",
    "mov gs:[0x80], rbx",
    "mov gs:[0x88], rsp",
    "mov gs:[0x90], rbp",
    "mov gs:[0x98], rsi",
    "mov gs:[0xa0], rdi",
    "mov gs:[0xa8], r8",
    "mov gs:[0xb0], r9",
    "mov gs:[0xb8], r10",
    "mov gs:[0xc0], r11",
    "mov gs:[0xc8], r12",
    "mov gs:[0xd0], r13",
    "mov gs:[0xd8], r14",
    "mov gs:[0x100], r15",
    "mov rax, gs:[0x28]",
    "mov gs:[0xe0], rax",
    "mov rsp, gs:[0x60]",
    "pushfq",
    "pop rax",
    "mov gs:[0xe8], rax",
    "push 2",
    "popfq",
    "SAVE_XMM",
    "mov rdi, gs:[0]",
    "call rt_dispatch",
    "jmp rt_resume",
    "rt_again:",
    "SAVE_XMM",
    "mov rsp, gs:[0x60]",
    "mov rdi, gs:[0]",
    "call rt_redispatch",
    "rt_resume:",
    "mov rax, gs:[0xf8]",
    "test rax, rax",
    "jz 2f",
    "mov rsp, gs:[0x60]",
    "mov rdi, gs:[0]",
    "call rt_redispatch",
    "jmp rt_resume",
    "2:",
    "movups xmm0, gs:[0x130]",
    "movups xmm1, gs:[0x140]",
    "movups xmm2, gs:[0x150]",
    "movups xmm3, gs:[0x160]",
    "movups xmm4, gs:[0x170]",
    "movups xmm5, gs:[0x180]",
    "movups xmm6, gs:[0x190]",
    "movups xmm7, gs:[0x1a0]",
    "movups xmm8, gs:[0x1b0]",
    "movups xmm9, gs:[0x1c0]",
    "movups xmm10, gs:[0x1d0]",
    "movups xmm11, gs:[0x1e0]",
    "movups xmm12, gs:[0x1f0]",
    "movups xmm13, gs:[0x200]",
    "movups xmm14, gs:[0x210]",
    "movups xmm15, gs:[0x220]",
    "mov rsp, gs:[0x60]",
    "mov rax, gs:[0xe0]",
    "mov gs:[0x28], rax",
    "push qword ptr gs:[0xe8]",
    "popfq",
    "mov rax, gs:[0x68]",
    "mov rcx, gs:[0x70]",
    "mov rdx, gs:[0x78]",
    "mov rbx, gs:[0x80]",
    "mov rbp, gs:[0x90]",
    "mov rsi, gs:[0x98]",
    "mov rdi, gs:[0xa0]",
    "mov r8, gs:[0xa8]",
    "mov r9, gs:[0xb0]",
    "mov r10, gs:[0xb8]",
    "mov r11, gs:[0xc0]",
    "mov r12, gs:[0xc8]",
    "mov r13, gs:[0xd0]",
    "mov r14, gs:[0xd8]",
    "mov r15, gs:[0x100]",
    "mov rsp, gs:[0x88]",
    "jmp qword ptr gs:[0xf0]",
    "rt_resume_end:",
    // long rt_syscall(long n, long args[6]): ABANDONED if a signal is waiting.
    ".globl rt_syscall, rt_syscall_insn, rt_syscall_abandon",
    "rt_syscall:",
    "cmp qword ptr gs:[0xf8], 0",
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
    "movabs rax, 0x8000000000000001",
    "ret",
    // long rt_clone(flags, child stack, ptid, ctid, tls, new thread): the child never returns here.
    ".globl rt_clone",
    "rt_clone:",
    "push rbx",
    "mov rbx, r9",
    "mov r10, rcx",
    "mov eax, 56",
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
    "mov eax, 15",
    "syscall",
    ".bss",
    ".balign 16",
    ".skip 65536",
    "rt_boot_stack_top:",
    ".skip 64",
    ".balign 8",
    ".globl rt_heads",
    "rt_heads: .skip 8",
    ".text",
);

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

/// Where a signal handler must send the thread, if it interrupted one of the runtime's own sensitive places.
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

/// If the miss path was interrupted after it found its block, do the rest of it: afterwards the thread stands at the block's head.
pub fn finish_miss(t: &Thread, uc: &mut Ucontext) {
    // SAFETY: only addresses are taken.
    let within = unsafe { (address(&rt_miss_found)..address(&rt_miss_end)).contains(&uc.rip) };
    if !within {
        return;
    }
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
