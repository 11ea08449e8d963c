// A handler that allocates while a known allocator is under way, on the same stack and on another, and one that never returns to it.
// guest: build=static
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include "notes.h"
static char arena[1 << 16], other_stack[1 << 15];
static size_t used;
static int from;
static jmp_buf out;
static void *volatile sink;
static void *take(size_t n) {
    used += n;
    return arena + used - n;
}
// memtrail knows functions of these names.
__attribute__((noinline)) void *je_malloc(size_t n) {
    if (from) raise(from);
    return take(n);
}
__attribute__((noinline)) void je_free(void *p) { sink = p; }
__attribute__((noinline)) void *je_calloc(size_t n, size_t m) {
    sink = je_malloc(n * m);
    return sink;
}
static void handler(int number) {
    from = 0;
    void *p = sink = je_malloc(number);
    expect("alloc %p %d je_malloc", p, number);
    expect("free %p je_free", p);
    je_free(p);
}
static void jumper(int number) {
    from = 0;
    void *p = sink = je_malloc(number);
    expect("alloc %p %d je_malloc", p, number);
    siglongjmp(out, 1);
}
__attribute__((noinline)) static void deeper(int n) {
    volatile char room[300];
    room[n] = 1;
    if (n > 0) return deeper(n - 1);
    void *p = sink = je_malloc(99);
    expect("alloc %p 99 je_malloc", p);
}
int main(int argc, char **argv) {
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction here = {.sa_handler = handler}, there = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    struct sigaction jump = {.sa_handler = jumper, .sa_flags = SA_NODEFER};
    struct sigaction jump_there = {.sa_handler = jumper, .sa_flags = SA_NODEFER | SA_ONSTACK};
    sigaltstack(&stack, 0);
    sigaction(SIGUSR1, &here, 0);
    sigaction(SIGUSR2, &there, 0);
    sigaction(SIGHUP, &jump, 0);
    sigaction(SIGURG, &jump_there, 0);
    memtrail_enter("test");
    for (int i = 0; i < 4; i++) {
        from = i % 2 ? SIGUSR1 : SIGUSR2;
        void *p = sink = je_calloc(5, 10 + i);
        expect("alloc %p %d je_calloc", p, 5 * (10 + i));
        deeper(i);
    }
    for (int i = 0; i < 4; i++) {
        if (sigsetjmp(out, 1) == 0) {
            from = i % 2 ? SIGHUP : SIGURG;
            sink = je_malloc(1000 + i);
        }
        deeper(i);
        from = 0;
        void *p = sink = je_malloc(50 + i);
        expect("alloc %p %d je_malloc", p, 50 + i);
    }
    memtrail_leave("test");
    finish(argc);
    return 0;
}
