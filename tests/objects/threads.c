/* Eight threads, each with 200 blocks of 48 bytes that it writes six words of; the blocks are read and freed by another thread.
 *   block: 1600 blocks, 9600 writes, 9600 reads by work.
 * What a thread does between two of its allocator calls has no order against the calls of others, not even by a barrier. So each thread makes
 * such a call on both sides of it: the writes are before the first, the first of all calls behind the barrier is after them, and the reads are after that. */
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 8, BLOCKS = 200, WORDS = 6 };

static long *made[THREADS][BLOCKS];
static long sums[THREADS];
static pthread_barrier_t all;

static void *work(void *number) {
    long self = (long)number;
    for (int i = 0; i < BLOCKS; i++) {
        long *block = malloc(WORDS * sizeof *block);
        for (int j = 0; j < WORDS; j++)
            block[j] = j;
        made[self][i] = block;
    }
    free(malloc(1000));
    pthread_barrier_wait(&all);
    free(malloc(1000));
    long sum = 0, other = (self + 3) % THREADS;
    for (int i = 0; i < BLOCKS; i++) {
        long *block = made[other][i];
        for (int j = 0; j < WORDS; j++)
            sum += block[j];
        free(block);
    }
    sums[self] = sum;
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&all, 0, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], 0);
        sum += sums[i];
    }
    return sum == THREADS * BLOCKS * 15 ? 0 : 1;
}
