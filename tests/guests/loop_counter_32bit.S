# Loops over 32-bit induction registers: zero extension, wrap-around, sign extension into an index.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, offset cells
    mov ecx, 0
1:  add r12b, [rbx + rcx]
    add ecx, 1
    cmp ecx, 40
    jne 1b
    mov ecx, -20
2:  movsxd rax, ecx
    add r12, [rbx + rax*8 + 160]
    inc ecx
    jnz 2b
    mov ecx, 0xfffffffc
    mov rdx, offset cells + 64
3:  mov eax, ecx
    lea rsi, [rdx + rax]
    mov esi, esi
    add r12b, [rsi]
    add ecx, 1
    cmp ecx, 4
    jne 3b
    mov edx, 5
4:  movzx eax, dx
    add r12, [rbx + rax*8]
    dec dx
    jns 4b
    mov al, 250
5:  movzx ecx, al
    add r12b, [rbx + rcx]
    inc al
    jnz 5b
    mov rax, r12
    FINISH
.data
cells: .rept 64
    .quad (. - cells) * 0x10101
    .endr
