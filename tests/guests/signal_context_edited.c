// A handler edits the interrupted registers, flags and vector state; all must be in force after it returns.
// guest: build=nolibc
#include "nolibc.h"
static void edit(int n, siginfo_t *i, void *context) {
    (void)n; (void)i;
    ucontext_t *u = context;
    greg_t *r = u->uc_mcontext.gregs;
    r[REG_R15] = 0x1515;
    r[REG_RBX] += 1000;
    r[REG_EFL] ^= 1;
    u->uc_mcontext.fpregs->_xmm[6].element[0] = 66;
    r[REG_RIP] += 2;
}
int main(void) {
    on_signal(SIGILL, edit, 0, 0);
    for (int i = 0; i < 3; i++) {
        long r15, rbx = i, carry, xmm = 5;
        __asm__ volatile("movq %3, %%xmm6\n mov $3, %%r15d\n stc\n ud2\n setc %b2\n movzbl %b2, %k2\n"
                         "mov %%r15, %0\n movq %%xmm6, %3"
                         : "=&r"(r15), "+b"(rbx), "=&r"(carry), "+r"(xmm) : : "r15", "xmm6", "cc");
        print_number(r15 * 100 + rbx * 10 + carry);
        print_number(xmm);
    }
    return 0;
}
