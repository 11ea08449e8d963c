// One function makes as many reads as writes, of 8 bytes each, in one array.
#include "guest.h"

static uint64_t table[1024];

__attribute__((noinline)) static void adds(uint64_t x) {
    for (int i = 0; i < 200000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        table[x & 1023]++;
    }
}

int main(void) {
    uint64_t sum = 0, rounds = 0;
    char *before = malloc(100);
    strcpy(before, "made before anybody came");
    dprintf(1, "running\n");
    for (; !over(); rounds++) {
        adds(rounds + 1);
        before[50] = (char)rounds;
    }
    for (int i = 0; i < 1024; i++) sum += table[i];
    if (sum != 200000 * rounds) fail("the sum", sum);
    puts("ok");
}
