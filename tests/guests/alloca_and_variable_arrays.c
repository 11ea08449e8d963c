// Frames of variable size: alloca in a loop, variable-length arrays, over-aligned locals.
// guest: build=nolibc flags=-O1
#include "nolibc.h"
static __attribute__((noinline)) long use(volatile char *p, int n) {
    long sum = 0;
    for (int i = 0; i < n; i++) p[i] = (char)(i * 3);
    for (int i = 0; i < n; i++) sum += p[i];
    return sum;
}
static __attribute__((noinline)) long frames(int n) {
    long sum = 0;
    for (int i = 1; i < n; i++) sum += use(__builtin_alloca(i * 5), i * 5);
    char array[n * 7];
    _Alignas(64) char aligned[96];
    sum += use(array, n * 7) + use(aligned, 96);
    return sum + ((long)aligned & 63);
}
int main(void) {
    print_number(frames(6));
    print_number(frames(2));
    return 0;
}
