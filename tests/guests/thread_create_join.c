// One thread made and joined: its own stack, a shared cell, a result.
// guest: build=dynamic scope=exe flags=-pthread,-z,now
#include <pthread.h>
#include <stdio.h>
static long shared = 1;
static void *work(void *argument) {
    long sum = 0, local[64];
    for (int i = 0; i < 64; i++) local[i] = i * (long)argument;
    for (int i = 0; i < 64; i++) sum += local[i];
    shared += sum;
    return (void *)sum;
}
int main(void) {
    pthread_t thread;
    void *result;
    for (long i = 1; i < 4; i++) {
        pthread_create(&thread, 0, work, (void *)i);
        pthread_join(thread, &result);
        printf("%ld %ld\n", (long)result, shared);
    }
    return 0;
}
