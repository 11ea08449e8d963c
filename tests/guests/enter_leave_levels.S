# enter with nesting levels 0, 1 and 3, leave, and stack use inside the frames.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    call outer
    mov rax, r12
    FINISH
outer:
    enter 32, 0
    mov qword ptr [rbp - 8], 77
    call one
    add r12, [rbp - 8]
    leave
    ret
one:
    enter 16, 1
    mov qword ptr [rbp - 16], 5
    call three
    add r12, [rbp - 16]
    leave
    ret
three:
    enter 24, 3
    mov rax, [rbp - 8]
    sub rax, rsp
    MIX rax
    mov rax, [rbp - 24]
    sub rax, rbp
    MIX rax
    leave
    ret
