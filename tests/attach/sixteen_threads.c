// Threads that compute, and threads in every kind of wait that the kernel restarts in its own way:
// none may return early, late by much, or with EINTR.
#include "guest.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int pipes[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long token;
static volatile long rounds[16];

static void *computes(void *p) {
    for (uint64_t x = (uint64_t)p + 1;; rounds[(long)p]++) x = twice(x, 10000);
}
static void *sleeps(void *p) {
    for (;; rounds[(long)p]++) {
        struct timespec t = {0, 30000000};
        double begin = now();
        if (nanosleep(&t, 0)) fail("nanosleep", 0);
        if (now() - begin < 0.0299) fail("nanosleep was short", (now() - begin) * 1e6);
    }
}
static void *reads(void *p) {
    for (long number, next = 0;; rounds[(long)p]++) {
        if (read(pipes[0], &number, 8) != 8) fail("read", next);
        if (number != next++) fail("the order of the pipe", number);
    }
}
static void *writes(void *p) {
    for (long number = 0;; number++, rounds[(long)p]++) {
        if (usleep(7000)) fail("usleep", 0);
        if (write(pipes[1], &number, 8) != 8) fail("write", number);
    }
}
static void *waits(void *p) {
    for (long seen = 0;; rounds[(long)p]++) {
        pthread_mutex_lock(&mutex);
        while (token == seen) pthread_cond_wait(&condition, &mutex);
        if (token < seen) fail("the token", token);
        seen = token;
        pthread_mutex_unlock(&mutex);
    }
}
static void *wakes(void *p) {
    for (;; rounds[(long)p]++) {
        if (poll(0, 0, 5)) fail("poll", 0);
        pthread_mutex_lock(&mutex);
        token++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
    }
}
static void *epolls(void *p) {
    struct epoll_event event;
    int fd = epoll_create1(0);
    for (;; rounds[(long)p]++) {
        if (epoll_wait(fd, &event, 1, 20)) fail("epoll_wait", 0);
    }
}
static void *selects(void *p) {
    for (;; rounds[(long)p]++) {
        struct timeval t = {0, 11000};
        if (select(0, 0, 0, 0, &t)) fail("select", 0);
    }
}
static void *waits_for_signals(void *p) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    for (;; rounds[(long)p]++) {
        struct timespec t = {0, 13000000};
        if (sigtimedwait(&set, 0, &t) != -1 || errno != EAGAIN) fail("sigtimedwait", 0);
    }
}
static void *waits_for_a_semaphore(void *p) {
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    for (;; rounds[(long)p]++) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += 15000000;
        if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
        if (sem_timedwait(&semaphore, &t) != -1 || errno != ETIMEDOUT) fail("sem_timedwait", 0);
    }
}

int main(void) {
    void *(*begin[15])(void *) = {computes, computes, computes, sleeps, sleeps, sleeps, reads,
                                  writes, waits, waits, wakes, epolls, selects, waits_for_signals,
                                  waits_for_a_semaphore};
    pthread_t thread;
    if (pipe(pipes)) fail("pipe", 0);
    for (long i = 0; i < 15; i++)
        if (pthread_create(&thread, 0, begin[i], (void *)i)) fail("pthread_create", i);
    dprintf(1, "running\n");
    // The sixteenth is in a read that nothing ends but the input.
    char byte;
    if (read(0, &byte, 1) != 0) fail("the input", 0);
    for (int i = 0; i < 15; i++)
        if (rounds[i] < 3) fail("a thread stands still", i);
    puts("ok");
    fflush(stdout);
    _exit(0);
}
