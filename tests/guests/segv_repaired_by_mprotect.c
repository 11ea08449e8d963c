// Loads, stores and read-modify-writes that fault once and are retried after the handler opens the page.
// guest: build=nolibc
#include "nolibc.h"
static volatile long faults;
static void open_page(int n, siginfo_t *info, void *context) {
    (void)n; (void)context;
    faults++;
    SYS3(SYS_mprotect, (long)info->si_addr & ~4095L, 4096, 3);
}
int main(void) {
    volatile long *p = map_pages(4096, 0);
    on_signal(SIGSEGV, open_page, 0, 0);
    long sum = 0;
    for (int i = 0; i < 4; i++) {
        SYS3(SYS_mprotect, p, 4096, i & 1 ? PROT_READ : 0);
        switch (i) {
        case 0: sum += p[3]; break;
        case 1: p[4] = 5; break;
        case 2: p[4] += 7; break;
        case 3: __asm__ volatile("push %%rbx\n push %1\n addq $9, %0\n pop %%rcx\n pop %%rbx"
                                 : "+m"(p[4]) : "r"(sum) : "rcx"); break;
        }
    }
    print_number(sum + p[4]);
    print_number(faults);
    return 0;
}
