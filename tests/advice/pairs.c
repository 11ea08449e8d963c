/* All pairs of two arrays, the inner one larger than the cache. Remedy: in blocks. */
#define N 1024
#define T 32
double x[N], y[N];

__attribute__((noinline)) double kernel(void) {
    double sum = 0;
#ifdef FIXED
    for (int ii = 0; ii < N; ii += T)
        for (int jj = 0; jj < N; jj += T)
            for (int i = ii; i < ii + T; i++)
                for (int j = jj; j < jj + T; j++)
                    sum += x[i] * y[j];
#else
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            sum += x[i] * y[j];
#endif
    return sum;
}

int main(void) {
    x[1] = 0;
    y[1] = 0;
    return kernel() != 0;
}
