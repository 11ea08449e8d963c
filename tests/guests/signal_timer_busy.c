// A periodic timer interrupts a busy loop at arbitrary points; registers and flags must survive.
// guest: build=nolibc scope=output
#include "nolibc.h"
#include <sys/time.h>
static volatile long rings;
static void ring(int n, siginfo_t *i, void *c) {
    (void)n; (void)i; (void)c;
    rings++;
    __asm__ volatile("xor %%eax, %%eax\n pxor %%xmm0, %%xmm0\n pxor %%xmm1, %%xmm1" : : : "rax", "xmm0", "xmm1");
}
int main(void) {
    struct itimerval timer = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
    on_signal(SIGALRM, ring, SA_RESTART, 0);
    SYS3(SYS_setitimer, ITIMER_REAL, &timer, 0);
    long wrong = 0, table[16];
    while (rings < 20) {
        unsigned long sum = 0, carry = 0;
        for (int i = 0; i < 16; i++) table[i] = i * 0x1111111111111111;
        __asm__ volatile("xor %%ecx, %%ecx\n clc\n"
                         "1: mov (%2,%%rcx,8), %%rax\n adc %%rax, %0\n lea 1(%%rcx), %%rcx\n"
                         "mov %%rcx, %%rdx\n lea -16(%%rdx), %%rdx\n xchg %%rcx, %%rdx\n jrcxz 2f\n xchg %%rcx, %%rdx\n"
                         "jmp 1b\n 2: adc $0, %1"
                         : "+r"(sum), "+r"(carry) : "r"(table) : "rax", "rcx", "rdx", "cc", "memory");
        unsigned long expected = 0, expected_carry = 0;
        for (int i = 0; i < 16; i++) {
            unsigned long x = (unsigned long)table[i], t = expected + x, c = t < x;
            unsigned long u = t + expected_carry;
            c |= u < t;
            expected = u;
            expected_carry = c;
        }
        wrong += sum != expected || carry != expected_carry;
    }
    SYS3(SYS_setitimer, ITIMER_REAL, &off, 0);
    print_number(wrong);
    return 0;
}
