/* Coordinates and velocities in one structure, of which one loop uses a third. Remedy: an array
 * for each field. */
#include <stdlib.h>
struct particle {
    double x, y, z, vx, vy, vz;
};
#define N 4000

#ifdef FIXED
#define X(i) x[i]
#define DECLARED double *x
#define GIVEN x
#else
#define X(i) p[i].x
#define DECLARED struct particle *p
#define GIVEN p
#endif

__attribute__((noinline)) double kernel(DECLARED) {
    __asm__ volatile("" ::: "memory"); /* not to be hoisted */
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += X(i);
    return sum;
}

int main(void) {
#ifdef FIXED
    double *x = malloc(N * sizeof *x);
#else
    struct particle *p = malloc(N * sizeof *p);
#endif
    for (int i = 0; i < N; i++)
        X(i) = 1;
    double sum = 0;
    for (int t = 0; t < 20; t++)
        sum += kernel(GIVEN);
    return sum != 20.0 * N;
}
