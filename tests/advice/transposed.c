/* A transposition: one side goes down the columns in either order. Remedy: in blocks. */
#define N 240
#define T 16
double a[N][N], b[N][N];

__attribute__((noinline)) void kernel(void) {
#ifdef FIXED
    for (int ii = 0; ii < N; ii += T)
        for (int jj = 0; jj < N; jj += T)
            for (int j = jj; j < jj + T; j++)
                for (int i = ii; i < ii + T; i++)
                    b[j][i] = a[i][j];
#else
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            b[j][i] = a[i][j];
#endif
}

int main(void) {
    a[1][1] = 0;
    kernel();
    return b[1][1] != 0;
}
