// Two threads change one signal's disposition at the same time: it is never torn, and what the kernel does is what it says.
// guest: build=dynamic scope=output flags=-pthread,-z,now
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { ROUNDS = 200 };
static volatile int caught;
static volatile int came, turn;

// A barrier that spins, so that the threads go on at the same moment.
static void meet(void) {
    int now = turn;
    if (__atomic_add_fetch(&came, 1, __ATOMIC_SEQ_CST) == 3) { came = 0; turn = now + 1; return; }
    for (long i = 0; turn == now; i++) if (i > 100) sched_yield();
}

static long torn, wrong;

static void on_signal(int number) { caught++; }

static struct sigaction handled(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaddset(&action.sa_mask, SIGUSR2);
    return action;
}

static struct sigaction ignored(void) {
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaddset(&action.sa_mask, SIGHUP);
    return action;
}

static int is_whole(const struct sigaction *a) {
    int hup = sigismember(&a->sa_mask, SIGHUP), usr2 = sigismember(&a->sa_mask, SIGUSR2);
    if (a->sa_handler == on_signal) return (a->sa_flags & SA_RESTART) && usr2 && !hup;
    return a->sa_handler == SIG_IGN && !(a->sa_flags & SA_RESTART) && hup && !usr2;
}

static void *change(void *argument) {
    struct sigaction mine = argument ? handled() : ignored(), old;
    for (int round = 0; round < ROUNDS; round++) {
        meet();
        sigaction(SIGUSR1, &mine, &old);
        if (!is_whole(&old)) __atomic_fetch_add(&torn, 1, __ATOMIC_RELAXED);
        meet();
    }
    return 0;
}

int main(void) {
    struct sigaction first = ignored(), now;
    sigaction(SIGUSR1, &first, 0);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, change, (void *)i);
    for (int round = 0; round < ROUNDS; round++) {
        meet();
        meet();
        sigaction(SIGUSR1, 0, &now);
        caught = 0;
        kill(getpid(), SIGUSR1);
        // All threads may take it; this one waits until one has, or none will.
        for (int i = 0; i < 100 && now.sa_handler == on_signal && !caught; i++) usleep(1000);
        if (caught != (now.sa_handler == on_signal)) wrong++;
        if (!is_whole(&now)) torn++;
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%ld torn, %ld wrong\n", torn, wrong);
    return 0;
}
