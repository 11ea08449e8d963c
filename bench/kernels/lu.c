/* LU factorisation in place, without pivoting: both inner loops begin one later
 * and are one shorter at every step of the outermost.
 * usage: lu [n] */
#include <stdio.h>
#include <stdlib.h>

static void __attribute__((noinline)) factor(int n, double *a)
{
    for (int k = 0; k < n; k++)
        for (int i = k + 1; i < n; i++) {
            double f = a[(size_t)i * n + k] /= a[(size_t)k * n + k];
            for (int j = k + 1; j < n; j++)
                a[(size_t)i * n + j] -= f * a[(size_t)k * n + j];
        }
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 500;
    double *a = malloc((size_t)n * n * sizeof *a);
    if (!a)
        return 2;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            a[(size_t)i * n + j] = i == j ? 4.0 * n : (double)((i + 2 * j) % 5);
    factor(n, a);
    printf("%ld\n", (long)a[(size_t)n * n - 1]);
    return 0;
}
