/* Two passes over a field in each time step. Remedy: one pass. */
#define N 4096
double a[N], b[N];

__attribute__((noinline)) void kernel(int steps) {
    for (int t = 0; t < steps; t++) {
#ifdef FIXED
        for (int i = 1; i < N; i++) {
            a[i] = b[i] + t;
            b[i] = a[i] + a[i - 1];
        }
#else
        for (int i = 1; i < N; i++)
            a[i] = b[i] + t;
        for (int i = 1; i < N; i++)
            b[i] = a[i] + a[i - 1];
#endif
    }
}

int main(void) {
    kernel(20);
    return b[1] != 190;
}
