/* Dense matrix product, naive i-j-k order: one unit stride, one row stride,
 * every address affine in three nested counters.
 * usage: matmul [n] [repeats] */
#include <stdio.h>
#include <stdlib.h>

static void __attribute__((noinline)) multiply(int n, const double *a, const double *b, double *c)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[(size_t)i * n + k] * b[(size_t)k * n + j];
            c[(size_t)i * n + j] += sum;
        }
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 560;
    int repeats = argc > 2 ? atoi(argv[2]) : 3;
    size_t cells = (size_t)n * n;
    double *a = malloc(cells * sizeof *a), *b = malloc(cells * sizeof *b), *c = calloc(cells, sizeof *c);
    if (!a || !b || !c)
        return 2;
    for (size_t i = 0; i < cells; i++) {
        a[i] = (double)(i % 7);
        b[i] = (double)(i % 5 + 1);
    }
    for (int r = 0; r < repeats; r++)
        multiply(n, a, b, c);
    printf("%.0f\n", c[cells / 2]);
    return 0;
}
