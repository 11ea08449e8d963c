// SIGFPE from a division by zero; the handler advances rip past the instruction and sets a result.
// guest: build=nolibc
#include "nolibc.h"
static volatile long faults, zero;
static void skip(int n, siginfo_t *info, void *context) {
    (void)n;
    faults = faults * 10 + info->si_code;
    greg_t *r = context_registers(context);
    r[REG_RIP] += 3;  // div m64 through rcx is 48 f7 31
    r[REG_RAX] = 77;
}
int main(void) {
    on_signal(SIGFPE, skip, 0, 0);
    long sum = 0;
    for (long i = 0; i < 3; i++) {
        zero = i == 1 ? 5 : 0;
        long a = 100, d = 0;
        __asm__ volatile(".byte 0x48, 0xf7, 0x31" : "+a"(a), "+d"(d) : "c"(&zero) : "cc", "memory");
        sum = sum * 1000 + a;
    }
    print_number(sum);
    print_number(faults);
    return 0;
}
