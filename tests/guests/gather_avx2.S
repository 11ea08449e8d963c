# AVX2 gathers: dword and qword indices, both element sizes, partial masks, negative indices.
# guest: build=asm needs=avx2
#include "guest.inc"
_start:
    mov ebx, offset middle
    vmovdqu ymm1, [indices]
    vmovdqu ymm2, [wide]
    vmovdqu ymm3, [mask]
    vpgatherdd ymm0, [rbx + ymm1*4], ymm3
    vmovq r12, xmm0
    vmovdqu xmm3, [mask]
    vpgatherdd xmm4, [rbx + xmm1*8 - 4], xmm3
    vmovdqu ymm3, [mask + 32]
    vpgatherdq ymm5, [rbx + xmm1*8], ymm3
    vmovdqu ymm3, [mask + 32]
    vpgatherqq ymm6, [rbx + ymm2], ymm3
    vmovdqu xmm3, [mask]
    vpgatherqd xmm7, [rbx + ymm2*2], xmm3
    vmovdqu xmm3, [mask]
    vpgatherqd xmm7, [rbx + xmm2*2], xmm3
    vmovdqu xmm3, [mask + 32]
    vgatherqpd xmm8, [rbx + xmm2*1], xmm3
    vpcmpeqd ymm3, ymm3, ymm3
    vgatherdps ymm9, [ymm1*4 + middle], ymm3
    vpxor ymm3, ymm3, ymm3
    vgatherdpd ymm10, [rbx + xmm1*8], ymm3
    vpaddq ymm0, ymm5, ymm6
    vpxor ymm0, ymm0, ymm9
    vmovq rax, xmm0
    MIX rax
    vextracti128 xmm0, ymm0, 1
    vmovq rax, xmm0
    MIX rax
    vmovq rax, xmm7
    MIX rax
    mov rax, r12
    FINISH
.data
.balign 64
indices: .long 1, -2, 3, 7, -5, 0, 2, -1
wide: .quad 8, -16, 24, 3
mask: .long -1, 0, 0x80000000, 0x7fffffff, -1, -1, 0, -1
      .quad -1, 0, 0x8000000000000000, -1
below: .rept 64
    .byte (. - below) & 255
    .endr
middle: .rept 128
    .byte 255 - (. - middle)
    .endr
