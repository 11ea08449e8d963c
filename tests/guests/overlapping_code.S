# Jumps into the middle of an instruction: the same bytes run as two different sequences.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    xor ebx, ebx
    mov esi, offset cells
again:
    mov edx, offset whole
    test bl, 1
    jz 1f
    inc rdx
1:  jmp rdx
whole:
    .byte 0xb8                  # mov eax, imm32: or, one byte later, the four bytes alone
    .byte 0x48, 0x8b, 0x06, 0x90  # mov rax, [rsi]; nop
    add r12, rax
    MIX 5
    inc ebx
    cmp ebx, 6
    jne again
    jmp 2f
3:  .byte 0x48                  # rex.W belongs to the push only on one path
2:  push rsi
    pop rax
    MIX rax
    cmp ebx, 8
    je 4f
    mov ebx, 8
    jmp 3b
4:  mov rax, r12
    FINISH
.data
cells: .quad 0x1234567
