/* Five components at each point of an N^3 grid: 5x5 blocks made, multiplied and solved along lines.
   Innermost loops run five times, as in solvers of flow equations. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { C = 5 };
static int n;
static double (*u)[C], (*rhs)[C], (*lhs)[3][C][C];

static void make_blocks(int i, int base, int stride) {
    double *v = u[base + i * stride];
    double inverse = 1.0 / v[0];
    for (int a = 0; a < C; a++)
        for (int b = 0; b < C; b++) {
            double flux = v[a] * v[b] * inverse * 0.01;
            lhs[i][0][a][b] = -0.1 * flux;
            lhs[i][1][a][b] = (a == b) + 0.2 * flux;
            lhs[i][2][a][b] = 0.1 * flux;
        }
}

static void subtract_product(double a[C][C], double b[C][C], double c[C][C]) {
    for (int i = 0; i < C; i++)
        for (int j = 0; j < C; j++)
            for (int k = 0; k < C; k++) c[i][j] -= a[i][k] * b[k][j];
}

static void subtract_vector(double a[C][C], const double *x, double *y) {
    for (int i = 0; i < C; i++)
        for (int k = 0; k < C; k++) y[i] -= a[i][k] * x[k];
}

static void eliminate(double a[C][C], double c[C][C], double *r) {
    for (int p = 0; p < C; p++) {
        double pivot = 1.0 / a[p][p];
        for (int k = p + 1; k < C; k++) a[p][k] *= pivot;
        for (int k = 0; k < C; k++) c[p][k] *= pivot;
        r[p] *= pivot;
        for (int i = 0; i < C; i++) {
            if (i == p) continue;
            double factor = a[i][p];
            for (int k = p + 1; k < C; k++) a[i][k] -= factor * a[p][k];
            for (int k = 0; k < C; k++) c[i][k] -= factor * c[p][k];
            r[i] -= factor * r[p];
        }
    }
}

static void line(int base, int stride) {
    for (int i = 0; i < n; i++) make_blocks(i, base, stride);
    eliminate(lhs[0][1], lhs[0][2], rhs[base]);
    for (int i = 1; i < n; i++) {
        int at = base + i * stride;
        subtract_vector(lhs[i][0], rhs[at - stride], rhs[at]);
        subtract_product(lhs[i][0], lhs[i - 1][2], lhs[i][1]);
        eliminate(lhs[i][1], lhs[i][2], rhs[at]);
    }
    for (int i = n - 2; i >= 0; i--) subtract_vector(lhs[i][2], rhs[base + (i + 1) * stride], rhs[base + i * stride]);
}

int main(int argc, char **argv) {
    n = argc > 1 ? atoi(argv[1]) : 16;
    int steps = argc > 2 ? atoi(argv[2]) : 4, all = n * n * n;
    u = malloc(sizeof *u * all), rhs = malloc(sizeof *rhs * all), lhs = malloc(sizeof *lhs * n);
    for (int i = 0; i < all; i++)
        for (int c = 0; c < C; c++) u[i][c] = 1.0 + 0.1 * sin(i * 0.01 + c);
    for (int step = 0; step < steps; step++) {
        for (int z = 1; z < n - 1; z++)
            for (int y = 1; y < n - 1; y++)
                for (int x = 1; x < n - 1; x++)
                    for (int c = 0; c < C; c++) {
                        int i = (z * n + y) * n + x;
                        rhs[i][c] = 0.01 * (u[i - 1][c] + u[i + 1][c] + u[i - n][c] + u[i + n][c] + u[i - n * n][c] + u[i + n * n][c] - 6 * u[i][c]);
                    }
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++) line((a * n + b) * n, 1);
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++) line(a * n * n + b, n);
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++) line(a * n + b, n * n);
        for (int i = 0; i < all; i++)
            for (int c = 0; c < C; c++) u[i][c] += rhs[i][c];
    }
    printf("%g\n", u[all / 2][2]);
}
