# Two coroutines that hand control back and forth by swapping rsp.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov rax, offset other_top
    mov qword ptr [rax - 8], offset producer
    sub rax, 8 + 48
    mov [saved], rax
    mov ebx, 10
consume:
    call switch
    MIX rax
    dec ebx
    jnz consume
    mov rax, r12
    FINISH
switch:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    xchg rsp, [saved]
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
producer:
    mov r15d, 1
1:  mov rax, r15
    call switch
    imul r15, r15, 3
    jmp 1b
.bss
saved: .skip 8
.balign 16
.skip 1024
other_top: .skip 16
