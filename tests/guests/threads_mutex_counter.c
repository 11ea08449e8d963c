// Threads contend for a mutex and an atomic counter: no update may be lost.
// guest: build=dynamic scope=output flags=-pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long guarded;
static atomic_long counter;
static void *work(void *argument) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&lock);
        guarded += 3;
        pthread_mutex_unlock(&lock);
        atomic_fetch_add(&counter, 1);
    }
    return argument;
}
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%ld %ld\n", guarded, (long)counter);
    return 0;
}
