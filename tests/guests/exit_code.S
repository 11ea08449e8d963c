# An exit code that is not zero, by exit rather than exit_group.
# guest: build=asm
#include "guest.inc"
_start:
    push 42
    pop rdi
    mov eax, 60
    syscall
    hlt
