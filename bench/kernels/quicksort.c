/* Quicksort of pseudo-random integers: data-dependent branches and addresses,
 * recursion. Half the accesses sit in two short scanning loops.
 * usage: quicksort [n] [repeats] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void __attribute__((noinline)) quicksort(int32_t *v, long low, long high)
{
    while (low < high) {
        int32_t pivot = v[low + (high - low) / 2];
        long i = low, j = high;
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                int32_t t = v[i];
                v[i++] = v[j];
                v[j--] = t;
            }
        }
        /* Recurse into the smaller part: the stack stays logarithmic. */
        if (j - low < high - i) {
            quicksort(v, low, j);
            low = i;
        } else {
            quicksort(v, i, high);
            high = j;
        }
    }
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 1000000;
    int repeats = argc > 2 ? atoi(argv[2]) : 8;
    int32_t *v = malloc((size_t)n * sizeof *v);
    if (!v)
        return 2;
    uint32_t state = 12345;
    for (int r = 0; r < repeats; r++) {
        for (long i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            v[i] = (int32_t)(state >> 1);
        }
        quicksort(v, 0, n - 1);
    }
    for (long i = 1; i < n; i++)
        if (v[i - 1] > v[i])
            return 1;
    printf("%d\n", v[n / 2]);
    return 0;
}
