/* A sum along an array: every line is used whole, once. */
#define N 65536
double a[N];

int main(void) {
    double sum = 0;
    for (int i = 0; i < N; i++)
        a[i] = i;
    for (int i = 0; i < N; i++)
        sum += a[i];
    return sum == 0;
}
