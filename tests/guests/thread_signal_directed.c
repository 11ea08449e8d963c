// pthread_kill to a thread blocked in sigwait-like suspension; each thread has its own mask.
// guest: build=static scope=output flags=-pthread
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile sig_atomic_t got;
static pthread_t worker;
static void note(int n) { got += pthread_equal(pthread_self(), worker) ? n : 1000; }
static void *work(void *argument) {
    sigset_t none;
    sigemptyset(&none);
    for (int i = 0; i < 3; i++) sigsuspend(&none);
    return argument;
}
int main(void) {
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    signal(SIGUSR1, note);
    pthread_sigmask(SIG_BLOCK, &usr1, 0);
    pthread_create(&worker, 0, work, 0);
    for (int i = 1; i <= 3; i++) {
        pthread_kill(worker, SIGUSR1);
        while (got < i * SIGUSR1) usleep(2000);
    }
    pthread_join(worker, 0);
    printf("%d\n", (int)got);
    return 0;
}
