# Nested loops: rectangular, triangular, and a matrix product.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    xor r8d, r8d
1:  xor ecx, ecx
2:  mov rax, [cells + r8*8]
    add [cells + rcx*8 + 64], rax
    inc ecx
    cmp ecx, r8d
    jbe 2b
    inc r8d
    cmp r8d, 8
    jne 1b
    xor r8d, r8d
3:  xor r9d, r9d
4:  xor r10d, r10d
    xor eax, eax
5:  lea rdx, [r8*8 + r10]
    mov rsi, [left + rdx*8]
    lea rdx, [r10*8 + r9]
    imul rsi, [right + rdx*8]
    add rax, rsi
    inc r10d
    cmp r10d, 8
    jne 5b
    lea rdx, [r8*8 + r9]
    mov [product + rdx*8], rax
    inc r9d
    cmp r9d, 8
    jne 4b
    inc r8d
    cmp r8d, 8
    jne 3b
    mov ecx, 64
6:  MIX [product + rcx*8 - 8]
    loop 6b
    MIX [cells + 64]
    mov rax, r12
    FINISH
.data
cells: .rept 32
    .quad . - cells
    .endr
left: .rept 64
    .quad (. - left) ^ 0x55
    .endr
right: .rept 64
    .quad (. - right) + 3
    .endr
product: .skip 512
