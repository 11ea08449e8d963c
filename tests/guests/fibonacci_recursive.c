// Deep and branching recursion.
// guest: build=nolibc flags=-O1
#include "nolibc.h"
static __attribute__((noinline)) long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static __attribute__((noinline)) long depth(long n) { volatile long x = n; return x == 0 ? 0 : 1 + depth(x - 1); }
int main(void) {
    print_number(fib(15));
    print_number(depth(200));
    return 0;
}
