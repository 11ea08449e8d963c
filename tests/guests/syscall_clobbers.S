# What a system call leaves behind: rcx is the next instruction, r11 the flags, the rest is untouched.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov r15d, 0x1515
    mov r14d, 0x1414
    mov r13d, 0x1313
    mov ebx, 0xb0b
    mov ebp, 0xbeb
    mov r8d, 8
    mov r9d, 9
    mov r10d, 10
    movq xmm7, rbx
    std
    stc
    mov eax, 104                # getgid has no arguments and no effect
    syscall
next:
    pushfq
    pop rdx
    cld
    and edx, 0xdd5
    MIX rdx
    sub rcx, offset next
    MIX rcx
    and r11d, 0xdd5
    MIX r11
    MIX r15
    MIX r14
    MIX r13
    MIX rbx
    MIX rbp
    MIX r8
    MIX r9
    MIX r10
    movq rax, xmm7
    MIX rax
    mov eax, 9999               # no such call
    syscall
    MIX rax
    mov eax, 435                # clone3 with bad arguments: refused one way or another
    xor edi, edi
    xor esi, esi
    syscall
    sar rax, 63
    MIX rax
    mov rax, r12
    FINISH
