# ah, bh, ch and dh against memory: forms that allow no REX prefix, beside uses of r8 to r15.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, offset cells
    mov ecx, 0x1234
    mov r15d, 5
    mov [rbx], ch
    mov ah, [rbx + 1]
    add [rbx + 2], ah
    xchg dh, [rbx + 3]
    cmp ch, [rbx + rcx*1 - 0x1234 + 4]
    mov dl, ch
    movzx eax, ah
    lea r15, [r15 + rbx]
    mov dh, byte ptr [rbx + 5]
    mov [r15], dl
    mov ah, 0x9d
    lahf
    sahf
    setc bh
    mov bh, 0
    mov ebx, offset cells
    lock cmpxchg [rbx + 6], dh
    xadd [rbx + 7], ah
    MIX rax
    MIX rcx
    MIX rdx
    MIX [rbx]
    mov rax, r12
    FINISH
.data
cells: .byte 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
