# fxsave/fxrstor, xsave/xsaveopt/xsavec and xrstor of standard and compacted images, with several masks.
# guest: build=asm needs=xsavec
#include "guest.inc"
_start:
    mov rax, 0x123456789
    mov r13, rax
    fxsave [area]
    fxsave64 [area]
    fxrstor [area]
    fxrstor64 [area]
.irp mask, 0, 3, 7, 0xe7, -1
    mov eax, \mask
    mov edx, \mask
    movq xmm3, r13
    xsave [area]
    xsave64 [area]
    xsaveopt [area]
    pxor xmm3, xmm3
    xrstor [area]
    mov eax, \mask
    mov edx, \mask
    xsavec [packed]
    xsavec64 [packed]
    xrstor [packed]
.endr
    movq rax, xmm3
    FINISH
.bss
.balign 64
area: .skip 8192
packed: .skip 8192
