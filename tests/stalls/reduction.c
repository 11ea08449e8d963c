/* A reduction with branches that depend on what is read, like art's loop over `tds`. Each element of
 * `tds` that is looked at lies on a line that is far away; whether it is added is known only when it
 * has come, and cannot be foreseen. So its misses, few as they are, come one after the other. The
 * misses of `bus` are many more and do not wait for each other; the second level has them. */
#include <stdio.h>

enum { F2S = 1 << 16, BUS = 1 << 15, ROUNDS = 16, LOOKED_AT = 256 };

double tds[F2S * 8];
double bus[BUS];

__attribute__((noinline)) static double learn(int round)
{
    double sum = 0;
    for (int i = 0; i < BUS; i += 8)
        sum += bus[i] * round;
    return sum;
}

__attribute__((noinline)) static double winner(unsigned *seed)
{
    double tsum = 0;
    for (int j = 0; j < LOOKED_AT; j++) {
        *seed = *seed * 1103515245 + 12345;
        double limit = 1 - 2.0 * (*seed >> 31);
        double value = tds[(*seed >> 8) % F2S * 8];
        if (value > limit)
            tsum += value * 0.5 - limit;
    }
    return tsum;
}

int main(void)
{
    unsigned seed = 1;
    double all = 0;
    for (int i = 0; i < BUS; i++)
        bus[i] = i;
    for (int round = 0; round < ROUNDS; round++)
        all += learn(round) + winner(&seed);
    printf("%g\n", all);
    return 0;
}
