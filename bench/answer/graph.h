/* A random directed graph in rows, degrees skewed. */
#include <stdio.h>
#include <stdlib.h>

static unsigned long graph_state = 7;
static unsigned graph_random(void) { return (unsigned)((graph_state = graph_state * 6364136223846793005UL + 1442695040888963407UL) >> 33); }

typedef struct { int n, edges, *start, *to; } Graph;

static Graph graph(int n, int degree) {
    Graph g = {n, 0, malloc(sizeof(int) * (n + 1)), malloc(sizeof(int) * n * degree)};
    for (int i = 0; i < n; i++) {
        g.start[i] = g.edges;
        for (int d = graph_random() % (2 * degree - 1); d > 0 && g.edges < n * degree; d--) {
            unsigned a = graph_random() % n, b = graph_random() % n;
            g.to[g.edges++] = a < b ? a : b;
        }
    }
    g.start[n] = g.edges;
    return g;
}
