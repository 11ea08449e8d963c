// A child stops itself; the parent sees it stopped, continues it, and sees it end.
// guest: build=nolibc scope=exe
#include "nolibc.h"
#include <sys/wait.h>
static volatile long cell = 3;
int main(void) {
    int status = 0;
    long child = SYS1(SYS_fork, 0);
    if (child == 0) {
        cell += 4;
        raise_signal(SIGSTOP);
        cell *= 5;
        SYS1(SYS_exit_group, cell);
    }
    SYS4(SYS_wait4, child, &status, WUNTRACED, 0);
    print_number(WIFSTOPPED(status) * 100 + WSTOPSIG(status));
    SYS2(SYS_kill, child, SIGCONT);
    SYS4(SYS_wait4, child, &status, 0, 0);
    print_number(WEXITSTATUS(status));
    return 0;
}
