// fork: parent and child touch their own copies; the parent waits and reads the child's exit code.
// guest: build=nolibc
#include "nolibc.h"
static volatile long cell = 5;
int main(void) {
    for (int i = 0; i < 2; i++) {
        long child = SYS1(SYS_fork, 0);
        if (child == 0) {
            for (int k = 0; k < 10; k++) cell += k;
            print_number(cell);
            SYS1(SYS_exit_group, 30 + i);
        }
        int status = 0;
        SYS4(SYS_wait4, child, &status, 0, 0);
        cell += status >> 8 & 255;
    }
    print_number(cell);
    return 0;
}
