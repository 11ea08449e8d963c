/* Factors a symmetric matrix of N rows, in place, as textbooks do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 300;
    double *a = malloc(sizeof *a * n * n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) a[i * n + j] = i == j ? n : 1.0 / (1 + abs(i - j));
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            for (int k = 0; k < j; k++) a[i * n + j] -= a[i * n + k] * a[j * n + k];
            a[i * n + j] /= a[j * n + j];
        }
        for (int k = 0; k < i; k++) a[i * n + i] -= a[i * n + k] * a[i * n + k];
        a[i * n + i] = sqrt(a[i * n + i]);
    }
    printf("%g\n", a[n * n - 1]);
}
