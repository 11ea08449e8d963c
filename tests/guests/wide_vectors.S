# Unmasked SSE, AVX and AVX-512 loads, stores and operands of 4 to 64 bytes; non-temporal ones too.
# guest: build=asm needs=avx512f,avx512vl,avx512bw
#include "guest.inc"
_start:
    mov ebx, offset cells
    movss xmm0, [rbx]
    movsd xmm1, [rbx + 8]
    movaps xmm2, [rbx]
    movups xmm3, [rbx + 1]
    movlps xmm2, [rbx + 8]
    movhps xmm2, [rbx + 16]
    movhps [rbx + 64], xmm2
    movlpd [rbx + 72], xmm2
    movss [rbx + 80], xmm0
    movsd [rbx + 88], xmm1
    movd xmm4, [rbx]
    movq xmm5, [rbx + 8]
    movq [rbx + 96], xmm5
    paddd xmm3, [rbx + 16]
    pinsrb xmm3, [rbx + 5], 3
    pinsrw xmm3, [rbx + 6], 3
    pextrb [rbx + 100], xmm3, 2
    pextrd [rbx + 104], xmm3, 1
    extractps [rbx + 108], xmm3, 2
    movntdq [rbx + 112], xmm3
    movnti [rbx + 128], rax
    movntdqa xmm6, [rbx]
    lddqu xmm7, [rbx + 3]
    movddup xmm7, [rbx]
    cvtsi2sd xmm0, dword ptr [rbx]
    cvtsi2sd xmm0, qword ptr [rbx]
    cvtss2sd xmm0, [rbx]
    cvtpi2pd xmm0, [rbx]
    pmovzxbw xmm1, [rbx]
    ucomisd xmm0, [rbx]
    vmovups ymm8, [rbx + 5]
    vmovaps [rbx + 128], ymm8
    vaddps ymm9, ymm8, [rbx]
    vbroadcastss ymm10, [rbx + 4]
    vbroadcastf128 ymm10, [rbx + 4]
    vinsertf128 ymm10, ymm10, [rbx], 1
    vextractf128 [rbx + 160], ymm8, 1
    vmovntps [rbx + 128], ymm8
    vmovdqu64 zmm11, [rbx + 7]
    vpaddd zmm12, zmm11, [rbx]
    vmovdqa64 [rbx + 192], zmm12
    vmovntdq [rbx + 192], zmm12
    vmovdqu8 [rbx + 131], zmm12
    vcvtdq2pd zmm13, [rbx]
    vpmovzxbq zmm14, [rbx]
    vmovups [rbx + 60], xmm31
    xor r12d, r12d
    mov ecx, 32
1:  MIX [cells + rcx*8 - 8]
    loop 1b
    vzeroupper
    mov rax, r12
    FINISH
.data
.balign 64
cells: .rept 256
    .byte ((. - cells) * 9) & 63
    .endr
