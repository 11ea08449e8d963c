# Every prefetch is marked, lines flushed or only named are no accesses, clzero is a write of a line.
# guest: build=asm needs=clzero,clflushopt,clwb,3dnowprefetch
#include "guest.inc"
_start:
    mov ebx, offset cells
    xor ecx, ecx
    prefetcht0 [rbx]
    prefetcht1 [rbx + 64]
    prefetcht2 [rbx + rcx*8 + 3]
    prefetchnta [0]
    prefetchw [rbx + 7]
    prefetch [rbx + 9]
    clflush [rbx]
    clflushopt [rbx]
    clwb [rbx]
    nop dword ptr [rbx + 5]
    lea rax, [rbx + 5]
    lea rax, [rbx + 70]
    clzero
    mov r12, [rbx + 64]
    MIX [rbx]
    mov r15d, 4
1:  prefetcht0 [rbx + r15*8 + 64]
    add r12, [rbx + r15*8]
    dec r15
    jnz 1b
    mov rax, r12
    FINISH
.data
.balign 64
cells: .rept 32
    .quad . - cells + 1
    .endr
