# retf, iretq, jmp far m and call far m within the same code segment.
# guest: build=asm
#include "guest.inc"
_start:
    mov eax, cs
    mov [pointer + 4], ax
    mov [wide + 8], ax
    mov [goal + 4], ax
    mov r14d, eax
    mov r12d, 1
    push r14
    push offset here
    rex.W retf
here:
    MIX 5
    mov eax, ss
    mov rcx, rsp
    push rax
    push rcx
    pushfq
    push r14
    push offset there
    iretq
there:
    MIX 9
    call fword ptr [pointer]
    MIX 17
    jmp fword ptr [goal]
    hlt
done:
    sub rsp, 16
    mov dword ptr [rsp], offset finally
    mov [rsp + 4], r14d
    .byte 0xca, 8, 0          # retf 8, 32-bit slots
finally:
    mov rax, r12
    FINISH
callee:
    MIX 33
    .byte 0xcb                # retf, 32-bit slots
.data
pointer: .long callee
         .word 0
goal:    .long done
         .word 0
wide:    .quad callee
         .word 0
