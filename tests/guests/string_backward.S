# String instructions with the direction flag set, single and repeated.
# guest: build=asm
#include "guest.inc"
_start:
    std
    mov esi, offset source + 128
    mov edi, offset target + 192
    movsb
    movsq
    mov ecx, 9
    rep movsb
    mov ecx, 5
    rep movsd
    mov ecx, 3
    rep movsq
    mov eax, 0x5a5a
    mov ecx, 4
    rep stosw
    mov ecx, 3
    rep lodsw
    mov r12, rax
    mov esi, offset source + 64
    mov edi, offset source + 72
    mov ecx, 5
    repe cmpsd
    MIX rcx
    mov ecx, 20
    mov al, 3
    mov edi, offset source + 100
    repne scasb
    MIX rcx
    MIX rdi
    cld
    mov rax, r12
    FINISH
.data
source: .rept 256
    .byte ((. - source) * 7) & 255
    .endr
target: .skip 256
