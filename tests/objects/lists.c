/* Two lists whose nodes come through one wrapper. Each node is 16 bytes.
 *   a: 1000 nodes, 2000 writes, 2000 reads; b: 500 nodes, 1000 writes, 3000 reads. */
#include <stdlib.h>

struct node {
    long value;
    struct node *next;
};

static void *xmalloc(size_t bytes) {
    void *block = malloc(bytes);
    if (!block)
        abort();
    return block;
}

static struct node *push(struct node *head, long value) {
    struct node *fresh = xmalloc(sizeof *fresh);
    fresh->value = value;
    fresh->next = head;
    return fresh;
}

static long sum(struct node *at) {
    long sum = 0;
    while (at) {
        sum += at->value;
        at = at->next;
    }
    return sum;
}

int main(void) {
    struct node *a = 0, *b = 0;
    for (int i = 0; i < 1000; i++)
        a = push(a, i);
    for (int i = 0; i < 500; i++)
        b = push(b, i);
    long total = sum(a);
    for (int i = 0; i < 3; i++)
        total += sum(b);
    return total == 499500 + 3 * 124750 ? 0 : 1;
}
