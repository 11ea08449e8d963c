// A forked child with blocks of its parent's, a spawned one, and a process that becomes another program.
// guest: build=dynamic scope=output
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "notes.h"
extern char **environ;
static void *volatile sink;
int main(int argc, char **argv) {
    if (argc > 2) {
        void *p = sink = malloc(600 + argc);
        free(p);
        return 0;
    }
    void *mine = sink = malloc(100), *shared = sink = malloc(200);
    int fork_child = fork();
    if (fork_child == 0) {
        free(shared);
        sink = malloc(300);
        char *args[] = {argv[0], "x", "y", "z", 0};
        execv("/proc/self/exe", args);
        _exit(1);
    }
    int status;
    waitpid(fork_child, &status, 0);
    if (status) return 1;
    free(mine);
    int spawned;
    char *args[] = {argv[0], "x", "y", 0};
    if (posix_spawn(&spawned, "/proc/self/exe", 0, 0, args, environ)) return 1;
    waitpid(spawned, &status, 0);
    int quick = vfork();
    if (quick == 0) _exit(7);
    waitpid(quick, &status, 0);
    free(shared);
    finish(1);
    return WEXITSTATUS(status) != 7;
}
