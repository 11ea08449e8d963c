// vfork: the child runs on the parent's memory and stack until it executes or exits.
// guest: build=nolibc
#include "nolibc.h"
static volatile long shared;
int main(void) {
    int status = 0;
    long child;
    __asm__ volatile("mov $58, %%eax\n syscall" : "=a"(child) : : "rcx", "r11", "memory");
    if (child == 0) {
        shared += 11;
        SYS1(SYS_exit, 4);
    }
    SYS4(SYS_wait4, child, &status, 0, 0);
    print_number(shared * 1000 + (status >> 8));
    __asm__ volatile("mov $58, %%eax\n syscall" : "=a"(child) : : "rcx", "r11", "memory");
    if (child == 0) {
        static char *const argv[] = {"/nonexistent/program", 0};
        shared += SYS3(SYS_execve, argv[0], argv, 0);
        SYS1(SYS_exit, 9);
    }
    SYS4(SYS_wait4, child, &status, 0, 0);
    print_number(shared * 1000 + (status >> 8));
    return 0;
}
