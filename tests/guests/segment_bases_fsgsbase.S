# wrfsbase and wrgsbase change the base of operands without a system call; rdfsbase reads it back.
# guest: build=asm needs=fsgsbase
#include "guest.inc"
_start:
    mov eax, offset one
    wrfsbase rax
    mov eax, offset two
    wrgsbase rax
    mov r12, fs:[8]
    MIX gs:[8]
    mov ebx, offset one + 8
    mov r15d, 4
1:  wrgsbase rbx
    add r12, gs:[0]
    mov gs:[8], r12
    add rbx, 8
    dec r15
    jnz 1b
    rdgsbase rax
    MIX rax
    rdfsbase eax
    MIX rax
    mov r15d, offset two
    wrfsbase r15
    MIX fs:[16]
    rdfsbase r15
    MIX r15
    mov rax, r12
    FINISH
.data
one: .quad 1, 2, 3, 4, 5, 6, 7, 8
two: .quad 21, 22, 23, 24
