/* Elements with eight nodes each, on a mesh that is stored as if it were unstructured: gathered,
   worked on, scattered, some steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int elements, nodes, (*corner)[8];
static double *x, *y, *z, *vx, *vy, *vz, *fx, *fy, *fz, *mass, *energy, *pressure, *volume;

static double volume_of(const double *a, const double *b, const double *c) {
    double sum = 0;
    for (int i = 0; i < 8; i++) {
        int j = (i + 1) & 7, k = (i + 3) & 7;
        sum += a[i] * (b[j] * c[k] - b[k] * c[j]);
    }
    return fabs(sum) / 6 + 1e-9;
}

static void forces(void) {
    for (int e = 0; e < elements; e++) {
        double a[8], b[8], c[8], f[3][8];
        for (int i = 0; i < 8; i++) {
            int node = corner[e][i];
            a[i] = x[node], b[i] = y[node], c[i] = z[node];
        }
        double now = volume_of(a, b, c);
        energy[e] -= pressure[e] * (now - volume[e]);
        volume[e] = now;
        pressure[e] = 0.4 * energy[e] / now;
        for (int i = 0; i < 8; i++) {
            int j = (i + 1) & 7, k = (i + 3) & 7;
            f[0][i] = pressure[e] * (b[j] * c[k] - b[k] * c[j]);
            f[1][i] = pressure[e] * (c[j] * a[k] - c[k] * a[j]);
            f[2][i] = pressure[e] * (a[j] * b[k] - a[k] * b[j]);
        }
        for (int i = 0; i < 8; i++) {
            int node = corner[e][i];
            fx[node] += f[0][i], fy[node] += f[1][i], fz[node] += f[2][i];
        }
    }
}

static double *array(int n, double value) {
    double *a = malloc(sizeof *a * n);
    for (int i = 0; i < n; i++) a[i] = value;
    return a;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 20, steps = argc > 2 ? atoi(argv[2]) : 10, m = n + 1;
    elements = n * n * n, nodes = m * m * m;
    corner = malloc(sizeof *corner * elements);
    x = array(nodes, 0), y = array(nodes, 0), z = array(nodes, 0);
    vx = array(nodes, 0), vy = array(nodes, 0), vz = array(nodes, 0);
    fx = array(nodes, 0), fy = array(nodes, 0), fz = array(nodes, 0), mass = array(nodes, 1);
    energy = array(elements, 1e-6), pressure = array(elements, 0), volume = array(elements, 1);
    energy[0] = 1;
    for (int i = 0; i < nodes; i++) x[i] = i % m, y[i] = i / m % m, z[i] = i / m / m;
    for (int e = 0; e < elements; e++) {
        int base = (e / (n * n) * m + e / n % n) * m + e % n;
        int offsets[8] = {0, 1, m + 1, m, m * m, m * m + 1, m * m + m + 1, m * m + m};
        for (int i = 0; i < 8; i++) corner[e][i] = base + offsets[i];
    }
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < nodes; i++) fx[i] = fy[i] = fz[i] = 0;
        forces();
        for (int i = 0; i < nodes; i++) {
            vx[i] += 1e-6 * fx[i] / mass[i], vy[i] += 1e-6 * fy[i] / mass[i], vz[i] += 1e-6 * fz[i] / mass[i];
            x[i] += 1e-6 * vx[i], y[i] += 1e-6 * vy[i], z[i] += 1e-6 * vz[i];
        }
    }
    printf("%g %g\n", energy[0], x[nodes / 2]);
}
