# Flags that live across blocks, calls, returns, indirect jumps and memory accesses: adc chains, lahf, pushf, mul.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov ebx, offset numbers
    mov ecx, 6
    clc
1:  mov rax, [rbx]
    adc [rbx + 64], rax
    lea rbx, [rbx + 8]
    dec ecx
    jnz 1b
    adc r12, 0
    MIX [numbers + 64]
    MIX [numbers + 104]
    mov eax, 0x7fffffff
    add eax, 1
    call keep
    setc al
    seto ah
    sets dl
    setp dh
    MIX rax
    MIX rdx
    stc
    mov rax, offset 2f
    jmp rax
2:  sbb rcx, rcx
    MIX rcx
    mov al, 0x9f
    sub al, 0x10
    push rax
    pop rdx
    lahf
    MIX rax
    mov ah, 0xd5
    sahf
    call [pointer]
    lahf
    MIX rax
    cmp r12, r12
    pushfq
    mov rax, [rsp]
    and rax, 0xdd5                # the trap flag too: nobody may see a tracer's
    MIX rax
    xor qword ptr [rsp], 0x8d5
    popfq
    seto al
    setc cl
    setz dl
    MIX rax
    MIX rcx
    MIX rdx
    mov rax, -5
    mov rdx, 7
    mul rdx
    jmp 3f
3:  setc al
    seto cl
    MIX rax
    MIX rcx
    mov rax, 3
    imul rax, [numbers]
    call keep
    seto al
    MIX rax
    mov ecx, 0
    stc
    shl r8, cl                  # a zero shift keeps the flags
    mov rdx, [numbers]
    setc al
    MIX rax
    cmp byte ptr [numbers], 1
    mov rax, [numbers + 8]
    cmovb r12, rax
    bt qword ptr [numbers], 1
    mov [numbers + 16], rax
    rcl r12, 1
    inc qword ptr [numbers]     # keeps carry
    rcr r12, 3
    cld
    std
    pushf
    pop rax
    cld
    and eax, 0x400
    MIX rax
    mov rax, r12
    FINISH
keep:
    push rbx
    mov rbx, [rsp + 8]
    pop rbx
    ret
.data
pointer: .quad keep
numbers: .quad -1, -1, -1, 5, -1, -1, 7, 8, 1, 0, 0, -6, 0, 0, 0, 0
