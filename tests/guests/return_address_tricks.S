# Returns that match no call and calls that never return: push-ret jumps, call-pop, rewritten return addresses.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov r14, rsp
    mov ebx, 3
again:
    push offset 1f
    ret
    hlt
1:  call 2f
2:  pop rax
    sub rax, offset 2b
    MIX rax
    call skip_one
    hlt
3:  MIX 7
    call twice
    MIX 11
    lea rsp, [rsp - 8]
    mov qword ptr [rsp], offset 4f
    ret
    hlt
4:  call drop
    hlt
5:  dec ebx
    jnz again
    push 1
    push 2
    call pops_arguments
    push 9
    push offset 6f
    ret 8
    hlt
6:  sub r14, rsp
    MIX r14
    mov rax, r12
    FINISH
skip_one:
    mov qword ptr [rsp], offset 3b
    ret
twice:
    push offset 7f
    push offset 7f
    ret
7:  MIX 13
    ret
drop:
    add rsp, 8
    jmp 5b
pops_arguments:
    mov rax, [rsp + 8]
    add rax, [rsp + 16]
    MIX rax
    ret 16
