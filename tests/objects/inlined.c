/* Lists whose nodes come through functions that are all inlined: `xmalloc` into `push` into `build`, which is called twice. Each node is 16 bytes.
 *   100 nodes, then 50: one write of each field.
 * And four blocks of four sizes, 8, 16, 24 and 32 bytes, through an inlined function whose name does not say that it allocates: one write to each. */
#include <stdlib.h>

#define INLINED static inline __attribute__((always_inline))

struct node {
    long value;
    struct node *volatile next;
};

INLINED void *xmalloc(size_t bytes) {
    void *block = malloc(bytes);
    if (!block)
        abort();
    return block;
}

INLINED struct node *push(struct node *head, long value) {
    struct node *fresh = xmalloc(sizeof *fresh);
    *(volatile long *)&fresh->value = value;
    fresh->next = head;
    return fresh;
}

__attribute__((noinline)) struct node *build(int nodes) {
    struct node *list = 0;
    for (int i = 0; i < nodes; i++)
        list = push(list, i);
    return list;
}

INLINED long *obtain(size_t longs) {
    return malloc(longs * sizeof(long));
}

__attribute__((noinline)) void several(void) {
    volatile long *one = obtain(1);
    volatile long *two = obtain(2);
    volatile long *three = obtain(3);
    volatile long *four = obtain(4);
    *one = *two = *three = *four = 7;
}

int main(void) {
    struct node *a = build(100);
    struct node *b = build(50);
    several();
    return a && b ? 0 : 1;
}
