# Addresses from masked, shifted and negated registers of 32 and 64 bits, in straight code and in loops; loops that end an iteration with what they loaded.
# guest: build=asm
#include "guest.inc"
_start:
    xor r12d, r12d
    mov rbx, 0x8123456789abcdef
    # Low bits, bits in the middle, and all but the lowest.
    mov eax, ebx
    and eax, 31
    add r12, [table + rax*8]
    mov rax, rbx
    and eax, 0x1f0
    add r12, [table + rax]
    mov rdi, rbx
    and rdi, 0x7f8
    movzx ecx, byte ptr [table + rdi]
    mov rsi, offset table + 77
    and rsi, -16
    add r12, [rsi]
    mov eax, ebx
    and eax, 0x15
    add r12, [table + rax]
    # Shifts to the right, of both kinds, by nothing, and of what is negative.
    mov rax, rbx
    shr rax, 57
    add r12, [table + rax*8]
    mov eax, ebx
    shr eax, 27
    add r12, [table + rax*8]
    mov rax, rbx
    sar rax, 60
    add r12, [middle + rax*8]
    mov eax, ebx
    sar eax, 28
    movsxd rax, eax
    add r12, [middle + rax*8]
    mov eax, ebx
    sar eax, 28
    and eax, 7
    add r12, [middle + rax*8]
    mov rax, rbx
    shr rax, 0
    shr eax, 0
    shr eax, 1
    shr eax, 26
    add r12, [table + rax*8]
    # Negated and inverted.
    mov eax, 9
    neg rax
    add r12, [middle + rax*8]
    mov eax, 9
    neg eax
    mov edx, 0xfffffff0
    sub rax, rdx
    add r12, [table + rax*8]
    mov eax, 5
    not rax
    add r12, [middle + rax*8]
    mov eax, 5
    not eax
    movsxd rax, eax
    add r12, [middle + rax*8]
    # Bytes and halves of registers, extended.
    mov ecx, 0x7b85
    movzx eax, ch
    add r12, [table + rax]
    movsx rax, cl
    add r12, [middle + rax]
    movsx eax, cl
    movsxd rdx, eax
    add r12, [middle + rdx]
    mov edx, 0xffffff80
    sub rax, rdx
    add r12, [table + rax*8]
    movzx edx, cx
    shr edx, 8
    add r12, [table + rdx]
    # A chain through a table, as hashing walks it: masked, and loaded again.
    mov ecx, 300
    mov edx, 11
1:  and edx, 0x3f
    movzx edx, word ptr [links + rdx*2]
    mov eax, edx
    add r12, [table + rax]
    dec ecx
    jnz 1b
    # The same with a way out, and what is loaded taken further.
    mov ecx, 300
    mov edx, 23
2:  and edx, 63
    movzx edx, byte ptr [links + rdx*2]
    cmp edx, 300
    ja 3f
    lea rdx, [rdx*2 + 3]
    add r12, [table + rdx]
    dec ecx
    jnz 2b
    # A ring: masked in every iteration, affine but for that.
3:  mov ecx, 0
4:  mov eax, ecx
    and eax, 15
    add r12, [table + rax*8]
    inc ecx
    cmp ecx, 100
    jne 4b
    # Shifted in every iteration: eight of them to the same place, and a step of eight to the next.
    mov ecx, 0
5:  mov eax, ecx
    shr eax, 3
    add r12, [table + rax*8]
    inc ecx
    cmp ecx, 100
    jne 5b
    mov rcx, 400
6:  mov rax, rcx
    sar rax, 3
    add r12, [table + rax*8]
    sub rcx, 8
    jnz 6b
    # Halved until nothing is left.
    mov edi, 200
7:  mov eax, edi
    shr edi
    and eax, 1
    lea rax, [rdi + rax*8]
    add r12, [table + rax]
    test edi, edi
    jnz 7b
    # The stack, aligned.
    mov rbp, rsp
    sub rsp, 40
    and rsp, -32
    push r12
    pop rax
    mov rsp, rbp
    FINISH
.data
.balign 64
table: .rept 64
    .quad (. - table) * 7
    .endr
middle: .rept 40
    .quad (. - table) * 3
    .endr
links: .set x, 1
    .rept 64
    .set x, (x * 37 + 11) & 0xff
    .word x
    .endr
