/* A recurrence against the diagonal, down the columns: exchanging its loops would be wrong. */
#define N 200
double a[N][N];

__attribute__((noinline)) void kernel(void) {
    for (int j = 1; j < N; j++)
        for (int i = N - 1; i > 0; i--)
            a[i][j] += a[i - 1][j - 1];
}

int main(void) {
    a[1][1] = 1;
    kernel();
    return a[1][1] == 0;
}
