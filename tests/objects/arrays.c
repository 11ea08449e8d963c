/* The five arrays of the object-relative profiling paper (its Table II): each is walked through by a thread of its own, a line
 * at a time, and of its four quarters 0, 1, 2, 3 and 4 are written to, the others read. Argument: megabytes of each.
 * So that nothing of them is in a smaller cache when a walk begins, they are cleared in such an order that the last one is walked from its beginning; and each
 * thread begins with a call of the allocator, which puts its walk behind the allocations that creating it takes, and so behind the clearing. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

struct part {
    char *array;
    size_t bytes;
    int written; /* quarters */
    int backwards;
};

static void *walk(void *argument) {
    free(malloc(1000));
    struct part part = *(struct part *)argument;
    size_t lines = part.bytes / LINE, reads = lines / 4 * (4 - part.written);
    volatile char *array = part.array;
    for (size_t i = 0; i < reads; i++)
        (void)array[(part.backwards ? lines - 1 - i : i) * LINE];
    for (size_t i = reads; i < lines; i++)
        array[(part.backwards ? lines - 1 - i : i) * LINE] = 1;
    return 0;
}

int main(int argc, char **argv) {
    size_t bytes = (argc > 1 ? atol(argv[1]) : 256) << 20;
    char *a0 = aligned_alloc(LINE, bytes);
    char *a1 = aligned_alloc(LINE, bytes);
    char *a2 = aligned_alloc(LINE, bytes);
    char *a3 = aligned_alloc(LINE, bytes);
    char *a4 = aligned_alloc(LINE, bytes);
    char *arrays[] = {a0, a1, a2, a3, a4};
    struct part parts[5];
    pthread_t threads[5];
    for (int i = 4; i >= 0; i--)
        memset(arrays[i], 0, bytes);
    for (int i = 0; i < 5; i++) {
        parts[i] = (struct part){arrays[i], bytes, i, i > 2};
        pthread_create(&threads[i], 0, walk, &parts[i]);
    }
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], 0);
    return 0;
}
