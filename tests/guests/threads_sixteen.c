// Sixteen threads at once, each on its own part of an array, with thread-local storage.
// guest: build=dynamic scope=exe flags=-pthread,-z,now
#include <pthread.h>
#include <stdio.h>
static _Thread_local volatile long counter;
static long sums[16];
static void *work(void *argument) {
    long id = (long)argument;
    for (int i = 0; i < 50; i++) counter += i * id;
    sums[id] = counter;
    return 0;
}
int main(void) {
    pthread_t threads[16];
    long total = 0;
    for (long i = 0; i < 16; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 16; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < 16; i++) total += sums[i];
    printf("%ld %ld\n", total, counter);
    return 0;
}
