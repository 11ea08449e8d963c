// SIGTRAP from int3 reaches the program's own handler, repeatedly.
// guest: build=nolibc
#include "nolibc.h"
static volatile long traps;
static void count(int n, siginfo_t *info, void *context) {
    (void)n; (void)info; (void)context;
    traps += 1;
}
int main(void) {
    on_signal(SIGTRAP, count, 0, 0);
    volatile long cell = 1;
    for (int i = 0; i < 4; i++) {
        cell += 3;
        __asm__ volatile("int3" : : : "memory");
        cell *= traps;
    }
    print_number(cell);
    raise_signal(SIGTRAP);
    print_number(traps);
    return 0;
}
