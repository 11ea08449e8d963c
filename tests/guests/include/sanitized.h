// Threads, a hot loop without races, blocks of many sizes, and an exit status of its own: what the
// guests that are built with a sanitizer do.
#pragma once
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 3000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long total;

static void *work(void *argument) {
    unsigned long mine = 0, seed = (unsigned long)argument;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        mine += seed >> 60;
    }
    for (size_t bytes = 16; bytes < 1 << 16; bytes *= 3) {
        unsigned char *block = malloc(bytes);
        memset(block, (int)bytes, bytes);
        mine += block[bytes / 2];
        free(block);
    }
    pthread_mutex_lock(&lock);
    total += mine;
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    printf("%lu\n", total);
    return 3;
}
