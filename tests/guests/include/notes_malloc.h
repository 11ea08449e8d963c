// All that the C library offers to allocate with.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include "notes.h"
static void *volatile sink;
static volatile size_t huge = (size_t)1 << 62;
__attribute__((noinline)) static void *fresh(size_t n) {
    void *p = sink = malloc(n);
    expect("alloc %p %zu malloc", p, n);
    return p;
}
__attribute__((noinline)) static void drop(void *p) {
    expect("free %p free", p);
    free(p);
}
__attribute__((noinline)) static void *other(size_t n) { return (void *)n; }
static void *(*volatile functions[2])(size_t) = {other, malloc};
// A place that calls another function again and again, and then an allocator now and then.
__attribute__((noinline)) static void called_from_one_place(void) {
    for (size_t i = 0; i < 40; i++) {
        int allocates = i > 10 && i % 7 == 0;
        void *p = sink = functions[allocates](i);
        if (allocates) {
            expect("alloc %p %zu malloc", p, i);
            drop(p);
        }
    }
}
int main(int argc, char **argv) {
    memtrail_enter("test");
    called_from_one_place();
    void *a = fresh(100), *b = fresh(0), *c = calloc(3, 7);
    expect("alloc %p 21 calloc", c);
    drop(b);
    // In place: nothing is above it.
    void *top = fresh(40000);
    void *grown = realloc(top, 50000);
    expect("free %p realloc", top);
    expect("realloc %p %p 50000 realloc", top, grown);
    // Moving: what is above it is in use.
    void *moved = realloc(a, 9000);
    expect("free %p realloc", a);
    expect("realloc %p %p 9000 realloc", a, moved);
    if (realloc(moved, huge)) return 1;
    expect("free %p realloc", moved);
    expect("realloc %p (nil) %zu realloc", moved, huge);
    if (reallocarray(moved, huge, huge)) return 1;
    expect("free %p reallocarray", moved);
    expect("realloc %p (nil) %zu reallocarray", moved, SIZE_MAX);
    void *new = realloc(*(void *volatile *)&(void *){0}, 55);
    expect("realloc (nil) %p 55 realloc", new);
    expect("free %p realloc", new);
    sink = realloc(new, 0);
    if (malloc(huge)) return 1;
    void *p = 0;
    if (posix_memalign(&p, 256, 300)) return 1;
    expect("alloc %p 300 posix_memalign", p);
    if (posix_memalign(&a, 3, 300) != EINVAL) return 1;
    drop(p);
    void *q = aligned_alloc(64, 128);
    // Two names of one function in some versions.
    expect("alloc %p 128 %s", q, (void *)aligned_alloc == (void *)memalign ? "memalign" : "aligned_alloc");
    drop(q);
    q = memalign(64, 129);
    expect("alloc %p 129 memalign", q);
    drop(q);
    q = valloc(10);
    expect("alloc %p 10 valloc", q);
    drop(q);
    free(*(void *volatile *)&(void *){0});
    // The library's own call of malloc.
    char *s = strdup("eleven char");
    expect("alloc %p 12 malloc", s);
    drop(s);
    void *array = reallocarray(moved, 100, 200);
    expect("free %p reallocarray", moved);
    expect("realloc %p %p 20000 reallocarray", moved, array);
    drop(array);
    drop(c);
    drop(grown);
    memtrail_leave("test");
    finish(argc);
    return 0;
}
