/* Conjugate gradients on a symmetric sparse matrix with random columns: rows N, iterations. */
#include <stdio.h>
#include <stdlib.h>

static unsigned long state = 12345;
static unsigned random_number(void) { return (unsigned)((state = state * 6364136223846793005UL + 1442695040888963407UL) >> 33); }

enum { PER_ROW = 12 };

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 20000, iterations = argc > 2 ? atoi(argv[2]) : 20;
    int *start = calloc(n + 1, sizeof *start), *column = malloc(sizeof *column * n * (PER_ROW + 1));
    double *value = malloc(sizeof *value * n * (PER_ROW + 1));
    double *x = calloc(n, sizeof *x), *r = malloc(sizeof *r * n), *p = malloc(sizeof *p * n), *q = malloc(sizeof *q * n);
    int k = 0;
    for (int i = 0; i < n; i++) {
        start[i] = k;
        int count = 4 + random_number() % (2 * PER_ROW - 8);
        count = count > PER_ROW ? PER_ROW : count;
        for (int j = 0; j < count; j++, k++) column[k] = random_number() % n, value[k] = -1.0 / PER_ROW;
        column[k] = i, value[k++] = 4.0;
    }
    start[n] = k;
    double rho = 0;
    for (int i = 0; i < n; i++) r[i] = p[i] = 1.0, rho += 1.0;
    for (int it = 0; it < iterations; it++) {
        double pq = 0, next = 0;
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int j = start[i]; j < start[i + 1]; j++) sum += value[j] * p[column[j]];
            q[i] = sum;
        }
        for (int i = 0; i < n; i++) pq += p[i] * q[i];
        double alpha = rho / pq;
        for (int i = 0; i < n; i++) x[i] += alpha * p[i], r[i] -= alpha * q[i];
        for (int i = 0; i < n; i++) next += r[i] * r[i];
        for (int i = 0; i < n; i++) p[i] = r[i] + next / rho * p[i];
        rho = next;
    }
    printf("%g %g\n", rho, x[n / 2]);
}
