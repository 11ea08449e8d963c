// SA_RESETHAND: the handler runs once, the second signal has its default effect and kills.
// guest: build=nolibc
#include "nolibc.h"
static void once(int n, siginfo_t *i, void *c) { (void)n; (void)i; (void)c; print("once\n"); }
int main(void) {
    on_signal(SIGUSR1, once, SA_RESETHAND, 0);
    raise_signal(SIGUSR1);
    print("between\n");
    raise_signal(SIGUSR1);
    print("never\n");
    return 0;
}
