/* METRIC's alternating direction: two recurrences down the columns. Remedy: exchange the loops. */
#define N 192
double x[N][N], a[N][N], b[N][N];

__attribute__((noinline)) void kernel(void) {
#ifdef FIXED
    for (int i = 2; i < N; i++)
        for (int k = 1; k < N; k++)
            x[i][k] = x[i][k] - x[i - 1][k] * a[i][k] / b[i - 1][k];
    for (int i = 2; i < N; i++)
        for (int k = 1; k < N; k++)
            b[i][k] = b[i][k] - a[i][k] * a[i][k] / b[i - 1][k];
#else
    for (int k = 1; k < N; k++) {
        for (int i = 2; i < N; i++)
            x[i][k] = x[i][k] - x[i - 1][k] * a[i][k] / b[i - 1][k];
        for (int i = 2; i < N; i++)
            b[i][k] = b[i][k] - a[i][k] * a[i][k] / b[i - 1][k];
    }
#endif
}

int main(void) {
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            b[i][k] = 1;
    kernel();
    return x[2][2] != 0;
}
