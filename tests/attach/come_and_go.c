// Threads that live for a moment, children that are forked, and programs that are started.
#include "guest.h"
#include <pthread.h>
#include <sys/wait.h>

static void *works(void *p) {
    long n = (long)p;
    volatile char *memory = malloc(1000 + n);
    for (int i = 0; i < 3000; i++) memory[i % 1000] = i;
    free((void *)memory);
    if (n % 3 == 0) usleep(500);
    return (void *)(2 * n + 1);
}

int main(void) {
    long made = 0;
    dprintf(1, "running\n");
    for (; !over(); made++) {
        pthread_t threads[8];
        for (long i = 0; i < 8; i++)
            if (pthread_create(&threads[i], 0, works, (void *)i)) fail("pthread_create", made);
        for (long i = 0; i < 8; i++) {
            void *result;
            pthread_join(threads[i], &result);
            if ((long)result != 2 * i + 1) fail("a thread's result", (long)result);
        }
        if (made % 50 == 0) {
            int status;
            pid_t child = fork();
            if (child == 0) {
                twice(made, 100000);
                _exit(7);
            }
            if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) fail("a child", status);
        }
        if (made % 100 == 0) {
            int status = system("exit 5");
            if (WEXITSTATUS(status) != 5) fail("a command", status);
        }
    }
    if (made < 10) fail("too few rounds", made);
    puts("ok");
}
