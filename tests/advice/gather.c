/* A gather through random indices: nothing that is tried helps. */
#define N 16384
double a[N];
int at[N];

__attribute__((noinline)) double kernel(void) {
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += a[at[i]];
    return sum;
}

int main(void) {
    unsigned seed = 1;
    for (int i = 0; i < N; i++) {
        seed = seed * 1103515245 + 12345;
        at[i] = seed / 65536 % N;
        a[i] = 0;
    }
    return kernel() != 0;
}
