// Breadth-first search over an R-MAT graph in compressed rows, as Graph500 does it and paper 004
// (IV.D.1) profiles it: `column` holds the neighbours of all vertices, `rowstarts` where those of
// each begin, `visited` a bit for each vertex, `pred` the parents, `oldq` and `newq` the frontiers.
// Usage: bfs [SCALE [EDGEFACTOR [THREADS [SEARCHES [huge]]]]]; `huge` asks for huge pages for column.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static long vertices, edges;
static uint64_t *rowstarts;
static int64_t *column, *pred;
static uint64_t *visited;
static int64_t *oldq, *newq;
static long oldn, newn, threads;
static pthread_barrier_t barrier;

static uint64_t seed = 0x853c49e6748fea9b;
static uint64_t next(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static long vertex(int scale, int bits[]) {
    long v = 0;
    for (int i = 0; i < scale; i++)
        v = v << 1 | bits[i];
    // Vertices are numbered at random, or neighbours in number would be neighbours in the graph.
    return (v * 0x9e3779b97f4a7c15ull >> 20) & (vertices - 1);
}

// Not a function: objects are named by the line that allocates them.
#define aligned(bytes) aligned_alloc(2 << 20, ((bytes) + (2 << 20) - 1) & -(2l << 20))

static void build(int scale, int factor, int huge) {
    vertices = 1l << scale, edges = vertices * factor;
    int32_t *from = malloc(edges * sizeof *from), *to = malloc(edges * sizeof *to);
    for (long e = 0; e < edges; e++) {
        int a[64], b[64];
        for (int i = 0; i < scale; i++) {
            // 57, 19, 19 and 5 of a hundred, as Graph500 says.
            uint64_t r = next() % 100;
            a[i] = r >= 76, b[i] = (r >= 57 && r < 76) || r >= 95;
        }
        from[e] = vertex(scale, a), to[e] = vertex(scale, b);
    }
    rowstarts = aligned((vertices + 1) * sizeof *rowstarts);
    column = aligned(2 * edges * sizeof *column);
    if (huge)
        madvise(column, 2 * edges * sizeof *column, MADV_HUGEPAGE);
    memset(rowstarts, 0, (vertices + 1) * sizeof *rowstarts);
    for (long e = 0; e < edges; e++)
        rowstarts[from[e] + 1]++, rowstarts[to[e] + 1]++;
    for (long v = 0; v < vertices; v++)
        rowstarts[v + 1] += rowstarts[v];
    uint64_t *fill = malloc(vertices * sizeof *fill);
    memcpy(fill, rowstarts, vertices * sizeof *fill);
    for (long e = 0; e < edges; e++)
        column[fill[from[e]]++] = to[e], column[fill[to[e]]++] = from[e];
    free(from), free(to), free(fill);
    visited = aligned(vertices / 8 + 64);
    pred = aligned(vertices * sizeof *pred);
    oldq = aligned(vertices * sizeof *oldq);
    newq = aligned(vertices * sizeof *newq);
}

static int claim(int64_t v) {
    uint64_t bit = 1ull << (v & 63);
    if (visited[v >> 6] & bit)
        return 0;
    return !(__atomic_fetch_or(&visited[v >> 6], bit, __ATOMIC_RELAXED) & bit);
}

static void *search(void *argument) {
    long me = (long)argument;
    while (oldn > 0) {
        for (long i = oldn * me / threads; i < oldn * (me + 1) / threads; i++) {
            int64_t v = oldq[i];
            for (uint64_t e = rowstarts[v]; e < rowstarts[v + 1]; e++) {
                int64_t w = column[e];
                if (claim(w)) {
                    pred[w] = v;
                    newq[__atomic_fetch_add(&newn, 1, __ATOMIC_RELAXED)] = w;
                }
            }
        }
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
            int64_t *q = oldq;
            oldq = newq, newq = q;
            oldn = newn, newn = 0;
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int scale = argc > 1 ? atoi(argv[1]) : 16, factor = argc > 2 ? atoi(argv[2]) : 16;
    threads = argc > 3 ? atol(argv[3]) : 1;
    int searches = argc > 4 ? atoi(argv[4]) : 1, huge = argc > 5;
    build(scale, factor, huge);
    pthread_barrier_init(&barrier, NULL, threads);
    long reached = 0;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int s = 0; s < searches; s++) {
        int64_t root = next() & (vertices - 1);
        while (rowstarts[root] == rowstarts[root + 1])
            root = (root + 1) & (vertices - 1);
        memset(visited, 0, vertices / 8);
        memset(pred, -1, vertices * sizeof *pred);
        oldq[0] = root, oldn = 1, newn = 0;
        claim(root);
        pthread_t others[256];
        for (long t = 1; t < threads; t++)
            pthread_create(&others[t], NULL, search, (void *)t);
        search((void *)0);
        for (long t = 1; t < threads; t++)
            pthread_join(others[t], NULL);
        for (long v = 0; v < vertices; v++)
            reached += pred[v] >= 0;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("reached %ld\n", reached);
    fprintf(stderr, "%.3f s in %d searches\n",
            (end.tv_sec - begin.tv_sec) + (end.tv_nsec - begin.tv_nsec) / 1e9, searches);
    return 0;
}
