# Death by ud2 after some accesses.
# guest: build=asm
#include "guest.inc"
_start:
    push 5
    pop rax
    add [cell], rax
    ud2
    FINISH
.data
cell: .quad 1
