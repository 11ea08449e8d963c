# Compressing stores and expanding loads: as many consecutive elements as the mask has bits.
# guest: build=asm needs=avx512f,avx512vl,avx512_vbmi2
#include "guest.inc"
_start:
    mov ebx, offset cells
    vmovdqu64 zmm1, [rbx]
    mov rax, 0x8000f00000ff5a69
    kmovq k1, rax
    kxorq k2, k2, k2
    vpcompressd [rbx + 64]{k1}, zmm1
    vpcompressq [rbx + 64]{k1}, zmm1
    vpcompressb [rbx + 65]{k1}, zmm1
    vpcompressw [rbx + 67]{k1}, ymm1
    vcompressps [rbx + 68]{k1}, xmm1
    vcompresspd [rbx + 72]{k2}, zmm1
    vpexpandd zmm2{k1}{z}, [rbx + 64]
    vpexpandq zmm3{k1}{z}, [rbx + 3]
    vpexpandb zmm4{k1}, [rbx + 5]
    vpexpandw zmm5{k1}{z}, [rbx + 7]
    vexpandps ymm6{k1}{z}, [rbx]
    vexpandpd ymm7{k2}{z}, [rbx]
    vpaddd zmm2, zmm2, zmm3
    vpaddd zmm2, zmm2, zmm4
    vpaddd zmm2, zmm2, zmm5
    vmovdqu64 [rbx], zmm2
    xor r12d, r12d
    mov ecx, 16
1:  MIX [cells + rcx*8 - 8]
    loop 1b
    mov rax, r12
    FINISH
.data
.balign 64
cells: .rept 256
    .byte ((. - cells) * 13) & 127
    .endr
