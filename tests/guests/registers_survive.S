# Every general, vector, mask and x87 register and MXCSR keep their values across blocks, calls and system calls.
# guest: build=asm needs=avx512f,avx512bw
#include "guest.inc"
_start:
    mov rax, 0x0123456789abcdef
    rol rax, 3
    vpbroadcastq zmm0, rax
    rol rax, 3
    vpbroadcastq zmm1, rax
    rol rax, 3
    vpbroadcastq zmm2, rax
    rol rax, 3
    vpbroadcastq zmm3, rax
    rol rax, 3
    vpbroadcastq zmm4, rax
    rol rax, 3
    vpbroadcastq zmm5, rax
    rol rax, 3
    vpbroadcastq zmm6, rax
    rol rax, 3
    vpbroadcastq zmm7, rax
    rol rax, 3
    vpbroadcastq zmm8, rax
    rol rax, 3
    vpbroadcastq zmm9, rax
    rol rax, 3
    vpbroadcastq zmm10, rax
    rol rax, 3
    vpbroadcastq zmm11, rax
    rol rax, 3
    vpbroadcastq zmm12, rax
    rol rax, 3
    vpbroadcastq zmm13, rax
    rol rax, 3
    vpbroadcastq zmm14, rax
    rol rax, 3
    vpbroadcastq zmm15, rax
    rol rax, 3
    vpbroadcastq zmm16, rax
    rol rax, 3
    vpbroadcastq zmm17, rax
    rol rax, 3
    vpbroadcastq zmm18, rax
    rol rax, 3
    vpbroadcastq zmm19, rax
    rol rax, 3
    vpbroadcastq zmm20, rax
    rol rax, 3
    vpbroadcastq zmm21, rax
    rol rax, 3
    vpbroadcastq zmm22, rax
    rol rax, 3
    vpbroadcastq zmm23, rax
    rol rax, 3
    vpbroadcastq zmm24, rax
    rol rax, 3
    vpbroadcastq zmm25, rax
    rol rax, 3
    vpbroadcastq zmm26, rax
    rol rax, 3
    vpbroadcastq zmm27, rax
    rol rax, 3
    vpbroadcastq zmm28, rax
    rol rax, 3
    vpbroadcastq zmm29, rax
    rol rax, 3
    vpbroadcastq zmm30, rax
    rol rax, 3
    vpbroadcastq zmm31, rax
    rol rax, 5
    kmovq k0, rax
    rol rax, 5
    kmovq k1, rax
    rol rax, 5
    kmovq k2, rax
    rol rax, 5
    kmovq k3, rax
    rol rax, 5
    kmovq k4, rax
    rol rax, 5
    kmovq k5, rax
    rol rax, 5
    kmovq k6, rax
    rol rax, 5
    kmovq k7, rax
    fninit
    fldpi
    fld1
    fldl2e
    mov dword ptr [control], 0x3f80     # round down
    ldmxcsr [control]
    mov rbx, 0x1111
    mov rbp, 0x2222
    mov rsi, 0x3333
    mov rdi, 0x4444
    mov r8, 0x5555
    mov r9, 0x6666
    mov r10, 0x7777
    mov r12, 0x8888
    mov r13, 0x9999
    mov r14, 0xaaaa
    mov r15, 0xbbbb
    mov ecx, 30
    mov edx, 0xd0d0
    mov eax, 0xa0a0
1:  call first
    push rcx
    push rax
    mov eax, 104
    syscall
    pop rax
    pop rcx
    test cl, 3
    jz 2f
    jmp [pointer]
resume:
2:  dec ecx
    jnz 1b
    stmxcsr [control]
    mov [area], rax
    mov [area + 8], rbx
    mov [area + 16], rbp
    mov [area + 24], rsi
    mov [area + 32], rdi
    mov [area + 40], r8
    mov [area + 48], r9
    mov [area + 56], r10
    mov [area + 64], r12
    mov [area + 72], r13
    mov [area + 80], r14
    mov [area + 88], r15
    mov [area + 96], rdx
    mov eax, [control]
    mov [area + 104], rax
    fstp tbyte ptr [area + 112]
    fstp tbyte ptr [area + 128]
    fstp tbyte ptr [area + 144]
    kmovq [area + 160], k0
    kmovq [area + 168], k1
    kmovq [area + 176], k2
    kmovq [area + 184], k3
    kmovq [area + 192], k4
    kmovq [area + 200], k5
    kmovq [area + 208], k6
    kmovq [area + 216], k7
    vmovdqu64 [area + 256], zmm0
    vmovdqu64 [area + 320], zmm1
    vmovdqu64 [area + 384], zmm2
    vmovdqu64 [area + 448], zmm3
    vmovdqu64 [area + 512], zmm4
    vmovdqu64 [area + 576], zmm5
    vmovdqu64 [area + 640], zmm6
    vmovdqu64 [area + 704], zmm7
    vmovdqu64 [area + 768], zmm8
    vmovdqu64 [area + 832], zmm9
    vmovdqu64 [area + 896], zmm10
    vmovdqu64 [area + 960], zmm11
    vmovdqu64 [area + 1024], zmm12
    vmovdqu64 [area + 1088], zmm13
    vmovdqu64 [area + 1152], zmm14
    vmovdqu64 [area + 1216], zmm15
    vmovdqu64 [area + 1280], zmm16
    vmovdqu64 [area + 1344], zmm17
    vmovdqu64 [area + 1408], zmm18
    vmovdqu64 [area + 1472], zmm19
    vmovdqu64 [area + 1536], zmm20
    vmovdqu64 [area + 1600], zmm21
    vmovdqu64 [area + 1664], zmm22
    vmovdqu64 [area + 1728], zmm23
    vmovdqu64 [area + 1792], zmm24
    vmovdqu64 [area + 1856], zmm25
    vmovdqu64 [area + 1920], zmm26
    vmovdqu64 [area + 1984], zmm27
    vmovdqu64 [area + 2048], zmm28
    vmovdqu64 [area + 2112], zmm29
    vmovdqu64 [area + 2176], zmm30
    vmovdqu64 [area + 2240], zmm31
    xor r12d, r12d
    mov ecx, (256 + 2048) / 8
3:  MIX [area + rcx*8 - 8]
    loop 3b
    mov rax, r12
    FINISH
first:
    push rbp
    call second
    pop rbp
    ret
second:
    add [cell], rcx
    jmp [tail]
third:
    ret
.data
cell: .quad 0
pointer: .quad resume
tail: .quad third
control: .quad 0
.bss
.balign 64
area: .skip 4096
