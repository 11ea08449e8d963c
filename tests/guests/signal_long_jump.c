// siglongjmp out of a SIGSEGV handler, again and again, and out of a raised signal's handler.
// guest: build=static
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static sigjmp_buf back;
static void jump(int n) { siglongjmp(back, n); }
int main(void) {
    volatile int faults = 0, raised = 0;
    signal(SIGSEGV, jump);
    signal(SIGUSR1, jump);
    for (volatile int i = 0; i < 5; i++) {
        int from = sigsetjmp(back, 1);
        if (from == 0) {
            if (i & 1) raise(SIGUSR1);
            *(volatile int *)8 = i;
        }
        if (from == SIGSEGV) faults++;
        if (from == SIGUSR1) raised++;
    }
    char text[32];
    int n = snprintf(text, sizeof text, "%d %d\n", faults, raised);
    return write(1, text, n) != n;
}
