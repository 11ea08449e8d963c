// Forks a child when it is told to, and both go on until their input ends.
#include "guest.h"
#include <signal.h>
#include <sys/wait.h>

static volatile sig_atomic_t told;
static void tell(int signal) { told = 1; }

int main(void) {
    int status;
    pid_t child = 0;
    signal(SIGUSR1, tell);
    dprintf(1, "running\n");
    for (uint64_t x = 1; !over(); x = twice(x, 10000)) {
        if (told && !child) {
            child = fork();
            if (child) dprintf(1, "%d\n", child);
            if (!child) {
                for (uint64_t y = 1; !over(); y = twice(y, 10000)) {}
                _exit(9);
            }
        }
    }
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 9) fail("the child", status);
    puts("ok");
}
