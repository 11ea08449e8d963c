// The handler changes the faulting base register in the context; the instruction is retried with it.
// guest: build=nolibc
#include "nolibc.h"
static long cell = 42;
static volatile long faults;
static void repair(int n, siginfo_t *info, void *context) {
    (void)n; (void)info;
    faults++;
    greg_t *r = context_registers(context);
    if (r[REG_RBX] == 8) r[REG_RBX] = (greg_t)&cell;
    if (r[REG_R15] == 16) r[REG_R15] = (greg_t)&cell;
}
int main(void) {
    on_signal(SIGSEGV, repair, 0, 0);
    long sum = 0;
    for (int i = 0; i < 3; i++) {
        long value;
        __asm__ volatile("mov $8, %%ebx\n push %%rbx\n mov (%%rbx), %0\n addq $1, (%%rbx)\n pop %%rbx"
                         : "=r"(value) : : "rbx", "memory", "cc");
        sum = sum * 100 + value;
        __asm__ volatile("mov $16, %%r15d\n mov (%%r15), %0\n addq %%r15, (%%r15)\n subq %%r15, (%%r15)"
                         : "=r"(value) : : "r15", "memory", "cc");
        sum += value;
    }
    print_number(sum);
    print_number(faults);
    return 0;
}
