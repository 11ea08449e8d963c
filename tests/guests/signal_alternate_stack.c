// Handlers on an alternate stack: raised, and after a fault with an unusable stack pointer.
// guest: build=nolibc
#include "nolibc.h"
static char stack[16384] __attribute__((aligned(64)));
static volatile long on_it, faults;
static void note(int n, siginfo_t *i, void *context) {
    (void)i;
    char here;
    on_it += &here >= stack && &here < stack + sizeof stack;
    if (n == SIGSEGV) {
        faults++;
        greg_t *r = context_registers(context);
        r[REG_RSP] = r[REG_RBX];
    }
}
int main(void) {
    stack_t alternate = {stack, 0, sizeof stack}, old;
    SYS2(SYS_sigaltstack, &alternate, 0);
    on_signal(SIGUSR1, note, SA_ONSTACK, 0);
    on_signal(SIGUSR2, note, 0, 0);
    on_signal(SIGSEGV, note, SA_ONSTACK, 0);
    raise_signal(SIGUSR1);
    raise_signal(SIGUSR2);
    print_number(on_it);
    __asm__ volatile("mov %%rsp, %%rbx\n mov $64, %%esp\n push %%rax\n pop %%rax\n mov %%rbx, %%rsp"
                     : : : "rbx", "rax", "memory");
    print_number(faults * 10 + on_it);
    SYS2(SYS_sigaltstack, 0, &old);
    print_number(old.ss_sp == stack);
    return 0;
}
