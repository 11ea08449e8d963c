// Threads made by a bare clone, ended by exit, awaited through the cleared thread id; no library code at all.
// guest: build=nolibc scope=exe
#include "nolibc.h"
#include <sched.h>
static volatile int alive[4];
static long sums[4];
static char stacks[4][8192] __attribute__((aligned(16)));
__attribute__((noinline, used)) static void work(long id) {
    long nap[2] = {0, 50000000}; // so that the other side always has to wait
    SYS2(SYS_nanosleep, nap, 0);
    for (long i = 0; i < 100; i++) sums[id] += i ^ id;
    SYS1(SYS_exit, 0);
}
static void start(long id) {
    long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    long *top = (long *)(stacks[id] + sizeof stacks[id] - 16);
    alive[id] = 1;
    top[0] = id;
    register long r10 __asm__("r10") = (long)&alive[id];
    long result;
    __asm__ volatile("syscall\n test %%rax, %%rax\n jnz 1f\n pop %%rdi\n call work\n hlt\n 1:"
                     : "=a"(result) : "a"(SYS_clone), "D"(flags), "S"(top), "d"(0), "r"(r10) : "rcx", "r11", "memory");
}
int main(void) {
    for (long i = 0; i < 4; i++) {
        start(i);
        // Only the kernel looks at the cell: how often the program would, depends on time.
        sys6(SYS_futex, (long)&alive[i], 0, 1, 0, 0, 0);
    }
    for (int i = 0; i < 4; i++) print_number(sums[i]);
    return 0;
}
