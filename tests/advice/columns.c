/* A sum down the columns. Remedy: along the rows. */
#define N 300
double a[N][N];

__attribute__((noinline)) double kernel(void) {
    double sum = 0;
#ifdef FIXED
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            sum += a[i][j];
#else
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            sum += a[i][j];
#endif
    return sum;
}

int main(void) {
    a[1][1] = 0;
    return kernel() != 0;
}
