// SA_NODEFER: a handler interrupted by its own signal, three deep; without it the signal waits.
// guest: build=nolibc
#include "nolibc.h"
static volatile long depth, deepest, runs;
static void again(int n, siginfo_t *i, void *c) {
    (void)i; (void)c;
    runs++;
    if (++depth > deepest) deepest = depth;
    if (runs < 4) raise_signal(n);
    depth--;
}
int main(void) {
    on_signal(SIGUSR1, again, SA_NODEFER, 0);
    raise_signal(SIGUSR1);
    print_number(deepest * 10 + runs);
    runs = deepest = 0;
    on_signal(SIGUSR1, again, 0, 0);
    raise_signal(SIGUSR1);
    print_number(deepest * 10 + runs);
    return 0;
}
