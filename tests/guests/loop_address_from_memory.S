# Loops whose next address is loaded: a linked list, an index array, and a mix of affine and loaded.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, offset nodes
1:  add r12, [rbx + 8]
    mov rbx, [rbx]
    test rbx, rbx
    jnz 1b
    xor ecx, ecx
2:  movsxd rax, dword ptr [index + rcx*4]
    add r12, [data + rax*8]
    inc dword ptr [data + rax*8]
    inc rcx
    cmp rcx, 16
    jne 2b
    mov edi, offset data
    mov r15d, 12
3:  mov rax, [rdi]
    and eax, 15
    movzx edx, byte ptr [index + rax]
    add [data + rdx*8], rax
    add rdi, 8
    dec r15d
    jnz 3b
    mov ecx, 20
4:  MIX [data + rcx*8 - 8]
    loop 4b
    mov rax, r12
    FINISH
.data
nodes: .quad third, 1
second: .quad fourth, 2
third: .quad second, 3
fourth: .quad 0, 4
index: .long 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3
data: .rept 20
    .quad (. - data) * 5
    .endr
