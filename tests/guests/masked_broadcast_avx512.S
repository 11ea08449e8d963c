# Embedded and explicit broadcasts: unmasked, masked with some lanes, masked with none in range.
# guest: build=asm needs=avx512f,avx512vl,avx512bw,avx512dq
#include "guest.inc"
_start:
    mov ebx, offset cells
    mov eax, 0x10
    kmovq k1, rax
    kxorq k2, k2, k2
    vpxord zmm0, zmm0, zmm0
    vpaddd zmm1, zmm0, dword ptr [rbx]{1to16}
    vpaddd zmm1{k1}, zmm0, dword ptr [rbx + 4]{1to16}
    vpaddd zmm1{k2}, zmm0, dword ptr [rbx + 8]{1to16}
    vpaddd xmm2{k1}, xmm0, dword ptr [rbx + 12]{1to4}
    vpaddq zmm3{k1}{z}, zmm0, qword ptr [rbx + 16]{1to8}
    vpaddq ymm3{k1}{z}, ymm0, qword ptr [rbx + 16]{1to4}
    vcvtps2pd zmm4{k1}{z}, dword ptr [rbx + 4]{1to8}
    vcvtpd2ps ymm5{k1}{z}, qword ptr [rbx + 4]{1to8}
    vcmpps k3{k1}, zmm0, dword ptr [rbx]{1to16}, 0
    vfpclasspd k4{k1}, qword ptr [rbx]{1to8}, 1
    vbroadcastss zmm6, [rbx]
    vbroadcastss zmm6{k1}, [rbx + 20]
    vbroadcastss xmm6{k1}, [rbx + 24]
    vbroadcastsd zmm7{k1}{z}, [rbx + 24]
    vpbroadcastb zmm8{k1}{z}, byte ptr [rbx + 1]
    vpbroadcastw zmm8{k1}{z}, word ptr [rbx + 2]
    vpbroadcastd zmm8{k2}{z}, dword ptr [rbx + 3]
    vpbroadcastq zmm8{k1}{z}, qword ptr [rbx + 4]
    vbroadcasti32x4 zmm9, [rbx]
    vbroadcasti32x4 zmm9{k2}, [rbx]
    vbroadcastf64x4 zmm10, [rbx]
    vpaddd zmm1, zmm1, zmm3
    vpaddd zmm1, zmm1, zmm8
    vpaddd zmm1, zmm1, zmm9
    vmovdqu64 [cells], zmm1
    xor r12d, r12d
    mov ecx, 8
1:  MIX [cells + rcx*8 - 8]
    loop 1b
    mov rax, r12
    FINISH
.data
.balign 64
cells: .rept 128
    .byte ((. - cells) * 11) & 127
    .endr
