/* A matrix product whose inner loop goes down the columns of B. Remedy: the k loop outside. */
#define N 96
double A[N][N], B[N][N], C[N][N];

__attribute__((noinline)) void kernel(void) {
#ifdef FIXED
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++)
                C[i][j] += A[i][k] * B[k][j];
#else
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                C[i][j] += A[i][k] * B[k][j];
#endif
}

int main(void) {
    kernel();
    return C[1][1] != 0;
}
