/* A walk down a few columns of a matrix whose rows are a power of two: all in one set. Remedy:
 * longer rows. */
#ifdef FIXED
#define ROW (512 + 8)
#else
#define ROW 512
#endif
#define N 32
double a[N][ROW] __attribute__((aligned(4096)));

__attribute__((noinline)) double kernel(void) {
    __asm__ volatile("" ::: "memory"); /* not to be hoisted */
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += a[i][0];
    return sum;
}

int main(void) {
    a[1][1] = 0;
    double sum = 0;
    for (int t = 0; t < 2000; t++)
        sum += kernel();
    return sum != 0;
}
