// An allocator of the program's own, which the user names: what it calls is noted as well, unless it jumps there.
// guest: build=static
#include <stdlib.h>
#include "notes.h"
struct pool {
    char *at, *end;
};
static struct pool pool;
static void *volatile sink;
__attribute__((noinline)) void *pool_alloc(struct pool *p, size_t n) {
    if (p->end - p->at < (long)n) {
        p->at = malloc(1000);
        expect("alloc %p 1000 malloc", p->at);
        p->end = p->at + 1000;
    }
    p->at += n;
    return p->at - n;
}
__attribute__((noinline)) void pool_free(struct pool *p, void *block) { sink = block; }
__attribute__((noinline)) void *plain_alloc(size_t n) { return malloc(n); }
int main(int argc, char **argv) {
    memtrail_enter("test");
    for (int i = 1; i < 30; i += 7) {
        void *block = pool_alloc(&pool, 10 * i);
        expect("alloc %p %d pool_alloc", block, 10 * i);
        expect("free %p pool_free", block);
        pool_free(&pool, block);
    }
    void *block = sink = plain_alloc(88);
    expect("alloc %p 88 plain_alloc", block);
    memtrail_leave("test");
    finish(argc);
    return 0;
}
