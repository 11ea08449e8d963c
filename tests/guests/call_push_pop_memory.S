# call, jmp, push and pop through memory, also relative to rsp, and 16-bit pushes.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, offset table
    call [table]
    call [rbx + 8]
    push qword ptr [table + 16]
    pop qword ptr [cell]
    push 0x55
    push 0x66
    push qword ptr [rsp + 8]
    pop qword ptr [rsp + 8]        # address formed after the increment
    pop rax
    pop rcx
    MIX rax
    MIX rcx
    push rsp
    pop rax
    sub rax, rsp
    MIX rax
    push rax
    pop rsp
    mov rsp, offset stack_top
    push ax
    push word ptr [cell]
    push word ptr 0x1234
    pop cx
    pop word ptr [cell + 2]
    pop ax
    push fs
    pop rax
    MIX rcx
    MIX [cell]
    push -3
    mov ecx, 2
    pop qword ptr [rsp + rcx*8]
    push 0
    push offset after
    mov rdx, rsp
    call [rdx]
after:
    add rsp, 8
    jmp [table + 24]
    hlt
last:
    mov rax, r12
    FINISH
first:
    add r12, 3
    ret
second:
    add r12, 5
    ret 0
.data
table: .quad first, second, 0x7788, last
cell: .quad 0
.bss
.skip 256
stack_top: .skip 256
