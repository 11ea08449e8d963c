/* Conjugate gradients with symmetric Gauss-Seidel on a 27-point grid of N^3, matrix in rows. */
#include <stdio.h>
#include <stdlib.h>

typedef struct { int n, *start, *column; double *value, *diagonal; } Matrix;

static void multiply(const Matrix *m, const double *x, double *y) {
    for (int i = 0; i < m->n; i++) {
        double sum = 0;
        for (int j = m->start[i]; j < m->start[i + 1]; j++) sum += m->value[j] * x[m->column[j]];
        y[i] = sum;
    }
}

static void smooth(const Matrix *m, const double *b, double *x) {
    for (int i = 0; i < m->n; i++) {
        double sum = b[i];
        for (int j = m->start[i]; j < m->start[i + 1]; j++) sum -= m->value[j] * x[m->column[j]];
        x[i] += sum / m->diagonal[i];
    }
    for (int i = m->n - 1; i >= 0; i--) {
        double sum = b[i];
        for (int j = m->start[i]; j < m->start[i + 1]; j++) sum -= m->value[j] * x[m->column[j]];
        x[i] += sum / m->diagonal[i];
    }
}

static double dot(int n, const double *a, const double *b) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

int main(int argc, char **argv) {
    int g = argc > 1 ? atoi(argv[1]) : 24, iterations = argc > 2 ? atoi(argv[2]) : 10, n = g * g * g, k = 0;
    Matrix m = {n, malloc(sizeof(int) * (n + 1)), malloc(sizeof(int) * 27 * n), malloc(sizeof(double) * 27 * n), malloc(sizeof(double) * n)};
    for (int z = 0, i = 0; z < g; z++)
        for (int y = 0; y < g; y++)
            for (int x = 0; x < g; x++, i++) {
                m.start[i] = k;
                m.diagonal[i] = 26;
                for (int dz = -1; dz <= 1; dz++)
                    for (int dy = -1; dy <= 1; dy++)
                        for (int dx = -1; dx <= 1; dx++) {
                            int a = x + dx, b = y + dy, c = z + dz;
                            if (a < 0 || b < 0 || c < 0 || a >= g || b >= g || c >= g) continue;
                            m.column[k] = (c * g + b) * g + a;
                            m.value[k++] = dx || dy || dz ? -1 : 26;
                        }
            }
    m.start[n] = k;
    double *x = calloc(n, sizeof *x), *r = malloc(sizeof *r * n), *z = malloc(sizeof *z * n), *p = calloc(n, sizeof *p), *q = malloc(sizeof *q * n);
    for (int i = 0; i < n; i++) r[i] = 1;
    double rho = 1;
    for (int it = 0; it < iterations; it++) {
        for (int i = 0; i < n; i++) z[i] = 0;
        smooth(&m, r, z);
        double next = dot(n, r, z);
        for (int i = 0; i < n; i++) p[i] = z[i] + (it ? next / rho : 0) * p[i];
        rho = next;
        multiply(&m, p, q);
        double alpha = rho / dot(n, p, q);
        for (int i = 0; i < n; i++) x[i] += alpha * p[i], r[i] -= alpha * q[i];
    }
    printf("%g %g\n", rho, x[n / 2]);
}
