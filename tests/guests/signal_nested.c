// A handler that raises another signal, which is handled before the first returns.
// guest: build=nolibc
#include "nolibc.h"
static volatile long trail;
static void inner(int n, siginfo_t *i, void *c) { (void)i; (void)c; trail = trail * 100 + n; }
static void outer(int n, siginfo_t *i, void *c) {
    (void)i; (void)c;
    trail = trail * 100 + 1;
    raise_signal(SIGUSR2);
    trail = trail * 100 + n;
}
int main(void) {
    on_signal(SIGUSR1, outer, 0, 0);
    on_signal(SIGUSR2, inner, 0, 0);
    raise_signal(SIGUSR1);
    raise_signal(SIGUSR1);
    print_number(trail);
    return 0;
}
