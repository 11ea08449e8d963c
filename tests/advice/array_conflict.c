/* Six arrays whose elements with the same index fall into one set of four ways. Remedy: one of them
 * a little further on is not enough, but rows are: they are one array of rows. */
#ifdef FIXED
#define ROW (1024 + 8)
#else
#define ROW 1024
#endif
double a[6][ROW] __attribute__((aligned(8192)));

__attribute__((noinline)) double kernel(void) {
    __asm__ volatile("" ::: "memory"); /* not to be hoisted */
    double sum = 0;
    for (int i = 0; i < 1024; i++)
        sum += a[0][i] + a[1][i] + a[2][i] + a[3][i] + a[4][i] + a[5][i];
    return sum;
}

int main(void) {
    a[1][1] = 0;
    double sum = 0;
    for (int t = 0; t < 20; t++)
        sum += kernel();
    return sum != 0;
}
