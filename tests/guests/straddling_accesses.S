# Accesses across cache lines and pages: every size is one access.
# guest: build=asm needs=avx512f
#include "guest.inc"
_start:
    mov ebx, offset page
    xor r12d, r12d
    mov ecx, 12
1:  mov [rbx + rcx - 8], rcx
    add ax, [rbx + rcx - 8]
    add dword ptr [rbx + rcx*4 - 30], 5
    movdqu xmm0, [rbx + rcx - 14]
    vmovdqu ymm1, [rbx + rcx - 30]
    vmovdqu64 zmm2, [rbx + rcx - 50]
    vmovdqu64 [rbx + rcx - 40], zmm2
    fld tbyte ptr [rbx + rcx - 9]
    fstp tbyte ptr [rbx + rcx - 9]
    lock add qword ptr [rbx + rcx - 8 + 64], 1
    MIX [rbx + rcx]
    dec ecx
    jnz 1b
    mov rsp, offset page + 4
    push rax
    pop rax
    mov rax, r12
    FINISH
.data
.balign 4096
.skip 4096
page: .skip 4096
