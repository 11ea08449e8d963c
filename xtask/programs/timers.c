/* A 1 kHz interval timer and a POSIX timer on an alternate stack interrupt a
 * computation whose result must not change by a bit: signals must save and
 * restore everything, vector registers and flags included. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t ticks, alternate_ticks;

static void on_alarm(int signal)
{
    (void)signal;
    double noise = ticks;
    ticks = (sig_atomic_t)(noise * 1.0 + 1.0);
}

static void on_timer(int signal, siginfo_t *info, void *context)
{
    char scratch[256];
    (void)signal, (void)context;
    memset(scratch, info->si_code, sizeof scratch);
    alternate_ticks += scratch[17] == (char)info->si_code;
}

/* A fixed chunk of arithmetic that a lost register or flag would spoil. */
static unsigned long chunk(void)
{
    unsigned long hash = 1469598103934665603ul;
    double x = 0.5;
    for (int i = 0; i < 20000; i++) {
        hash = (hash ^ (unsigned long)i) * 1099511628211ul;
        x = 3.75 * x * (1 - x);
    }
    return hash ^ (unsigned long)(x * 1e9);
}

int main(void)
{
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, 0);
    struct sigaction alarm_action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct sigaction timer_action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    unsigned long expected = chunk();
    sigaction(SIGALRM, &alarm_action, 0);
    sigaction(SIGRTMIN, &timer_action, 0);

    struct itimerval every_ms = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &every_ms, 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    struct itimerspec also = {{0, 1000000}, {0, 1000000}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &also, 0))
        return 2;

    long chunks = 0;
    while (ticks < 1500 || alternate_ticks < 1500) {
        chunks++;
        if (chunk() != expected) {
            printf("spoilt\n");
            return 1;
        }
    }
    puts("1500 ticks of each, nothing spoilt");
    return chunks == 0;
}
