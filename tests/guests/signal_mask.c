// Blocked signals wait, are seen pending, and come in when unblocked; a handler's mask blocks others meanwhile.
// guest: build=nolibc
#include "nolibc.h"
static volatile long trail;
static unsigned long bit(int n) { return 1ul << (n - 1); }
static void note(int n, siginfo_t *i, void *c) {
    (void)i; (void)c;
    trail = trail * 100 + n;
    if (n == SIGUSR1) { raise_signal(SIGUSR2); trail = trail * 100 + 1; }
}
int main(void) {
    unsigned long set = bit(SIGUSR1) | bit(SIGUSR2), old, pending;
    on_signal(SIGUSR1, note, 0, bit(SIGUSR2));
    on_signal(SIGUSR2, note, 0, 0);
    SYS4(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, 8);
    raise_signal(SIGUSR2);
    raise_signal(SIGUSR2);
    SYS2(SYS_rt_sigpending, &pending, 8);
    print_number(trail);
    print_number((long)pending);
    SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &old, 0, 8);
    print_number(trail);
    raise_signal(SIGUSR1);
    print_number(trail);
    SYS4(SYS_rt_sigprocmask, SIG_BLOCK, 0, &pending, 8);
    print_number((long)pending);
    return 0;
}
