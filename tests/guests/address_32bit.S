# 32-bit addressing (67h): truncation of base, index and sum; bare and rip-relative displacements.
# guest: build=asm
#include "guest.inc"
_start:
    movabs rbx, offset cells + 0x1100000000
    mov rax, [ebx]
    mov r12, rax
    mov rcx, 0xffffffff00000002
    add rax, [ebx + ecx*8]
    MIX rax
    mov ecx, -1
    mov eax, [ebx + ecx*4 + 12]          # wraps at 4 GB
    MIX rax
    mov rcx, offset cells
    lea edx, [ecx + 4]
    mov [edx], eax
    mov eax, dword ptr [eip + cells]
    MIX rax
    addr32 mov eax, [cells + 8]
    MIX rax
    mov r15, rbx
    add qword ptr [r15d + 16], 3
    push qword ptr [r15d]
    pop qword ptr [r15d + 24]
    movdqu xmm0, [ebx]
    movdqu [ebx + 32], xmm0
    mov rcx, -3
    bt dword ptr [ebx + 8], ecx
    lea rax, [ebx - 1]
    MIX rax
    MIX [cells + 24]
    mov rax, r12
    FINISH
.data
cells: .quad 0x1234567812345678, 2, 3, 4, 5, 6, 7, 8
