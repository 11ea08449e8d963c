# vmaskmovps/pd and vpmaskmovd/q, loads and stores, in both widths.
# guest: build=asm needs=avx2
#include "guest.inc"
_start:
    mov ebx, offset cells
    vmovdqu ymm1, [mask]
    vmaskmovps ymm2, ymm1, [rbx]
    vmaskmovpd ymm3, ymm1, [rbx + 3]
    vpmaskmovd xmm4, xmm1, [rbx + 16]
    vpmaskmovq ymm5, ymm1, [rbx + 32]
    vmaskmovps [rbx + 64], ymm1, ymm2
    vmaskmovpd [rbx + 96], xmm1, xmm3
    vpmaskmovd [rbx + 64], ymm1, ymm5
    vpmaskmovq [rbx + 72], xmm1, xmm5
    vpxor xmm1, xmm1, xmm1
    vpmaskmovd ymm6, ymm1, [0]
    vpmaskmovd [0], ymm1, ymm6
    xor r12d, r12d
    mov ecx, 16
1:  MIX [cells + rcx*8 - 8]
    loop 1b
    mov rax, r12
    FINISH
.data
mask: .long -1, 0x80000000, 0, 0x7fffffff, 0, 0xf0000000, 0x80000000, 1
cells: .rept 128
    .byte . - cells
    .endr
