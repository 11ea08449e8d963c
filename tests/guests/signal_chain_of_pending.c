// Several signals unblocked at once: handlers stack up before the interrupted code goes on; queued ones keep order.
// guest: build=nolibc
#include "nolibc.h"
static volatile long trail, count;
static void note(int n, siginfo_t *info, void *c) { (void)c; trail = trail * 10 + (n == 40 ? info->si_value.sival_int : 9); count++; }
int main(void) {
    unsigned long all = ~0ul & ~(1ul << (SIGTRAP - 1)), none = 0;
    on_signal(SIGUSR1, note, 0, all);
    on_signal(40, note, 0, all);
    SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8);
    for (int i = 1; i <= 3; i++) {
        siginfo_t info = {0};
        info.si_signo = 40;
        info.si_code = SI_QUEUE;
        info.si_value.sival_int = i;
        SYS3(SYS_rt_sigqueueinfo, SYS1(SYS_getpid, 0), 40, &info);
    }
    raise_signal(SIGUSR1);
    SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, 8);
    print_number(trail);
    print_number(count);
    return 0;
}
