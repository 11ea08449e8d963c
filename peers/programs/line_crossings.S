/* Sixteen loads of 8 bytes, 128 bytes apart. With -DOFFSET=60 each lies in two lines of 64 bytes, with -DOFFSET=0 in one.
 * No stack, no library: what a cache sees of this is the same everywhere. */
    .globl _start
    .text
    .balign 64
_start:
    lea     buffer + OFFSET(%rip), %rsi
    mov     $16, %ecx
1:  mov     (%rsi), %rax
    add     $128, %rsi
    dec     %ecx
    jnz     1b
    mov     $60, %eax
    xor     %edi, %edi
    syscall

    .bss
    .balign 4096
buffer:
    .skip   4096
    .section .note.GNU-stack, "", @progbits
