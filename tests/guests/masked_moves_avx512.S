# Masked AVX-512 loads and stores of every element size, with zero, partial and full masks; fault-suppressed edges.
# guest: build=asm needs=avx512f,avx512vl,avx512bw
#include "guest.inc"
_start:
    # the page after `cells` does not exist: masked-off lanes may reach into it
    mov eax, 9
    xor edi, edi
    mov esi, 8192
    mov edx, 3
    mov r10d, 0x22
    mov r8, -1
    xor r9d, r9d
    syscall
    mov rbx, rax
    mov eax, 10
    lea rdi, [rbx + 4096]
    mov esi, 4096
    xor edx, edx
    syscall
    lea rbx, [rbx + 4096 - 32]
    mov rax, 0x1122334455667788
    mov [rbx], rax
    mov [rbx + 16], rax
    mov eax, 0x0000000f
    kmovq k1, rax
    mov eax, 0xa5
    kmovq k2, rax
    kxorq k3, k3, k3
    vmovdqu32 zmm0{k1}{z}, [rbx]
    vmovdqu32 zmm1{k2}, [rbx]
    vmovdqu64 zmm2{k1}{z}, [rbx]
    vmovdqu8 zmm3{k1}{z}, [rbx + 28]
    vmovdqu16 zmm4{k2}{z}, [rbx + 8]
    vmovups zmm5{k3}{z}, [rbx + 4096]
    vmovdqu32 [rbx]{k2}, ymm0
    vmovdqu64 [rbx]{k1}, zmm0
    vmovdqu8 [rbx + 24]{k2}, zmm3
    vmovdqu16 [rbx + 16]{k2}, xmm3
    vmovaps [rbx]{k2}, xmm0
    vmovupd [rbx]{k3}, zmm0
    vmovapd ymm6{k1}, [rbx]
    kxnorq k4, k4, k4
    vmovdqu8 xmm7{k4}, [rbx]
    vmovdqu64 [rbx]{k4}, xmm7
    vmovq rax, xmm0
    mov r12, rax
    MIX [rbx]
    MIX [rbx + 24]
    vmovq rax, xmm4
    MIX rax
    mov rax, r12
    FINISH
