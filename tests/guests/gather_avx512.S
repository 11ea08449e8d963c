# AVX-512 gathers with opmasks over all index and element widths.
# guest: build=asm needs=avx512f,avx512vl
#include "guest.inc"
_start:
    mov ebx, offset middle
    vmovdqu32 zmm17, [indices]
    vmovdqu64 zmm18, [wide]
    mov eax, 0xa5c3
    kmovw k1, eax
    vpgatherdd zmm0{k1}, [rbx + zmm17*4]
    kmovw k1, eax
    vpgatherdq zmm1{k1}, [rbx + ymm17*8]
    kmovw k2, eax
    vpgatherqq zmm2{k2}, [rbx + zmm18*1 + 64]
    kmovw k3, eax
    vpgatherqd ymm3{k3}, [rbx + zmm18*2]
    kmovw k1, eax
    vgatherdps ymm4{k1}, [rbx + ymm17*4]
    kmovw k1, eax
    vgatherqpd xmm5{k1}, [rbx + xmm18*1]
    kxnorw k1, k1, k1
    vgatherdpd zmm6{k1}, [rbx + ymm17*8]
    kxorw k1, k1, k1
    vgatherdps zmm7{k1}, [rbx + zmm17*4]
    kmovw r12d, k2
    vpaddd zmm0, zmm0, zmm1
    vpaddd zmm0, zmm0, zmm2
    vpaddd zmm0, zmm0, zmm6
    vmovdqu64 [result], zmm0
    mov ecx, 8
1:  MIX [result + rcx*8 - 8]
    loop 1b
    mov rax, r12
    FINISH
.data
.balign 64
indices: .long 1, -2, 3, 7, -5, 0, 2, -1, 4, 5, 6, -7, 8, 9, -9, 10
wide: .quad 8, -16, 24, 3, 40, -1, 0, 16
below: .rept 128
    .byte (. - below) & 255
    .endr
middle: .rept 256
    .byte 255 - (. - middle)
    .endr
result: .skip 64
