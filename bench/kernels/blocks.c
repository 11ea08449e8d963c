/* Heap blocks of 128 to 2168 bytes, made, filled, summed up and given back: about a million a second natively.
 * Argument: how many. */
#include <stdint.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000000;
    static uint64_t *live[256];
    uint64_t state = 1, sum = 0;
    for (long i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        unsigned place = state >> 56;
        uint64_t words = 16 + (state >> 40 & 255);
        free(live[place]);
        uint64_t *block = live[place] = malloc(words * sizeof *block);
        for (uint64_t j = 0; j < words; j++)
            block[j] = state + j;
        for (uint64_t j = 0; j < words; j++)
            sum += block[j] * 3;
    }
    return sum == 42;
}
