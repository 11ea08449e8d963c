// A signal the program sends to itself, with kill and tgkill, handled at once.
// guest: build=nolibc
#include "nolibc.h"
static volatile long seen;
static void note(int n, siginfo_t *info, void *c) { (void)c; seen = seen * 100 + n + (info->si_code == SI_TKILL); }
int main(void) {
    on_signal(SIGUSR1, note, 0, 0);
    on_signal(SIGUSR2, note, 0, 0);
    raise_signal(SIGUSR1);
    print_number(seen);
    SYS3(SYS_tgkill, SYS1(SYS_getpid, 0), SYS1(SYS_gettid, 0), SIGUSR2);
    print_number(seen);
    return 0;
}
