// sigtimedwait takes a blocked signal synchronously; no handler runs.
// guest: build=nolibc
#include "nolibc.h"
static volatile long handled;
static void note(int n, siginfo_t *i, void *c) { (void)n; (void)i; (void)c; handled++; }
int main(void) {
    unsigned long set = 1ul << (SIGUSR1 - 1) | 1ul << (SIGUSR2 - 1);
    on_signal(SIGUSR1, note, 0, 0);
    SYS4(SYS_rt_sigprocmask, SIG_BLOCK, &set, 0, 8);
    raise_signal(SIGUSR1);
    siginfo_t info;
    long got = SYS4(SYS_rt_sigtimedwait, &set, &info, 0, 8);
    print_number(got * 100 + info.si_signo);
    raise_signal(SIGUSR2);
    got = SYS4(SYS_rt_sigtimedwait, &set, &info, 0, 8);
    struct { long s, ns; } soon = {0, 1000000};
    print_number(got * 100 + SYS4(SYS_rt_sigtimedwait, &set, 0, &soon, 8));
    print_number(handled);
    return 0;
}
