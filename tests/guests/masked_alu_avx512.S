# Arithmetic, conversions and compares with masked memory sources: one access per active element.
# guest: build=asm needs=avx512f,avx512vl,avx512bw,avx512dq,avx512_vnni
#include "guest.inc"
_start:
    mov ebx, offset cells
    mov eax, 0x5a69
    kmovq k1, rax
    kxorq k2, k2, k2
    vpxord zmm0, zmm0, zmm0
    vpaddd zmm1{k1}, zmm0, [rbx]
    vpaddd zmm1{k2}, zmm0, [rbx]
    vpaddq zmm2{k1}{z}, zmm1, [rbx + 64]
    vpaddb zmm3{k1}, zmm1, [rbx]
    vpaddw ymm4{k1}{z}, ymm1, [rbx + 3]
    vaddps zmm5{k1}{z}, zmm0, [rbx]
    vaddpd xmm6{k1}{z}, xmm0, [rbx]
    vpcmpeqd k3{k1}, zmm0, [rbx]
    vptestmd k4{k1}, zmm1, [rbx]
    vpternlogd zmm3{k1}, zmm1, [rbx + 64], 0x96
    vpslld zmm7{k1}{z}, [rbx], 3
    vcvtdq2pd zmm8{k1}{z}, [rbx]
    vcvtps2pd zmm9{k1}{z}, [rbx]
    vcvtpd2ps ymm10{k1}{z}, [rbx]
    vpmovzxbd zmm11{k1}{z}, [rbx]
    vpmovsxwq zmm12{k1}{z}, [rbx]
    vpblendmd zmm13{k1}, zmm1, [rbx]
    vpdpbusd zmm14{k1}, zmm1, [rbx]
    vpabsq zmm15{k1}, [rbx]
    vfmadd231ps zmm16{k1}, zmm1, [rbx]
    vfpclassps k5{k1}, zmmword ptr [rbx], 0x81
    vpmaxuq ymm17{k1}{z}, ymm2, [rbx]
    kmovq r12, k3
    vpaddd zmm1, zmm1, zmm2
    vpaddd zmm1, zmm1, zmm3
    vpaddd zmm1, zmm1, zmm11
    vpaddd zmm1, zmm1, zmm14
    vmovdqu64 [cells], zmm1
    mov ecx, 8
1:  MIX [cells + rcx*8 - 8]
    loop 1b
    mov rax, r12
    FINISH
.data
.balign 64
cells: .rept 256
    .byte ((. - cells) * 5) & 127
    .endr
