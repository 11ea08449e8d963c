/* 200 threads alive at once: a barrier, a mutex, atomics, thread-local data,
 * then exits in any order. Output is independent of scheduling. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 200, ROUNDS = 500 };

static pthread_barrier_t start;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_long together;
static long guarded;
static _Thread_local long own;

static void *work(void *argument)
{
    long id = (long)argument;
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        own += id;
        atomic_fetch_add(&together, 1);
        pthread_mutex_lock(&lock);
        guarded += i;
        pthread_mutex_unlock(&lock);
    }
    long *result = malloc(sizeof *result);
    if (result)
        *result = own;
    return result;
}

int main(void)
{
    pthread_t thread[THREADS];
    long sum = 0;
    pthread_barrier_init(&start, 0, THREADS);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], 0, work, (void *)i))
            return 2;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        if (!result)
            return 3;
        sum += *(long *)result;
        free(result);
    }
    printf("%ld %ld %ld\n", sum, atomic_load(&together), guarded);
    return 0;
}
