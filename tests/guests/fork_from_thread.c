// A thread forks; only it exists in the child, where it goes on and exits.
// guest: build=dynamic scope=exe flags=-pthread,-z,now
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long cell = 1;
static void *work(void *argument) {
    cell += 10;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 5; i++) cell *= 2;
        _exit(cell & 127);
    }
    int status;
    waitpid(child, &status, 0);
    return (void *)(long)WEXITSTATUS(status);
}
int main(void) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, &result);
    printf("%ld %ld\n", (long)result, cell);
    return 0;
}
