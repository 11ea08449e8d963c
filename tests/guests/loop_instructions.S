# loop, loope, loopne, jrcxz and jecxz, taken and not taken.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ecx, 7
1:  add r12, [cells + rcx*8]
    loop 1b
    mov ecx, 8
    mov esi, offset zeros
2:  cmp byte ptr [rsi + rcx], 0
    loope 2b
    MIX rcx
    mov ecx, 8
3:  cmp byte ptr [cells + rcx*8], 4
    loopne 3b
    MIX rcx
    mov ecx, 2
4:  jrcxz 5f
    add r12, [cells + rcx*8]
    dec rcx
    jmp 4b
5:  mov rcx, 0xffffffff00000000
    jecxz 6f
    MIX 99
6:  jrcxz 7f
    MIX 3
7:  mov rcx, 0x7700000003
8:  mov al, [cells + ecx*8]
    addr32 loop 8b
    MIX rcx
    mov rax, r12
    FINISH
.data
cells: .quad 0,1,2,3,4,5,6,7,8,9
zeros: .byte 1,1,1,0,0,0,0,0,0,0
