# AVX-512 scatters with opmasks, overlapping lanes included.
# guest: build=asm needs=avx512f,avx512vl
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, offset middle
    vmovdqu32 zmm17, [indices]
    vmovdqu64 zmm18, [wide]
    mov eax, 0xa5c3
    kmovw k1, eax
    vpscatterdd [rbx + zmm17*4]{k1}, zmm17
    kmovw k1, eax
    vpscatterdq [rbx + ymm17*8]{k1}, zmm18
    kmovw k2, eax
    vpscatterqq [rbx + zmm18*1 + 64]{k2}, zmm18
    kmovw k3, eax
    vpscatterqd [rbx + zmm18*2]{k3}, ymm17
    kmovw k1, eax
    vscatterdps [rbx + xmm17*4]{k1}, xmm17
    kxnorw k1, k1, k1
    vscatterdpd [rbx + ymm17*8]{k1}, zmm17
    kxorw k1, k1, k1
    vscatterqps [rbx + ymm18*4]{k1}, xmm17
    mov ecx, 48
1:  MIX [below + rcx*8 - 8]
    loop 1b
    mov rax, r12
    FINISH
.data
.balign 64
indices: .long 1, -2, 3, 7, -5, 0, 2, -1, 4, 4, 6, -7, 8, 9, -9, 10
wide: .quad 8, -16, 24, 3, 40, -1, 0, 16
below: .skip 128
middle: .skip 256
