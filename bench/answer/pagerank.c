/* PageRank, pulled along the edges of a random graph. */
#include "graph.h"

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 60000, rounds = argc > 2 ? atoi(argv[2]) : 10;
    Graph g = graph(n, 8);
    double *rank = malloc(sizeof *rank * n), *share = malloc(sizeof *share * n);
    int *out = calloc(n, sizeof *out);
    for (int e = 0; e < g.edges; e++) out[g.to[e]]++;
    for (int i = 0; i < n; i++) rank[i] = 1.0 / n;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < n; i++) share[i] = out[i] ? rank[i] / out[i] : 0;
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int e = g.start[i]; e < g.start[i + 1]; e++) sum += share[g.to[e]];
            rank[i] = 0.15 / n + 0.85 * sum;
        }
    }
    printf("%g\n", rank[n / 2]);
}
