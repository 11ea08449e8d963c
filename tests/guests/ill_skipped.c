// SIGILL from ud2, skipped by the handler, amid accesses.
// guest: build=nolibc
#include "nolibc.h"
static volatile long faults;
static void skip(int n, siginfo_t *info, void *context) {
    (void)n; (void)info;
    faults++;
    context_registers(context)[REG_RIP] += 2;
}
int main(void) {
    on_signal(SIGILL, skip, 0, 0);
    volatile long cell = 1;
    for (int i = 0; i < 4; i++) {
        cell *= 3;
        __asm__ volatile("ud2" : : : "memory");
        cell += faults;
    }
    print_number(cell);
    return 0;
}
