//! A small allocator over regions of the runtime's own ([`crate::space`]), and copying to and from
//! the target's memory.
//!
//! Not to be used in a signal handler that interrupted the runtime itself: the lock might be held.
use crate::lock::{rank, Lock};
use crate::space;
use crate::sys;
use core::alloc::{GlobalAlloc, Layout};
use core::arch::global_asm;

const CHUNK: usize = 1 << 20;
const CLASSES: usize = 16; // 16 bytes to 512 KB

struct Heap {
    free: [u64; CLASSES],
    at: u64,
    end: u64,
}

struct Global(Lock<Heap, { rank::HEAP }>);

#[global_allocator]
static GLOBAL: Global = Global(Lock::new(Heap {
    free: [0; CLASSES],
    at: 0,
    end: 0,
}));

/// Nobody allocates while this lives.
pub fn hold() -> impl Drop {
    GLOBAL.0.lock()
}

fn class(layout: Layout) -> usize {
    let size = layout.size().max(layout.align()).max(16);
    (size.next_power_of_two().trailing_zeros() - 4) as usize
}

// SAFETY: blocks are disjoint, as large as their class, and aligned to it (chunks are page-aligned
// and a class's blocks are multiples of its power of two within the part of a chunk aligned for
// it).
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let c = class(layout);
        if c >= CLASSES {
            return space::region(layout.size(), sys::PROT_READ | sys::PROT_WRITE) as *mut u8;
        }
        let mut h = self.0.lock();
        if h.free[c] != 0 {
            let p = h.free[c] as *mut u64;
            // SAFETY: a free block's first word links to the next.
            h.free[c] = unsafe { *p };
            return p as *mut u8;
        }
        let size = 16u64 << c;
        let align = size.min(4096);
        let mut at = (h.at + align - 1) & !(align - 1);
        if h.at == 0 || at + size > h.end {
            at = space::region(CHUNK, sys::PROT_READ | sys::PROT_WRITE);
            h.end = at + CHUNK as u64;
        }
        h.at = at + size;
        at as *mut u8
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        let c = class(layout);
        if c >= CLASSES {
            return space::close(p as u64, layout.size());
        }
        let mut h = self.0.lock();
        // SAFETY: the block is ours again and at least 16 bytes long.
        unsafe { *(p as *mut u64) = h.free[c] };
        h.free[c] = p as u64;
    }
}

// What the compiler expects to find. In assembly, so that no loop in them is turned into a call of
// themselves. `guarded_word` and `guarded_copy` return 0, or 1 if a fault stopped them: the fault
// handler recognises their instructions.
global_asm!(
    ".globl memcpy, memmove, memset, memcmp, bcmp",
    ".globl guarded_word, guarded_copy, guarded_copy_end, guarded_copy_fault",
    "memcpy:",
    "mov rax, rdi",
    "cmp rdx, 16",
    "jb 3f",
    "cmp rdx, 512",
    "ja 5f",
    "movups xmm1, [rsi+rdx-16]",
    "lea rcx, [rdi+rdx-16]",
    "2: movups xmm0, [rsi]",
    "movups [rdi], xmm0",
    "add rsi, 16",
    "add rdi, 16",
    "cmp rdi, rcx",
    "jb 2b",
    "movups [rcx], xmm1",
    "ret",
    "3: cmp edx, 8",
    "jb 4f",
    "mov rcx, [rsi]",
    "mov r8, [rsi+rdx-8]",
    "mov [rdi], rcx",
    "mov [rdi+rdx-8], r8",
    "ret",
    "4: test edx, edx",
    "jz 7f",
    "cmp edx, 4",
    "jb 6f",
    "mov ecx, [rsi]",
    "mov r8d, [rsi+rdx-4]",
    "mov [rdi], ecx",
    "mov [rdi+rdx-4], r8d",
    "ret",
    // One to three bytes: first, middle, last.
    "6: mov r10d, edx",
    "shr r10d",
    "mov cl, [rsi]",
    "mov r9b, [rsi+r10]",
    "mov r8b, [rsi+rdx-1]",
    "mov [rdi], cl",
    "mov [rdi+r10], r9b",
    "mov [rdi+rdx-1], r8b",
    "ret",
    "5: mov rcx, rdx",
    "rep movsb",
    "7: ret",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    "2: lea rdi, [rdi+rdx-1]",
    "lea rsi, [rsi+rdx-1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    "bcmp:",
    "memcmp:",
    "xor eax, eax",
    "xor ecx, ecx",
    "2: cmp rcx, rdx",
    "je 3f",
    "movzx eax, byte ptr [rdi+rcx]",
    "movzx r8d, byte ptr [rsi+rcx]",
    "inc rcx",
    "sub eax, r8d",
    "je 2b",
    "3: ret",
    "guarded_word:",
    "mov rax, [rdi]",
    "mov [rsi], rax",
    "xor eax, eax",
    "ret",
    "guarded_copy:",
    "mov rcx, rdx",
    "rep movsb",
    "guarded_copy_end:",
    "xor eax, eax",
    "ret",
    "guarded_copy_fault:",
    "mov eax, 1",
    "ret",
);

extern "C" {
    fn guarded_word(from: *const u64, to: *mut u64) -> u32;
    fn guarded_copy(to: *mut u8, from: *const u8, n: usize) -> u32;
    static guarded_copy_end: u8;
    static guarded_copy_fault: u8;
}

/// Copy between our memory and the target's, which may not be there. False if it is not.
pub fn copy_in_target(to: u64, from: u64, n: usize) -> bool {
    // SAFETY: a fault inside is turned into a failure by the signal handler.
    unsafe { guarded_copy(to as *mut u8, from as *const u8, n) == 0 }
}

/// Read a word from the target's memory, faster than [`read_target`] does.
pub fn read_word(addr: u64) -> Option<u64> {
    let mut word = 0;
    // SAFETY: a fault inside is turned into a failure by the signal handler; the word is ours.
    (unsafe { guarded_word(addr as *const u64, &mut word) } == 0).then_some(word)
}

/// Read a value from the target's memory.
pub fn read_target<T: Copy>(addr: u64) -> Option<T> {
    let mut v = core::mem::MaybeUninit::<T>::uninit();
    if copy_in_target(v.as_mut_ptr() as u64, addr, core::mem::size_of::<T>()) {
        // SAFETY: every byte was copied; callers use plain-data types.
        Some(unsafe { v.assume_init() })
    } else {
        None
    }
}

pub fn write_target<T: Copy>(addr: u64, v: &T) -> bool {
    copy_in_target(addr, v as *const T as u64, core::mem::size_of::<T>())
}

/// If `pc` lies in one of the guarded functions, where to go on after a fault there.
pub fn fault_landing(pc: u64) -> Option<u64> {
    // SAFETY: only addresses are taken.
    let (start, end, landing) = unsafe {
        (
            guarded_word as *const () as u64,
            &guarded_copy_end as *const u8 as u64,
            &guarded_copy_fault as *const u8 as u64,
        )
    };
    (start..end).contains(&pc).then_some(landing)
}
