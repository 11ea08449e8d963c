# Loops with no memory access at all, alone and between accesses.
# guest: build=asm
#include "guest.inc"
_start:
    mov r12d, 1
    mov ecx, 100
1:  imul r12, r12, 13
    dec ecx
    jnz 1b
    push r12
    mov eax, 27
2:  test al, 1
    jz 3f
    lea eax, [eax + eax*2 + 1]
    jmp 4f
3:  shr eax, 1
4:  inc ecx
    cmp eax, 1
    jne 2b
    MIX rcx
    pop rdx
    MIX rdx
    mov ecx, 1
5:  loop 5b
    mov ecx, 50
6:  loop 6b
    pause
    mov rax, r12
    FINISH
