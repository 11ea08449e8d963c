# Loops whose moving register holds something else in mid-iteration, left there by a branch: it cannot count.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov edx, offset text
    mov esi, offset copy
    movzx eax, byte ptr [rdx]
# rdx moves by 1 each time, but at the first branch it is the character; rsi can count.
1:  mov [rsi], al
    lea rcx, [rdx + 1]
    movzx edx, byte ptr [rdx + 1]
    add rsi, 1
    test dl, dl
    je 2f
    mov eax, edx
    mov rdx, rcx
    cmp al, '!'
    jne 1b
2:  MIX rsi
    mov edx, offset text
# Here nothing else can.
3:  lea rcx, [rdx + 1]
    movzx edx, byte ptr [rdx + 1]
    test dl, dl
    je 4f
    mov eax, edx
    mov rdx, rcx
    cmp al, '!'
    jne 3b
4:  MIX rcx
    mov edx, offset text
5:  lea rcx, [rdx + 1]
    movzx edx, byte ptr [rdx + 1]
    test dl, dl
    je 6f
    mov eax, edx
    mov rdx, rcx
    cmp al, 'q'
    jne 5b
6:  MIX rcx
    mov rax, r12
    FINISH
.data
text: .asciz "the quick brown fox jumps over"
copy: .skip 64
