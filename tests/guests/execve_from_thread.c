// A thread other than the first executes a new program: the others vanish, the process id stays.
// guest: build=static scope=output flags=-pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char **arguments;
static void *replace(void *pid) {
    char text[24];
    sprintf(text, "%d", *(int *)pid);
    execv(arguments[0], (char *[]){arguments[0], text, 0});
    return 0;
}
int main(int argc, char **argv) {
    if (argc > 1) {
        printf("same process: %d\n", atoi(argv[1]) == getpid());
        return 4;
    }
    pthread_t thread;
    int pid = getpid();
    arguments = argv;
    pthread_create(&thread, 0, replace, &pid);
    for (;;) pause();
}
