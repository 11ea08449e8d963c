/* Vector sum, a[i] = b[i] + c[i]: three unit strides, the same every time.
 * usage: vadd [n] [repeats] */
#include <stdio.h>
#include <stdlib.h>

static void __attribute__((noinline)) add(size_t n, double *restrict a, const double *restrict b,
                                          const double *restrict c)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + c[i];
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? strtoul(argv[1], 0, 10) : 1200000;
    int repeats = argc > 2 ? atoi(argv[2]) : 50;
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (!a || !b || !c)
        return 2;
    for (size_t i = 0; i < n; i++) {
        b[i] = (double)(i % 3);
        c[i] = (double)(i % 11);
    }
    for (int r = 0; r < repeats; r++)
        add(n, a, b, c);
    printf("%ld\n", (long)a[n / 2]);
    return 0;
}
