# Masked shuffles, packs and permutes: they mask their result only, the memory source is read whole.
# guest: build=asm needs=avx512f,avx512vl,avx512bw
#include "guest.inc"
_start:
    mov ebx, offset cells
    vmovdqu64 zmm1, [rbx]
    mov eax, 0x5a69
    kmovq k1, rax
    vpshufb zmm2{k1}{z}, zmm1, [rbx]
    vpermd zmm3{k1}{z}, zmm1, [rbx]
    vpunpckldq zmm4{k1}{z}, zmm1, [rbx]
    vpslld zmm5{k1}{z}, zmm1, [counts]
    vshufps zmm6{k1}{z}, zmm1, [rbx], 0x1b
    vpackssdw zmm7{k1}{z}, zmm1, [rbx]
    vmovddup zmm8{k1}{z}, [rbx]
    vinserti32x4 zmm9{k1}{z}, zmm1, [rbx + 16], 2
    vpaddd zmm2, zmm2, zmm3
    vpaddd zmm2, zmm2, zmm5
    vpaddd zmm2, zmm2, zmm9
    vmovdqu64 [rbx], zmm2
    xor r12d, r12d
    mov ecx, 8
1:  MIX [cells + rcx*8 - 8]
    loop 1b
    mov rax, r12
    FINISH
.data
.balign 64
cells: .rept 128
    .byte ((. - cells) * 3) & 127
    .endr
counts: .quad 3, 0
