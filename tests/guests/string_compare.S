# cmps and scas of every size under repe and repne: early end, full run, zero count, flags kept by zero count.
# guest: build=asm
#include "guest.inc"
_start:
    cld
    xor r12d, r12d
.irp suffix, b, w, d, q
    mov esi, offset left
    mov edi, offset right
    mov ecx, 8
    repe cmps\suffix
    setz al
    MIX rcx
    MIX rax
    mov esi, offset left
    mov edi, offset left
    mov ecx, 6
    repe cmps\suffix
    setz al
    MIX rcx
    mov esi, offset left
    mov edi, offset right
    mov ecx, 6
    repne cmps\suffix
    MIX rcx
    mov rax, 0x0807060504030201
    mov edi, offset left
    mov ecx, 6
    repne scas\suffix
    MIX rcx
    mov rax, -1
    mov edi, offset ones
    mov ecx, 5
    repe scas\suffix
    MIX rcx
    cmps\suffix
    scas\suffix
    MIX rdi
.endr
    cmp r12, r12
    mov ecx, 0
    repne scasb
    setz al
    stc
    repe cmpsb
    adc rax, 0
    MIX rax
    mov rax, r12
    FINISH
.data
left:  .byte 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16
       .quad 1,2,3,4,5,6,7,8
right: .byte 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,17
       .quad 1,2,3,4,5,6,7,9
ones:  .quad -1,-1,-1,-1, -2,-1,-1,-1
       .skip 64
