# x87 loads and stores of every memory size, the environment and the whole state.
# guest: build=asm
#include "guest.inc"
_start:
    fninit
    fld1
    fldpi
    fstp tbyte ptr [cells]
    fld tbyte ptr [cells]
    fst dword ptr [cells + 16]
    fst qword ptr [cells + 24]
    fadd dword ptr [cells + 16]
    fmul qword ptr [cells + 24]
    fistp word ptr [cells + 32]
    fild word ptr [cells + 32]
    fist dword ptr [cells + 36]
    fisttp qword ptr [cells + 40]
    fild dword ptr [cells + 36]
    fild qword ptr [cells + 40]
    fiadd dword ptr [cells + 36]
    fbstp [cells + 48]
    fbld [cells + 48]
    fnstcw [cells + 60]
    fldcw [cells + 60]
    fnstsw [cells + 62]
    fnstenv [environment]
    fldenv [environment]
    fnsave [state]
    frstor [state]
    stmxcsr [cells + 64]
    ldmxcsr [cells + 64]
    fistp qword ptr [cells + 72]
    mov rax, [cells + 72]
    add rax, [cells + 32]
    FINISH
.bss
.balign 16
cells: .skip 128
environment: .skip 32
state: .skip 128
