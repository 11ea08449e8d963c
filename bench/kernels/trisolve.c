/* Forward substitution with a dense lower triangular matrix, row by row: the
 * inner loop is one longer in every row. Several right-hand sides, one by one.
 * usage: trisolve [n] [right-hand sides] */
#include <stdio.h>
#include <stdlib.h>

static void __attribute__((noinline)) solve(int n, const double *l, double *x)
{
    for (int i = 0; i < n; i++) {
        double sum = x[i];
        for (int j = 0; j < i; j++)
            sum -= l[(size_t)i * n + j] * x[j];
        x[i] = sum / l[(size_t)i * n + i];
    }
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 2400;
    int sides = argc > 2 ? atoi(argv[2]) : 10;
    double *l = malloc((size_t)n * n * sizeof *l), *x = malloc((size_t)n * sizeof *x);
    if (!l || !x)
        return 2;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++)
            l[(size_t)i * n + j] = (double)((i + j) % 3) / n;
        l[(size_t)i * n + i] = 1;
    }
    long sum = 0;
    for (int r = 0; r < sides; r++) {
        for (int i = 0; i < n; i++)
            x[i] = r + i % 5;
        solve(n, l, x);
        sum += (long)x[n / 2];
    }
    printf("%ld\n", sum);
    return 0;
}
