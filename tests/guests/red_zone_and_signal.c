// Values kept below rsp survive a fault handler, whose frame must skip the red zone.
// guest: build=nolibc
#include "nolibc.h"
static volatile long faults;
static void open_page(int n, siginfo_t *info, void *c) {
    (void)n; (void)c;
    volatile char junk[600];
    for (int i = 0; i < 600; i++) junk[i] = (char)i;
    faults++;
    SYS3(SYS_mprotect, (long)info->si_addr & ~4095L, 4096, 3);
}
int main(void) {
    on_signal(SIGSEGV, open_page, 0, 0);
    long *p = map_pages(4096, 0), sum = 0;
    for (int i = 0; i < 3; i++) {
        SYS3(SYS_mprotect, p, 4096, 0);
        long out;
        __asm__ volatile("movq $11, -8(%%rsp)\n movq $22, -64(%%rsp)\n movq $33, -128(%%rsp)\n"
                         "addq $1, (%1)\n"
                         "mov -8(%%rsp), %0\n add -64(%%rsp), %0\n add -128(%%rsp), %0"
                         : "=&r"(out) : "r"(p) : "memory", "cc");
        sum = sum * 100 + out;
    }
    print_number(sum);
    print_number(faults + p[0]);
    return 0;
}
