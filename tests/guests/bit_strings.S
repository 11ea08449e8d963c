# bt, bts, btr, btc on memory with register offsets beyond the word, negative ones, and immediates.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
.irp offset, 0, 5, 63, 64, 200, -1, -64, -65, -200
    mov rax, \offset
    bts qword ptr [middle], rax
    adc r12, r12
    bt dword ptr [middle], eax
    adc r12, r12
    btc word ptr [middle], ax
    adc r12, r12
    btr dword ptr [middle + 4], eax
    adc r12, 1
    lock btc qword ptr [middle], rax
.endr
    mov r15, -130
    bts qword ptr [middle], r15
    bt dword ptr [middle], 37
    bts qword ptr [middle], 3
    btr word ptr [middle + 2], 9
    btc dword ptr [middle + 8], 31
    mov rax, 100
    bt rax, rax
    bts rax, 3
    add r12, rax
    add r12, [middle]
    add r12, [middle - 8]
    mov rax, r12
    FINISH
.data
.skip 8192
middle: .quad 0x123456789abcdef0
.skip 8192
