# r15 in every operand position: base, index, destination, byte, 32-bit, stack, compare-exchange, branch target.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov r15d, offset cells
    mov rax, [r15]
    mov [r15 + 8], rax
    mov rbx, offset cells
    mov r15d, 2
    mov rax, [rbx + r15*8]
    mov [rbx + r15*4 + 3], al
    mov r15, [rbx + r15*8]
    add r12, r15
    mov r15b, [rbx + 5]
    mov r15w, [rbx + 6]
    MIX r15
    mov [rbx + 40], r15
    mov [rbx + 40], r15d
    mov [rbx + 42], r15w
    mov [rbx + 45], r15b
    mov r15d, [rbx + 16]
    add [rbx], r15
    add r15, [rbx]
    inc r15
    MIX r15
    push r15
    mov r15, rsp
    push [r15]
    pop r15
    pop [rbx + 8]
    MIX r15
    mov rax, [rbx]
    mov r15d, 99
    lock cmpxchg [rbx], r15
    mov r15, rbx
    cmpxchg [r15], r15
    xchg [r15 + 16], r15
    MIX r15
    mov r15, rbx
    xadd [r15 + 24], rax
    mov r15d, offset target
    jmp r15
    hlt
target:
    mov r15d, offset table
    call [r15 + 8]
    mov r15d, offset callee
    call r15
    mov r15d, offset table
    jmp [r15]
    hlt
landed:
    mov r15d, offset cells + 64
    xchg rsp, r15
    push r15
    pop r15
    xchg rsp, r15
    mov r15, 0x1122334455667788
    bswap r15
    mul r15
    MIX rax
    imul r15, r15, 77
    cmp r15, rax
    setg r15b
    cmovl r15, [rbx]
    MIX r15
    lea r15, [r15 + r15*2 + 5]
    shl r15, 3
    MIX r15
    mov r15d, 7
1:  mov al, [rbx + r15]
    add r12b, al
    dec r15
    jnz 1b
    mov r15d, 5
2:  add [rbx + r15*8 - 8], r15
    sub r15d, 1
    jnz 2b
    movq xmm0, r15
    pextrq r15, xmm0, 0
    bts [rbx], r15
    rdtscp
    mov r15d, ecx
    xor r15d, r15d
    cmp byte ptr [rbx + r15], r15b
    test [rbx + r15], r15d
    mov rax, r12
    FINISH
callee:
    add r12, 11
    push r15
    mov r15d, 4
    add r12, r15
    pop r15
    ret
.data
table: .quad landed, callee
cells: .quad 0x1234, 5, 0x77665544332211, 9, 10, 11, 12, 13, 14, 15, 16
