// sigsuspend with a timer: the signal can only come inside the call, which then fails with EINTR.
// guest: build=nolibc
#include "nolibc.h"
#include <sys/time.h>
static volatile long rings;
static void ring(int n, siginfo_t *i, void *c) { (void)n; (void)i; (void)c; rings++; }
int main(void) {
    unsigned long alarm = 1ul << (SIGALRM - 1), none = 0;
    on_signal(SIGALRM, ring, 0, 0);
    SYS4(SYS_rt_sigprocmask, SIG_BLOCK, &alarm, 0, 8);
    long result = 0;
    for (int i = 0; i < 3; i++) {
        struct itimerval timer = {{0, 0}, {0, 5000}};
        SYS3(SYS_setitimer, ITIMER_REAL, &timer, 0);
        result += SYS2(SYS_rt_sigsuspend, &none, 8);
    }
    print_number(result);
    print_number(rings);
    return 0;
}
