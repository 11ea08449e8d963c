# Down-converting and extracting stores, masked and not, and masked scalar moves.
# guest: build=asm needs=avx512f,avx512vl,avx512bw,avx512dq
#include "guest.inc"
_start:
    mov ebx, offset cells
    vmovdqu64 zmm1, [rbx]
    mov eax, 0x5a69
    kmovq k1, rax
    mov eax, 0x5a68
    kmovq k2, rax
    vpmovdb [rbx + 64], zmm1
    vpmovdb [rbx + 80]{k1}, zmm1
    vpmovqd [rbx + 96]{k1}, zmm1
    vpmovqb [rbx + 100]{k1}, zmm1
    vpmovwb [rbx + 104]{k1}, ymm1
    vpmovsqw [rbx + 130]{k2}, zmm1
    vpmovusdw [rbx + 150]{k1}, xmm1
    vcvtps2ph [rbx + 160]{k1}, zmm1, 0
    vextracti32x4 [rbx + 192], zmm1, 2
    vextracti64x4 [rbx + 192], zmm1, 1
    vmovss [rbx + 4]{k1}, xmm1
    vmovss [rbx + 4]{k2}, xmm1
    vmovsd [rbx + 8]{k1}, xmm1
    vmovss xmm2{k1}{z}, [rbx + 12]
    vmovss xmm2{k2}{z}, [rbx + 12]
    vmovsd xmm3{k2}{z}, [rbx + 16]
    vaddss xmm4{k1}{z}, xmm2, [rbx + 20]
    vaddsd xmm4{k2}{z}, xmm2, [rbx + 24]
    kmovw [rbx + 32], k1
    kmovq k3, [rbx + 40]
    kmovb [rbx + 33], k3
    kmovd k4, [rbx + 48]
    kmovq r12, k3
    mov ecx, 28
1:  MIX [cells + rcx*8 - 8]
    loop 1b
    mov rax, r12
    FINISH
.data
.balign 64
cells: .rept 256
    .byte ((. - cells) * 3) & 127
    .endr
