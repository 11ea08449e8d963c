# Redundant prefixes, absolute 64-bit offsets, long nops, hinted and notrack branches, rep ret.
# guest: build=asm
#include "guest.inc"
_start:
    endbr64
    xor r12d, r12d
    movabs rax, [cells]
    MIX rax
    movabs eax, [cells + 4]
    movabs [cells + 8], rax
    movabs al, [cells + 3]
    movabs [cells + 17], ax
    MIX rax
    ds mov rax, [cells]
    .byte 0x2e, 0x3e, 0x36, 0x48, 0x8b, 0x04, 0x25   # three dead segment prefixes
    .long cells + 8
    MIX rax
    .byte 0x40, 0x48, 0x8b, 0x04, 0x25               # a rex overridden by a second one
    .long cells + 16
    MIX rax
    .byte 0x66, 0x66, 0x90
    .byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
    .byte 0xf2
    call 1f
    .byte 0x2e                                       # branch hint
    jz 2f
2:  mov edx, offset 3f
    .byte 0x3e                                       # notrack
    jmp rdx
    hlt
3:  .byte 0xf3, 0x48, 0x8b, 0x04, 0x25               # rep on a plain load
    .long cells + 24
    MIX rax
    .byte 0x48, 0x8d, 0x04, 0x25                     # lea rax, [abs]
    .long cells
    MIX rax
    xor ebx, ebx
    mov rax, [rbx*1 + cells]
    mov rax, [rsp + 0]
    .byte 0x48, 0x8b, 0x04, 0x24                     # [rsp] through a scale of one
    .byte 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00
    xchg rax, rax
    .byte 0x48, 0x87, 0xc0
    MIX [cells + 16]
    mov rax, r12
    FINISH
1:  .byte 0xf3, 0xc3
.data
cells: .quad 0x1122334455667788, 2, 3, 4, 5
