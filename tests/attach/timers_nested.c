// A timer at 1 kHz whose handler, on an alternate stack, raises another signal and uses vector
// registers, while the program computes with them.
#include "guest.h"
#include <signal.h>
#include <sys/time.h>

static char stack[64 << 10];
static volatile long alarms, inner, depth;

static void on_user(int signal, siginfo_t *info, void *context) {
    if (info->si_value.sival_int != 77) fail("the value of a signal", info->si_value.sival_int);
    if (depth != 1) fail("depth", depth);
    inner++;
}

static void on_alarm(int signal, siginfo_t *info, void *context) {
    char here;
    depth++;
    alarms++;
    if (&here < stack || &here >= stack + sizeof stack) fail("the alternate stack", 0);
    __asm__ volatile("vpxor %%xmm0, %%xmm0, %%xmm0; vxorps %%ymm3, %%ymm3, %%ymm3" ::: "xmm0", "xmm3");
    if (alarms % 5 == 0) {
        union sigval value = {.sival_int = 77};
        long before = inner;
        sigqueue(getpid(), SIGUSR1, value);
        if (inner != before + 1) fail("the inner handler", inner);
    }
    depth--;
}

int main(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack}, found;
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART}, got;
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
    sigset_t blocked, mask;
    sigaltstack(&alternate, 0);
    sigaction(SIGALRM, &action, 0);
    action.sa_sigaction = on_user;
    action.sa_flags = SA_SIGINFO;
    sigaddset(&action.sa_mask, SIGHUP);
    sigaction(SIGUSR1, &action, 0);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGWINCH);
    sigaddset(&blocked, SIGSEGV);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    setitimer(ITIMER_REAL, &timer, 0);
    dprintf(1, "running\n");
    for (uint64_t x = 1; !over(); x = twice(x, 1000)) {
        __asm__ volatile("vmovups (%0), %%ymm3; mov $20000, %%ecx; 1: dec %%ecx; jnz 1b; vmovups %%ymm3, (%1)"
                         : : "r"(in), "r"(out) : "rcx", "xmm3", "memory", "cc");
        if (memcmp(in, out, sizeof in)) fail("a ymm register", 0);
        // What the kernel, or whoever answers for it, says is what was set.
        sigaction(SIGUSR1, 0, &got);
        if (got.sa_sigaction != on_user || !sigismember(&got.sa_mask, SIGHUP)) fail("a disposition", 0);
        sigprocmask(SIG_BLOCK, 0, &mask);
        if (!sigismember(&mask, SIGWINCH) || !sigismember(&mask, SIGSEGV) || sigismember(&mask, SIGALRM)) fail("the mask", 0);
        sigaltstack(0, &found);
        if (found.ss_sp != stack || found.ss_size != sizeof stack) fail("what the alternate stack is", 0);
    }
    if (alarms < 100 || inner < 10) fail("too few signals", alarms);
    puts("ok");
}
