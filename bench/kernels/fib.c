/* Doubly recursive Fibonacci: nothing but calls, returns, pushes and pops.
 * The hardest case for a translator, which loses the return-address predictor.
 * usage: fib [n] [repeats] */
#include <stdio.h>
#include <stdlib.h>

/* The attribute keeps the compiler from unrolling the recursion into one large
 * body, which would measure the optimiser instead of calls. */
static long __attribute__((noinline, optimize("no-inline", "no-optimize-sibling-calls"))) fib(long n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 40;
    int repeats = argc > 2 ? atoi(argv[2]) : 1;
    long sum = 0;
    for (int r = 0; r < repeats; r++)
        sum += fib(n);
    printf("%ld\n", sum);
    return 0;
}
