// setjmp and longjmp over several frames, without signals.
// guest: build=static flags=-O1
#include <setjmp.h>
#include <stdio.h>
static jmp_buf back;
static int __attribute__((noinline)) deep(int n, int code) { if (n == 0) longjmp(back, code); return deep(n - 1, code) + n; }
int main(void) {
    volatile int sum = 0;
    int code = setjmp(back);
    sum += code;
    if (code < 5) deep(10, code + 1);
    printf("%d\n", sum);
    return 0;
}
