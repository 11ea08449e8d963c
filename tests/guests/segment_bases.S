# fs- and gs-relative operands of many forms, with bases set by arch_prctl.
# guest: build=asm
#include "guest.inc"
_start:
    mov eax, 158
    mov edi, 0x1002
    mov esi, offset one
    syscall
    mov eax, 158
    mov edi, 0x1001
    mov esi, offset two
    syscall
    mov rax, fs:[0]
    mov r12, rax
    mov rcx, 3
    add rax, gs:[rcx*8 + 8]
    mov fs:[rcx*8], rax
    add qword ptr gs:[8], 5
    push qword ptr fs:[16]
    pop qword ptr gs:[24]
    call gs:[0]
    mov esi, offset one
    mov rdi, -8
    mov rax, gs:[rdi + 16]
    MIX rax
    MIX rax
    mov eax, 8
    MIX rax
    lock xadd fs:[8], rax
    movdqu xmm0, gs:[8]
    movdqu fs:[32], xmm0
    cmp byte ptr fs:[40], 7
    mov rax, gs:[8]
    MIX rax
    mov eax, 158
    mov edi, 0x1001
    mov esi, offset one
    syscall
    mov rax, gs:[32]
    MIX rax
    mov rax, r12
    FINISH
callee:
    MIX fs:[0]
    ret
.data
one: .quad 11, 12, 13, 14, 15, 16, 17, 18
two: .quad callee, 22, 23, 24, 25, 26, 27, 28
near: .quad 0x5151, 1, 2, 3
