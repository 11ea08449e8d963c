# Affine self-loops with several strides, induction registers and step instructions.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, offset cells
    xor ecx, ecx
1:  add r12, [rbx + rcx*8]
    inc rcx
    cmp rcx, 50
    jne 1b
    mov esi, offset cells
    mov edi, offset cells + 512
2:  mov rax, [rsi]
    mov [rdi], rax
    mov [rdi + 8], eax
    add rsi, 8
    add rdi, 24
    cmp rsi, offset cells + 160
    jb 2b
    mov edx, 0
3:  add r12d, [rbx + rdx]
    add byte ptr [rbx + rdx + 3], 2
    lea rdx, [rdx + 40]
    cmp rdx, 1000
    jb 3b
    mov r15d, 17
    mov r8d, offset cells
4:  movdqu xmm0, [r8]
    movdqu [r8 + 32], xmm0
    add r8, 16
    sub r15, 1
    jnz 4b
    xor ecx, ecx
5:  add r12, [rbx + rcx*8]
    add r12, [rbx + rcx*4 + 1]
    add rcx, 3
    cmp rcx, 90
    jl 5b
    mov rax, r12
    FINISH
.data
.balign 64
cells: .rept 256
    .quad . - cells
    .endr
