# movs, stos and lods of every size, single and repeated, with a zero count among them.
# guest: build=asm
#include "guest.inc"
_start:
    cld
    xor r12d, r12d
    mov esi, offset source
    mov edi, offset target
    movsb
    movsw
    movsd
    movsq
    mov ecx, 13
    rep movsb
    mov ecx, 7
    rep movsw
    mov ecx, 5
    rep movsd
    mov ecx, 4
    rep movsq
    MIX rsi
    MIX rdi
    xor ecx, ecx
    rep movsb
    MIX rcx
    mov rax, 0x1122334455667788
    mov edi, offset target + 3
    stosb
    stosw
    stosd
    stosq
    mov ecx, 9
    rep stosb
    mov ecx, 6
    rep stosw
    mov ecx, 3
    rep stosd
    mov ecx, 2
    rep stosq
    mov esi, offset target
    lodsb
    MIX rax
    lodsw
    MIX rax
    lodsd
    MIX rax
    lodsq
    MIX rax
    mov ecx, 11
    rep lodsb
    MIX rax
    mov ecx, 3
    rep lodsw
    mov ecx, 3
    rep lodsd
    mov ecx, 3
    rep lodsq
    MIX rax
    mov rax, r12
    FINISH
.data
source: .rept 32
    .quad 0x0123456789abcdef
    .endr
target: .skip 512
