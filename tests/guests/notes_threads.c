// Eight threads that allocate, and free each other's blocks.
// guest: build=dynamic scope=output flags=-pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "notes.h"
enum { THREADS = 8, BLOCKS = 3000, PLACES = 16 };
static _Atomic(void *) places[PLACES];
static void *work(void *number) {
    unsigned seed = (long)number * 7919 + 1;
    for (int i = 0; i < BLOCKS; i++) {
        seed = seed * 1103515245 + 12345;
        size_t n = 16 + (seed >> 16) % 200;
        char *mine = malloc(n);
        mine[0] = mine[n - 1] = 1;
        free(atomic_exchange(&places[(seed >> 8) % PLACES], mine));
        if (i % 64 == 0) {
            mine = realloc(malloc(30), 3000);
            free(mine);
        }
    }
    return 0;
}
int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    memtrail_enter("test");
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < PLACES; i++) free(places[i]);
    memtrail_leave("test");
    finish(argc);
    return 0;
}
