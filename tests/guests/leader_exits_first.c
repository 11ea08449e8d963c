// The first thread ends; another goes on and ends the process.
// guest: build=dynamic scope=output flags=-pthread
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_t leader;
static void *work(void *argument) {
    pthread_join(leader, 0);
    write(1, "last\n", 5);
    _exit(6);
}
int main(void) {
    pthread_t thread;
    leader = pthread_self();
    pthread_create(&thread, 0, work, 0);
    pthread_exit(0);
}
