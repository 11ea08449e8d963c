# Loops over byte strings that end at a terminator, at a mismatch, or in the middle of the body.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov esi, offset text
1:  movzx eax, byte ptr [rsi]
    add rsi, 1
    MIX rax
    test al, al
    jnz 1b
    mov esi, offset text
    mov edi, offset other
2:  mov al, [rsi]
    cmp al, [rdi]
    jne 3f
    inc rsi
    inc rdi
    test al, al
    jnz 2b
3:  MIX rsi
    mov ecx, 30
4:  mov al, [text + rcx]
    cmp al, 'q'
    je 5f
    mov [copy + rcx], al
    dec rcx
    jns 4b
5:  MIX rcx
    mov rax, -1
6:  inc rax
    cmp byte ptr [text + rax], 0
    jne 6b
    MIX rax
    MIX [copy + 24]
    mov rax, r12
    FINISH
.data
text: .asciz "the quick brown fox jumps over"
other: .asciz "the quick brown cat"
copy: .skip 64
