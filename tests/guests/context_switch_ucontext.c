// makecontext and swapcontext: library-made stacks, resumed several times.
// guest: build=static
#include <stdio.h>
#include <ucontext.h>
static ucontext_t main_context, other;
static char stack[32768];
static long total;
static void generator(int start) {
    for (int i = 0; i < 4; i++) {
        total += start + i * i;
        swapcontext(&other, &main_context);
    }
}
int main(void) {
    getcontext(&other);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = sizeof stack;
    other.uc_link = &main_context;
    makecontext(&other, (void (*)(void))generator, 1, 7);
    for (int i = 0; i < 5; i++) swapcontext(&main_context, &other);
    printf("%ld\n", total);
    return 0;
}
