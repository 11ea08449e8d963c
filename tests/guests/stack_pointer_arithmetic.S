# rsp by and, sub, lea, xchg, mov and leave: variable frames, alignment, stack switching back and forth.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov r13d, 3
again:
    push rbp
    mov rbp, rsp
    imul rax, r13, 40
    sub rsp, rax
    and rsp, -64
    mov [rsp], r13
    mov [rsp + 8], rax
    push qword ptr [rsp + 8]
    pop rcx
    MIX rcx
    lea rsp, [rsp - 24]
    push r13
    add rsp, 8
    mov rax, [rsp - 8]              # red zone
    MIX rax
    leave
    dec r13
    jnz again
    mov eax, offset other_top
    xchg rsp, rax
    push rax
    call body
    pop rsp
    call body
    mov rbx, rsp
    mov rsp, offset other_top
    call body
    mov rsp, rbx
    mov rax, r12
    FINISH
body:
    push 1
    add [rsp], r13
    pop rax
    MIX rax
    inc r13
    ret
.bss
.balign 64
.skip 1024
other_top: .skip 64
