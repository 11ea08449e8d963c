# Thousands of instructions without a branch, over several pages of code.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, offset cells
    mov r13d, 2
again:
.set i, 0
.rept 400
    mov rax, [rbx + (i & 63) * 8]
    add r12, rax
    mov [rbx + ((i * 7) & 63) * 8], r12
    push rax
    rol r12, 5
    pop rcx
    .set i, i + 1
.endr
    dec r13d
    jnz again
    mov rax, r12
    FINISH
.data
cells: .rept 64
    .quad . - cells
    .endr
