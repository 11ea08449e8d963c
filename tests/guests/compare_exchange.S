# cmpxchg of every size, cmpxchg8b/16b, xadd, xchg, locked or not, successful or not.
# guest: build=asm needs=cx16
#include "guest.inc"
_start:
    xor r12d, r12d
    mov rax, 0x1111
    mov rcx, 0x2222
    cmpxchg [cells], rcx
    lock cmpxchg [cells], rcx
    cmpxchg [cells + 8], ecx
    cmpxchg [cells + 12], cx
    lock cmpxchg [cells + 14], cl
    MIX rax
    mov rax, [cells + 16]
    mov rdx, [cells + 24]
    mov rbx, 7
    mov rcx, 8
    lock cmpxchg16b [cells + 16]
    setz r8b
    cmpxchg16b [cells + 16]
    setz r9b
    MIX rax
    MIX r8
    MIX r9
    lock cmpxchg8b [cells + 8]
    MIX rdx
    mov eax, 3
    xadd [cells], rax
    lock xadd [cells + 8], eax
    xadd [cells + 3], al
    MIX rax
    xchg [cells], rax
    xchg al, [cells + 9]
    xchg [cells + 4], eax
    MIX rax
    lock inc qword ptr [cells]
    lock neg dword ptr [cells + 8]
    lock btr qword ptr [cells], 3
    mov rax, [cells]
    MIX rax
    mov rax, r12
    FINISH
.data
.balign 16
cells: .quad 0x1111, 0x3333, 0x4444, 0x5555
