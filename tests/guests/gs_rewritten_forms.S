# gs-relative operands in every form that has to be rewritten: bases, indices, r15, 32-bit addresses, constants, pushes and calls.
# guest: build=asm
#include "guest.inc"
_start:
    mov eax, 158                    # arch_prctl(ARCH_SET_GS, area)
    mov edi, 0x1001
    mov esi, offset area
    syscall
    mov r12d, 1
    mov rbx, 16
    mov rcx, 3
    mov r15, 40
    add r12, gs:[8]
    .byte 0x65, 0xa0                # mov al, gs:[moffs]
    .quad 24
    movzx eax, al
    MIX rax
    .byte 0x65, 0x48, 0xa3          # mov gs:[moffs], rax
    .quad 32
    add r12, gs:[rbx]
    add r12, gs:[rbx + rcx*8]
    add r12, gs:[rcx*8 + 8]
    add r12, gs:[r15]
    add r12, gs:[rbx + r15*2 - 8]
    add gs:[r15 + 8], r15
    mov gs:[rbx + 32], r15d
    lock xadd gs:[r15 + 16], rcx
    MIX rcx
    mov rcx, 3
    movups xmm0, gs:[r15 + rcx*8]
    movups gs:[rbx + 128], xmm0
    push qword ptr gs:[rbx + 128]
    pop qword ptr gs:[r15 + 128]
    cmp qword ptr gs:[r15 + 128], 7
    setb al
    movzx eax, al
    MIX rax
    mov r13, 0xffffffff00000010     # only the lower half counts under the 67h prefix
    mov r14, 0x7777777700000002
    add r12, gs:[r13d]
    add r12, gs:[r13d + r14d*8 + 8]
    add r12d, gs:[r14d*4]
    mov qword ptr gs:[r13d + 96], 77
    add r12, gs:[rbx + 96]
    mov rdx, 5                      # the registers that indirect branches use, live across one
    mov rcx, 6
    lea rax, called[rip]
    mov gs:[208], rax
    call gs:[208]
    mov eax, 192
    call gs:[rax + 16]
    lea rax, done[rip]
    mov gs:[rbx + 200], rax
    jmp gs:[rbx + 200]
    hlt
called:
    add r12, rdx
    add r12, rcx
    MIX 9
    ret
done:
    mov rax, r12
    FINISH
.data
.balign 16
area: .quad 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32
