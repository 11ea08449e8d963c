# Indirect jumps through a table, indirect calls, tail calls and mutual recursion.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, 40
1:  imul eax, ebx, 7
    and eax, 3
    jmp [table + rax*8]
case0:
    MIX 1
    jmp 2f
case1:
    mov edi, 3
    call even
    jmp 2f
case2:
    mov rax, offset even
    mov edi, 4
    call rax
    jmp 2f
case3:
    lea rax, [rip + 2f]
    push rax
    mov edi, 2
    jmp odd
2:  dec ebx
    jnz 1b
    mov rax, r12
    FINISH
even:
    push rdi
    add r12, [rsp]
    pop rdi
    sub edi, 1
    jc 3f
    jmp odd
odd:
    sub edi, 1
    jc 3f
    MIX rdi
    mov rax, [calls]
    jmp rax
3:  ret
.section .rodata
table: .quad case0, case1, case2, case3
calls: .quad even
