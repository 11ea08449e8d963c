/* Arrays of 4096 numbers that are walked through in ways that are known.
 *   index:       from end to end, for its elements
 *   indexed:     at those elements, which are random
 *   random_only: at random indexes that are computed and never in memory but for a variable
 *   both_ways:   from end to end, and as often at random indexes
 *   linked:      a list whose nodes are in the array, in random order
 * And a list of 64 nodes of their own, from end to end, 64 times. */
#include <stdlib.h>

enum { ITEMS = 4096, TIMES = 8 };

/* Volatile, or nothing would read what is never written. */
static volatile unsigned index[ITEMS], indexed[ITEMS], random_only[ITEMS], both_ways[ITEMS];

static volatile struct {
    unsigned value, next;
} linked[ITEMS];

struct node {
    long value;
    struct node *next;
};

static inline unsigned after(unsigned seed) {
    return seed * 1664525u + 1013904223u;
}

/* Every number below ITEMS once, in an order without strides. */
__attribute__((noinline)) static void fill(void) {
    for (unsigned i = 0; i < ITEMS; i++)
        index[i] = i;
    unsigned seed = 7;
    for (unsigned i = ITEMS - 1; i > 0; i--) {
        seed = after(seed);
        unsigned other = (seed >> 8) % (i + 1), kept = index[i];
        index[i] = index[other];
        index[other] = kept;
    }
}

__attribute__((noinline)) static void link_up(void) {
    for (unsigned i = 0; i < ITEMS; i++)
        linked[index[i]].next = index[(i + 1) % ITEMS];
}

__attribute__((noinline)) static unsigned by_index(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < ITEMS; i++)
        sum += indexed[index[i]];
    return sum;
}

__attribute__((noinline)) static unsigned at_random(unsigned seed) {
    unsigned sum = 0;
    for (unsigned i = 0; i < ITEMS; i++) {
        seed = after(seed);
        sum += random_only[(seed >> 8) % ITEMS];
    }
    return sum;
}

__attribute__((noinline)) static unsigned in_both_ways(unsigned seed) {
    unsigned sum = 0;
    for (unsigned i = 0; i < ITEMS; i++)
        sum += both_ways[i];
    for (unsigned i = 0; i < ITEMS; i++) {
        seed = after(seed);
        sum += both_ways[(seed >> 8) % ITEMS];
    }
    return sum;
}

__attribute__((noinline)) static unsigned along(void) {
    unsigned sum = 0, at = 0;
    for (unsigned i = 0; i < ITEMS; i++) {
        at = linked[at].next;
        sum += linked[at].value;
    }
    return sum;
}

__attribute__((noinline)) static long list(void) {
    struct node *first = 0;
    for (long i = 0; i < 64; i++) {
        struct node *fresh = malloc(sizeof *fresh);
        fresh->value = i;
        fresh->next = first;
        first = fresh;
    }
    long sum = 0;
    for (int times = 0; times < 64; times++)
        for (struct node *at = first; at; at = at->next)
            sum += at->value;
    return sum;
}

int main(void) {
    unsigned sum = 0;
    fill();
    link_up();
    for (int times = 0; times < TIMES; times++)
        sum += by_index() + at_random(times) + in_both_ways(times) + along();
    return sum + list() == 64 * 2016 ? 0 : 1;
}
