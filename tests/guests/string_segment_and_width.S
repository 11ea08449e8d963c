# String instructions with a segment base on the source, and with 32-bit pointers and counter.
# guest: build=asm
#include "guest.inc"
_start:
    cld
    mov eax, 158
    mov edi, 0x1002          # ARCH_SET_FS
    mov esi, offset window
    syscall
    mov esi, 16
    mov edi, offset target
    mov ecx, 5
    rep movs byte ptr [rdi], byte ptr fs:[rsi]
    lods qword ptr fs:[rsi]
    mov r12, rax
    mov rcx, 0xffffffff00000004
    movabs rsi, offset window + 0x7700000000
    movabs rdi, offset target + 0x6600000000
    addr32 rep movsd
    MIX rcx
    MIX rsi
    MIX rdi
    movabs rdi, offset target + 0x6600000000
    addr32 stosq
    MIX rdi
    mov rcx, 0xffffffff00000000
    addr32 rep stosb
    MIX rcx
    mov rax, r12
    FINISH
.data
window: .rept 64
    .byte (0x11 + (. - window) * 3) & 255
    .endr
target: .skip 128
