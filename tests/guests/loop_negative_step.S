# Loops that walk downwards, by register steps, and with a pointer stepped twice an iteration.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, offset cells
    mov ecx, 60
1:  add r12, [rbx + rcx*8]
    sub rcx, 2
    jns 1b
    mov esi, offset cells + 480
2:  mov rax, [rsi]
    add rsi, -8
    add [rsi], rax
    sub rsi, 8
    cmp rsi, offset cells + 16
    ja 2b
    mov r8, -24
    mov esi, offset cells + 504
    mov ecx, 20
3:  add r12, [rsi]
    add rsi, r8
    dec ecx
    jnz 3b
    mov ecx, 10
4:  push rcx
    dec ecx
    jnz 4b
    mov ecx, 10
5:  pop rax
    MIX rax
    loop 5b
    mov rax, r12
    FINISH
.data
cells: .rept 64
    .quad (. - cells) * 3
    .endr
