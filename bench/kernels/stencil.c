/* Two-dimensional 5-point stencil (Jacobi): six references a point in a nest
 * of two affine loops, swapping its two grids after every step.
 * usage: stencil [n] [steps] */
#include <stdio.h>
#include <stdlib.h>

static void __attribute__((noinline)) step(int n, const double *restrict from, double *restrict to)
{
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++) {
            size_t at = (size_t)i * n + j;
            to[at] = 0.2 * (from[at] + from[at - 1] + from[at + 1] + from[at - n] + from[at + n]);
        }
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    int steps = argc > 2 ? atoi(argv[2]) : 500;
    size_t cells = (size_t)n * n;
    double *from = calloc(cells, sizeof *from), *to = calloc(cells, sizeof *to);
    if (!from || !to)
        return 2;
    for (int i = 0; i < n; i++)
        from[i] = to[i] = 100;
    for (int s = 0; s < steps; s++) {
        step(n, from, to);
        double *swap = from;
        from = to;
        to = swap;
    }
    printf("%.9g\n", from[(size_t)n + n / 2]);
    return 0;
}
