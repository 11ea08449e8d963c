// Allocators that are left by a jump out of a function they call, again and again from the same place.
// guest: build=dynamic
#include <setjmp.h>
#include <stdlib.h>
#include "notes.h"
static char arena[1 << 16];
static size_t used;
static jmp_buf out;
static int jumps;
static void *volatile sink;
__attribute__((noinline)) static void no_memory(void) {
    if (jumps) longjmp(out, 1);
}
__attribute__((noinline)) void *je_malloc(size_t n) {
    no_memory();
    used += n;
    return arena + used - n;
}
__attribute__((noinline)) static void *request(size_t n) {
    void *p = je_malloc(n);
    sink = p;
    return p;
}
__attribute__((noinline)) static void deeper(int n) {
    volatile char room[100];
    room[n] = 1;
    if (n > 0) return deeper(n - 1);
    void *p = request(3);
    expect("alloc %p 3 je_malloc", p);
    p = sink = malloc(4);
    expect("alloc %p 4 malloc", p);
    expect("free %p free", p);
    free(p);
}
int main(int argc, char **argv) {
    memtrail_enter("test");
    for (volatile int i = 0; i < 6; i++) {
        jumps = i % 3 != 2;
        if (setjmp(out) == 0) {
            void *p = request(100 + i);
            expect("alloc %p %d je_malloc", p, 100 + i);
        }
        jumps = 0;
        deeper(i);
    }
    memtrail_leave("test");
    finish(argc);
    return 0;
}
