// posix_spawn of the program itself, and of a program that does not exist.
// guest: build=dynamic scope=exe
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc > 1) {
        write(1, "spawned\n", 8);
        return 5;
    }
    pid_t child;
    int status = 0;
    char *next[] = {argv[0], "child", 0}, *none[] = {0};
    int result = posix_spawn(&child, argv[0], 0, 0, next, none);
    waitpid(child, &status, 0);
    char text[64];
    int n = snprintf(text, sizeof text, "%d %d\n", result, WEXITSTATUS(status));
    write(1, text, n);
    result = posix_spawn(&child, "/nonexistent/program", 0, 0, next, none);
    n = snprintf(text, sizeof text, "%s\n", strerror(result));
    write(1, text, n);
    return 0;
}
