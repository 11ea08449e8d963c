/* Three-dimensional 7-point stencil (Jacobi): eight references a point in a
 * nest of three affine loops, swapping its two grids after every step.
 * usage: stencil3 [n] [steps] */
#include <stdio.h>
#include <stdlib.h>

static void __attribute__((noinline)) step(long n, const double *restrict from, double *restrict to)
{
    long row = n, plane = n * n;
    for (long i = 1; i < n - 1; i++)
        for (long j = 1; j < n - 1; j++)
            for (long k = 1; k < n - 1; k++) {
                long at = i * plane + j * row + k;
                to[at] = 0.125 * (2 * from[at] + from[at - 1] + from[at + 1] + from[at - row] + from[at + row]
                                  + from[at - plane] + from[at + plane]);
            }
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 180;
    int steps = argc > 2 ? atoi(argv[2]) : 4;
    size_t cells = (size_t)(n * n * n);
    double *from = calloc(cells, sizeof *from), *to = calloc(cells, sizeof *to);
    if (!from || !to)
        return 2;
    for (long i = 0; i < n * n; i++)
        from[i] = to[i] = 1000;
    for (int s = 0; s < steps; s++) {
        step(n, from, to);
        double *swap = from;
        from = to;
        to = swap;
    }
    printf("%ld\n", (long)from[n * n + (n / 2) * n + n / 2]);
    return 0;
}
