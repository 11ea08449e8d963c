/* METRIC's first example (section 7.1): a naive matrix product, 800 x 800 doubles.
 *
 * The paper's compiler left xx[i][j] in memory, so that an iteration makes four accesses: reads of xy, xz and xx, and a write of xx.
 * The matrices are volatile for the same end: every access of the source is one of the machine, in the order of the source, while
 * counters and intermediate values stay in registers. One struct, aligned to more than the cache, fixes where they lie.
 *
 * usage: mm [rows]     rows of the result to compute, all unless said
 * build: gcc -O1 -static -fno-pie -no-pie */
#include <stdlib.h>

#define MAT_DIM 800

static struct {
    volatile double xx[MAT_DIM][MAT_DIM], xy[MAT_DIM][MAT_DIM], xz[MAT_DIM][MAT_DIM];
} m __attribute__((aligned(1 << 16)));

void __attribute__((noinline)) kernel(long rows)
{
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < MAT_DIM; j++)
            for (long k = 0; k < MAT_DIM; k++) {
                double y = m.xy[i][k];
                double z = m.xz[k][j];
                double x = m.xx[i][j];
                m.xx[i][j] = y * z + x;
            }
}

int main(int argc, char **argv)
{
    for (int i = 0; i < MAT_DIM; i++)
        for (int j = 0; j < MAT_DIM; j++) {
            m.xy[i][j] = i + j;
            m.xz[i][j] = i - j;
        }
    kernel(argc > 1 ? atol(argv[1]) : MAT_DIM);
    return 0;
}
