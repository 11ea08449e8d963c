# rip-relative operands in every kind of instruction, with immediates behind the displacement.
# guest: build=asm needs=avx512f
#include "guest.inc"
_start:
    xor r12d, r12d
    mov rax, [rip + cells]
    add byte ptr [rip + cells], 7
    add word ptr [rip + cells + 2], 0x1234
    add dword ptr [rip + cells + 4], 0x12345678
    cmp qword ptr [rip + cells], 0x1234567
    mov qword ptr [rip + cells + 8], -5
    push qword ptr [rip + cells]
    pop qword ptr [rip + cells + 16]
    call [rip + pointer]
    bts dword ptr [rip + cells], 3
    shl qword ptr [rip + cells], 2
    imul rax, [rip + cells], 77
    lock xadd [rip + cells + 24], rax
    xchg r15, [rip + cells + 24]
    mov r15b, [rip + cells + 1]
    movdqu xmm0, [rip + cells]
    pshufd xmm1, [rip + cells], 0x1b
    vpaddd zmm2, zmm0, [rip + cells]
    vpaddd zmm2, zmm0, dword ptr [rip + cells]{1to16}
    vpternlogd zmm2, zmm0, [rip + cells], 0x55
    fld qword ptr [rip + cells]
    fstp qword ptr [rip + cells + 32]
    prefetcht0 [rip + cells]
    lea rsi, [rip + cells]
    cmovz rdi, [rip + cells]
    setnz [rip + cells + 40]
    MIX rax
    MIX r15
    MIX [rip + cells + 16]
    jmp [rip + onward]
    hlt
landed:
    mov rax, r12
    FINISH
callee:
    MIX [rip + cells + 8]
    ret
.data
.balign 64
cells: .quad 0x0102030405060708, 2, 3, 4, 5, 6, 7, 8
pointer: .quad callee
onward: .quad landed
