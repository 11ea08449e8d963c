// What the programs that are attached to have in common: they run until their standard input ends,
// check themselves all the time, and print `ok`.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Whether the input has ended.
static int over(void) {
    struct pollfd in = {0, POLLIN, 0};
    return poll(&in, 1, 0) > 0;
}

static void fail(const char *what, long number) {
    dprintf(1, "FAIL %s %ld (%s)\n", what, number, strerror(errno));
    _exit(3);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

// The same steps twice: if a register was changed in between the two differ.
static uint64_t twice(uint64_t seed, int steps) {
    uint64_t a = seed, b = seed;
    for (int i = 0; i < steps; i++) a = a * 6364136223846793005u + 1442695040888963407u;
    for (int i = 0; i < steps; i++) b = b * 6364136223846793005u + 1442695040888963407u;
    if (a != b) fail("steps", seed);
    return a;
}
