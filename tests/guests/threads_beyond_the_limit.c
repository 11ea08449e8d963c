// Twelve threads that are all alive at once: recorded with fewer slots, all of them still run.
// guest: build=dynamic scope=output flags=-pthread,-z,now
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 12 };
static pthread_barrier_t together;
static long sums[THREADS];

static void *work(void *argument) {
    long mine = (long)argument, sum = 0;
    pthread_barrier_wait(&together);
    for (volatile long i = 0; i < 1000; i++) sum += i ^ mine;
    sums[mine] = sum;
    pthread_barrier_wait(&together);
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, 0, THREADS);
    for (long i = 0; i < THREADS; i++) if (pthread_create(&threads[i], 0, work, (void *)i)) return 1;
    long total = 0;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < THREADS; i++) total += sums[i];
    printf("%ld\n", total);
    return 0;
}
