/* Breadth-first search from several vertices of a random graph. */
#include "graph.h"

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100000, searches = argc > 2 ? atoi(argv[2]) : 4;
    Graph g = graph(n, 8);
    int *depth = malloc(sizeof *depth * n), *queue = malloc(sizeof *queue * n);
    long reached = 0;
    for (int s = 0; s < searches; s++) {
        for (int i = 0; i < n; i++) depth[i] = -1;
        int head = 0, tail = 0;
        queue[tail++] = s * 17 % n, depth[s * 17 % n] = 0;
        while (head < tail) {
            int at = queue[head++];
            for (int e = g.start[at]; e < g.start[at + 1]; e++)
                if (depth[g.to[e]] < 0) depth[g.to[e]] = depth[at] + 1, queue[tail++] = g.to[e];
        }
        reached += tail;
    }
    printf("%ld\n", reached);
}
