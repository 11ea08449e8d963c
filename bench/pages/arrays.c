// The microbenchmark of paper 004 (IV.B): five arrays, a thread for each, a step of one cache line.
// a0 is only read, of a1 to a3 the first 3/4, 2/4 and 1/4 of the lines are read and the others
// written, a4 is only written; a3 and a4 backward. Usage: arrays [MB of each array]
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, ARRAYS = 5 };

struct job {
    volatile char *array;
    long lines, reads, backward;
    long sum;
};

static void *traverse(void *argument) {
    struct job *job = argument;
    long sum = 0;
    for (long i = 0; i < job->lines; i++) {
        volatile char *at = job->array + LINE * (job->backward ? job->lines - 1 - i : i);
        if (i < job->reads)
            sum += *at;
        else
            *at = 1;
    }
    job->sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    long bytes = (argc > 1 ? atol(argv[1]) : 256) << 20;
    char *a0 = aligned_alloc(2 << 20, bytes);
    char *a1 = aligned_alloc(2 << 20, bytes);
    char *a2 = aligned_alloc(2 << 20, bytes);
    char *a3 = aligned_alloc(2 << 20, bytes);
    char *a4 = aligned_alloc(2 << 20, bytes);
    char *arrays[ARRAYS] = {a0, a1, a2, a3, a4};
    struct job jobs[ARRAYS];
    pthread_t threads[ARRAYS];
    for (int i = 0; i < ARRAYS; i++) {
        memset(arrays[i], 0, bytes);
        long lines = bytes / LINE;
        jobs[i] = (struct job){arrays[i], lines, lines / 4 * (4 - i), i >= 3, 0};
    }
    for (int i = 0; i < ARRAYS; i++)
        pthread_create(&threads[i], NULL, traverse, &jobs[i]);
    long sum = 0;
    for (int i = 0; i < ARRAYS; i++) {
        pthread_join(threads[i], NULL);
        sum += jobs[i].sum;
    }
    printf("%ld\n", sum);
    return 0;
}
