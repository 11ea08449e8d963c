// Self-loops that fault in the middle of an iteration: repaired, and left by the handler.
// guest: build=nolibc
#include "nolibc.h"
static volatile long faults, index_seen;
static void *leave_to;
static void handle(int n, siginfo_t *info, void *context) {
    (void)n;
    greg_t *r = context_registers(context);
    faults++;
    index_seen = r[REG_RCX];
    if (leave_to) r[REG_RIP] = (greg_t)leave_to;
    else SYS3(SYS_mprotect, (long)info->si_addr & ~4095L, 4096, 3);
}
static long cells[2048];
int main(void) {
    on_signal(SIGSEGV, handle, 0, 0);
    char *pages = map_pages(3 * 4096, 3);
    SYS3(SYS_mprotect, pages + 4096, 4096, 0);
    long sum = 0, *at = (long *)(pages + 4096 - 20 * 8);
    __asm__ volatile("xor %%ecx, %%ecx\n"
                     "1: mov %%rcx, (%1,%%rcx,8)\n add (%2,%%rcx,8), %0\n add %%rcx, (%2,%%rcx,8)\n"
                     "inc %%rcx\n cmp $40, %%rcx\n jne 1b"
                     : "+r"(sum) : "r"(cells), "r"(at) : "rcx", "memory", "cc");
    print_number(sum * 1000 + index_seen);
    SYS3(SYS_mprotect, pages + 4096, 4096, 0);
    long trips = 0;
    __asm__ volatile("lea 2f(%%rip), %%rax\n mov %%rax, %3\n xor %%ecx, %%ecx\n"
                     "1: add %%rcx, (%1,%%rcx,8)\n inc %0\n mov (%2,%%rcx,8), %%rdx\n add %%rdx, 8(%1)\n"
                     "add $1, %%rcx\n jmp 1b\n 2:"
                     : "+r"(trips) : "r"(cells), "r"(at), "m"(leave_to) : "rax", "rcx", "rdx", "memory", "cc");
    print_number(trips * 1000 + index_seen);
    leave_to = 0;
    SYS3(SYS_mprotect, pages + 4096, 4096, 0);
    char *down = pages + 2 * 4096 + 6;
    long count = 30;
    __asm__ volatile("1: addb $3, (%0)\n dec %0\n push %1\n dec %1\n pop %%rcx\n jnz 1b"
                     : "+r"(down), "+r"(count) : : "rcx", "memory", "cc");
    print_number(faults * 1000 + index_seen);
    return 0;
}
