/* Integers sorted by counting into buckets, then within them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 9, KEYS = 1 << 18 };

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1 << 19, rounds = argc > 2 ? atoi(argv[2]) : 4;
    int *keys = malloc(sizeof *keys * n), *sorted = malloc(sizeof *sorted * n), *rank = malloc(sizeof *rank * KEYS);
    int size[BUCKETS], at[BUCKETS];
    unsigned long state = 1, check = 0;
    for (int i = 0; i < n; i++) {
        state = state * 6364136223846793005UL + 1442695040888963407UL;
        keys[i] = (int)((state >> 34) % KEYS + (state >> 20) % KEYS) / 2;
    }
    for (int round = 0; round < rounds; round++) {
        keys[round] = round, keys[round + rounds] = KEYS - round - 1;
        memset(size, 0, sizeof size);
        for (int i = 0; i < n; i++) size[keys[i] >> 9]++;
        at[0] = 0;
        for (int b = 1; b < BUCKETS; b++) at[b] = at[b - 1] + size[b - 1];
        for (int i = 0; i < n; i++) sorted[at[keys[i] >> 9]++] = keys[i];
        memset(rank, 0, sizeof *rank * KEYS);
        for (int i = 0; i < n; i++) rank[sorted[i]]++;
        for (int k = 1; k < KEYS; k++) rank[k] += rank[k - 1];
        check += rank[keys[n / 2]];
    }
    printf("%lu\n", check);
}
