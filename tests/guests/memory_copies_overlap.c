// memcpy, memmove, memset, strlen and friends of libc over many sizes and alignments.
// guest: build=static
#include <stdio.h>
#include <string.h>
static unsigned char from[600], to[600];
int main(void) {
    unsigned long sum = 0;
    for (int i = 0; i < 600; i++) from[i] = i * 7 + 1 | 1;
    static const int sizes[] = {0, 1, 3, 8, 15, 16, 31, 33, 64, 65, 127, 200, 257, 400};
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        volatile int n = sizes[k];
        memcpy(to + k, from + 3, n);
        memmove(to + 5, to + k, n);
        memset(to + 500 - n % 100, k, n % 100);
        from[590] = 0;
        sum = sum * 31 + strlen((char *)from + 590 - n) + (memcmp(to, from, n) > 0) + to[n];
        sum += (unsigned char *)memchr(from, 0, 600) - from;
    }
    printf("%lx\n", sum);
    return 0;
}
