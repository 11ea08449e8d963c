// Simulated annealing of a netlist, after canneal of PARSEC, which paper 004 (IV.D.2) profiles:
// `elements` holds what is placed, with whom it is connected and where; `locations` the places.
// Each step picks two elements and swaps them if that shortens their wires.
// Usage: netlist [ELEMENTS [THREADS [STEPS [huge]]]]; `huge` asks for huge pages for elements.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { FAN = 5 };

struct location {
    int x, y;
};

struct element {
    struct element *fan[FAN];
    struct location *present;
    long cost, swaps;
};

static struct element *elements;
static struct location *locations;
static long count, threads, steps;

static uint64_t step_of(uint64_t *seed) {
    *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
    return *seed;
}

static long wires(struct element *e, struct location *at) {
    long length = 0;
    for (int i = 0; i < FAN; i++) {
        struct location *other = __atomic_load_n(&e->fan[i]->present, __ATOMIC_RELAXED);
        length += labs(at->x - other->x) + labs(at->y - other->y);
    }
    return length;
}

static void *anneal(void *argument) {
    uint64_t seed = 88172645463325252ull + 7919 * (uint64_t)argument;
    for (long i = 0; i < steps / threads; i++) {
        struct element *a = &elements[step_of(&seed) % count], *b = &elements[step_of(&seed) % count];
        struct location *la = a->present, *lb = b->present;
        long gain = wires(a, la) + wires(b, lb) - wires(a, lb) - wires(b, la);
        if (gain > 0) {
            __atomic_store_n(&a->present, lb, __ATOMIC_RELAXED), a->swaps++;
            __atomic_store_n(&b->present, la, __ATOMIC_RELAXED), b->swaps++;
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    count = argc > 1 ? atol(argv[1]) : 100000;
    threads = argc > 2 ? atol(argv[2]) : 1;
    steps = argc > 3 ? atol(argv[3]) : 100000;
    long bytes = (count * sizeof *elements + (2 << 20) - 1) & -(2l << 20);
    elements = aligned_alloc(2 << 20, bytes);
    if (argc > 4)
        madvise(elements, bytes, MADV_HUGEPAGE);
    locations = aligned_alloc(2 << 20, (count * sizeof *locations + (2 << 20) - 1) & -(2l << 20));
    uint64_t seed = 362436069;
    long side = 1;
    while (side * side < count)
        side++;
    for (long i = 0; i < count; i++) {
        locations[i] = (struct location){i % side, i / side};
        elements[i].present = &locations[i];
        elements[i].cost = elements[i].swaps = 0;
        for (int f = 0; f < FAN; f++)
            elements[i].fan[f] = &elements[step_of(&seed) % count];
    }
    pthread_t others[256];
    for (long t = 1; t < threads; t++)
        pthread_create(&others[t], NULL, anneal, (void *)t);
    anneal((void *)0);
    long swaps = 0;
    for (long t = 1; t < threads; t++)
        pthread_join(others[t], NULL);
    for (long i = 0; i < count; i++)
        swaps += elements[i].swaps;
    printf("%s\n", swaps > 0 ? "annealed" : "nothing to swap");
    return 0;
}
