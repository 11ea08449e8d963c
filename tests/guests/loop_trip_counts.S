# One loop entered with trip counts 1, 2, 3 and many; do-while and while forms; a zero-trip loop.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov r13d, offset trips
1:  movzx edi, byte ptr [r13]
    cmp edi, 255
    je 2f
    call sum
    call sum_while
    inc r13
    jmp 1b
2:  mov rax, r12
    FINISH
sum:
    xor ecx, ecx
3:  add r12, [cells + rcx*8]
    inc ecx
    cmp ecx, edi
    jb 3b
    ret
sum_while:
    xor ecx, ecx
4:  cmp ecx, edi
    jae 5f
    mov rax, [cells + rcx*8]
    MIX rax
    inc ecx
    jmp 4b
5:  ret
.data
trips: .byte 1, 1, 2, 3, 1, 0, 30, 1, 0, 7, 2, 1, 1, 1, 40, 255
cells: .rept 64
    .quad . - cells
    .endr
