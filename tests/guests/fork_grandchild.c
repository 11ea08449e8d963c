// A child that forks in turn; each ends before its parent goes on.
// guest: build=static
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static int descend(int depth) {
    if (depth == 0) return 3;
    pid_t child = fork();
    if (child == 0) _exit(descend(depth - 1) * 2);
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) + 1;
}
int main(void) {
    printf("%d\n", descend(3));
    return 0;
}
