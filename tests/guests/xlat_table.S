# xlat: a byte load from rbx plus al, also with 32-bit address and with a segment base.
# guest: build=asm
#include "guest.inc"
_start:
    mov eax, 158
    mov edi, 0x1002
    mov esi, offset table
    syscall
    mov rbx, offset table
    mov eax, 0xabcd0013
    xlatb
    mov r12, rax
    movabs rbx, offset table + 0x5500000000
    mov eax, 0x80
    addr32 xlatb
    MIX rax
    mov ebx, 16
    mov eax, 5
    xlat byte ptr fs:[rbx]
    MIX rax
    mov rax, r12
    FINISH
.data
table: .rept 256
    .byte 255 - (. - table)
    .endr
