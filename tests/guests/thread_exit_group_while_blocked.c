// exit_group while other threads block in pause and read.
// guest: build=dynamic scope=exe flags=-pthread,-z,now
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int ends[2];
static sem_t ready;
static void *in_pause(void *argument) { sem_post(&ready); for (;;) pause(); return argument; }
static void *in_read(void *argument) { char c; sem_post(&ready); read(ends[0], &c, 1); return argument; }
int main(void) {
    pthread_t a, b;
    pipe(ends);
    sem_init(&ready, 0, 0);
    pthread_create(&a, 0, in_pause, 0);
    sem_wait(&ready);
    pthread_create(&b, 0, in_read, 0);
    sem_wait(&ready);
    usleep(400000);  // until both are surely inside their calls, on the busiest machine
    write(1, "leaving\n", 8);
    _exit(9);
}
