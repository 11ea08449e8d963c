// A signal during a blocking read: EINTR without SA_RESTART; with it the read goes on and gets its data.
// guest: build=nolibc
#include "nolibc.h"
#include <sys/time.h>
static int ends[2];
static volatile long rings;
static void ring(int n, siginfo_t *i, void *c) { (void)n; (void)i; (void)c; rings++; SYS3(SYS_write, ends[1], "x", 1); }
static void plain(int n, siginfo_t *i, void *c) { (void)n; (void)i; (void)c; rings++; }
int main(void) {
    char byte = 0;
    // Long enough to be inside the call before it rings, on the busiest machine: only then is it an interruption.
    struct itimerval timer = {{0, 0}, {0, 250000}};
    SYS1(SYS_pipe, ends);
    on_signal(SIGALRM, plain, 0, 0);
    SYS3(SYS_setitimer, ITIMER_REAL, &timer, 0);
    print_number(SYS3(SYS_read, ends[0], &byte, 1));
    on_signal(SIGALRM, ring, SA_RESTART, 0);
    SYS3(SYS_setitimer, ITIMER_REAL, &timer, 0);
    print_number(SYS3(SYS_read, ends[0], &byte, 1));
    print_number(rings * 1000 + byte);
    on_signal(SIGALRM, plain, SA_RESTART, 0);
    SYS3(SYS_setitimer, ITIMER_REAL, &timer, 0);
    struct { long s, ns; } pause = {30, 0};
    print_number(SYS2(SYS_nanosleep, &pause, &pause));
    print_number(rings);
    return 0;
}
