# Loops with cmov from memory (counted when false too), with a conditional pointer, and with branches inside.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, offset cells
    xor ecx, ecx
    xor eax, eax
1:  cmp rax, [rbx + rcx*8]
    cmovb rax, [rbx + rcx*8]
    cmova rdx, [rbx + rcx*8 + 8]
    inc rcx
    cmp rcx, 20
    jne 1b
    MIX rax
    mov esi, offset cells
    mov edi, offset cells + 80
    mov ecx, 12
2:  mov rax, [rsi]
    lea r8, [rsi + 8]
    cmp rax, [rdi]
    cmovbe rsi, r8
    lea r8, [rdi + 8]
    cmova rdi, r8
    add r12, rax
    dec ecx
    jnz 2b
    xor ecx, ecx
3:  test byte ptr [rbx + rcx*8], 16
    jz 4f
    add r12, [rbx + rcx*8]
    jmp 5f
4:  inc qword ptr [rbx + rcx*8]
5:  inc ecx
    cmp ecx, 24
    jne 3b
    mov rax, r12
    FINISH
.data
cells: .rept 32
    .quad ((. - cells) * 37) & 255
    .endr
