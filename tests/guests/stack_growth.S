# The stack grows downwards by page faults, far below the first page, by pushes, calls and a probe loop.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov rbp, rsp
    mov ecx, 20
1:  sub rsp, 4096
    or qword ptr [rsp], 0
    dec ecx
    jnz 1b
    mov [rsp - 100], rcx
    mov ebx, 600
2:  push rbx
    dec ebx
    jnz 2b
    mov ebx, 600
3:  pop rax
    MIX rax
    dec ebx
    jnz 3b
    mov rsp, rbp
    mov rax, r12
    FINISH
