// The least a guest without libc needs: raw system calls, printing, signal handlers, start-up.
#pragma once
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <ucontext.h>
#include <sys/syscall.h>
#include <sys/mman.h>

static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#define SYS1(n, a) sys6(n, (long)(a), 0, 0, 0, 0, 0)
#define SYS2(n, a, b) sys6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define SYS3(n, a, b, c) sys6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYS4(n, a, b, c, d) sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

static void print(const char *text) {
    long n = 0;
    while (text[n]) n++;
    SYS3(SYS_write, 1, text, n);
}
static void print_number(long value) {
    char digits[24];
    int at = 23;
    unsigned long v = value < 0 ? -(unsigned long)value : (unsigned long)value;
    digits[at--] = '\n';
    do { digits[at--] = '0' + v % 10; v /= 10; } while (v);
    if (value < 0) digits[at--] = '-';
    SYS3(SYS_write, 1, digits + at + 1, 23 - at);
}
static inline void *map_pages(long bytes, int protection) {
    return (void *)sys6(SYS_mmap, 0, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

struct kernel_sigaction { void *handler; unsigned long flags; void *restorer; unsigned long mask; };
__attribute__((naked, unused)) static void restore(void) { __asm__("mov $15, %eax\n syscall"); }
typedef void (*handler_fn)(int, siginfo_t *, void *);
static inline void on_signal(int number, handler_fn handler, unsigned long flags, unsigned long mask) {
    struct kernel_sigaction action = {(void *)handler, flags | SA_SIGINFO | 0x04000000, (void *)restore, mask};
    SYS4(SYS_rt_sigaction, number, &action, 0, 8);
}
static inline greg_t *context_registers(void *context) { return ((ucontext_t *)context)->uc_mcontext.gregs; }
static inline void raise_signal(int number) { SYS2(SYS_kill, SYS1(SYS_getpid, 0), number); }

void *memcpy(void *to, const void *from, size_t n) {
    for (size_t i = 0; i < n; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
void *memset(void *to, int value, size_t n) {
    for (size_t i = 0; i < n; i++) ((volatile char *)to)[i] = (char)value;
    return to;
}

int main(void);
__attribute__((unused)) static void start_in_c(void) { SYS1(SYS_exit_group, main()); }
__attribute__((naked, used)) void _start(void) {
    __asm__("xor %%ebp, %%ebp\n and $-16, %%rsp\n call *%0" : : "r"(start_in_c));
}
