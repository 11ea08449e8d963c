// A block cut short by a fault after several accesses; once repaired and retried, once left for another path.
// guest: build=nolibc
#include "nolibc.h"
static long cells[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static volatile long faults;
static void skip(int n, siginfo_t *info, void *context) {
    (void)n; (void)info;
    greg_t *r = context_registers(context);
    if (++faults & 1) r[REG_RDX] = (greg_t)&cells[7];
    else r[REG_RIP] = r[REG_R8];
}
int main(void) {
    on_signal(SIGSEGV, skip, 0, 0);
    for (int i = 0; i < 4; i++) {
        long bad = 24;
        __asm__ volatile(
            "lea 1f(%%rip), %%r8\n"
            "mov (%0), %%rax\n add %%rax, 8(%0)\n push %%rax\n mov 16(%0), %%rcx\n add %%rcx, %%rax\n"
            "add %%rax, (%1)\n"
            "mov %%rax, 24(%0)\n sub $1, 32(%0)\n"
            "1: pop %%rax\n add %%rax, 40(%0)"
            : : "r"(cells), "d"(bad) : "rax", "rcx", "r8", "memory", "cc");
    }
    for (int i = 0; i < 8; i++) print_number(cells[i]);
    print_number(faults);
    return 0;
}
