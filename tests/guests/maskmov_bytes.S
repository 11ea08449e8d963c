# maskmovdqu, vmaskmovdqu and maskmovq: a byte store for each mask byte with its top bit set.
# guest: build=asm needs=avx
#include "guest.inc"
_start:
    mov edi, offset cells
    movdqu xmm1, [mask]
    movdqu xmm2, [mask + 16]
    maskmovdqu xmm2, xmm1
    add edi, 17
    vmaskmovdqu xmm2, xmm1
    add edi, 17
    fninit
    fld1
    fstp st(0)
    movq mm1, [mask]
    movq mm2, [mask + 16]
    maskmovq mm2, mm1
    emms
    movabs rdi, offset cells + 0x4400000000
    addr32 maskmovdqu xmm2, xmm1
    xor r12d, r12d
    mov ecx, 8
1:  MIX [cells + rcx*8 - 8]
    loop 1b
    mov rax, r12
    FINISH
.data
mask: .quad 0x80ff7f0081017f80, 0x8000000000000080
      .quad 0x1122334455667788, 0x99aabbccddeeff00
cells: .skip 64
