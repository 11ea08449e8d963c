/* STREAM triad, a[i] = b[i] + s * c[i]: three unit strides, limited by memory.
 * usage: triad [n] [repeats] */
#include <stdio.h>
#include <stdlib.h>

static void __attribute__((noinline)) triad(size_t n, double *restrict a, const double *restrict b,
                                            const double *restrict c, double s)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? strtoul(argv[1], 0, 10) : 2000000;
    int repeats = argc > 2 ? atoi(argv[2]) : 250;
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (!a || !b || !c)
        return 2;
    for (size_t i = 0; i < n; i++) {
        a[i] = 0;
        b[i] = (double)(i % 3);
        c[i] = (double)(i % 11);
    }
    for (int r = 0; r < repeats; r++) {
        triad(n, a, b, c, 3);
        double *swap = a;
        a = r % 2 ? c : b;
        if (r % 2)
            c = swap;
        else
            b = swap;
    }
    printf("%g\n", a[n / 2] + b[n / 3]);
    return 0;
}
