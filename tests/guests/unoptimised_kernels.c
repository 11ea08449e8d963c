// Code as compilers write it without optimisation: every variable in memory, rbp frames.
// guest: build=nolibc flags=-O0
#include "nolibc.h"
static double matrix[6][6], vector[6], result[6];
static int sieve(int n) {
    static char composite[200];
    int primes = 0;
    for (int i = 2; i < n; i++) {
        if (composite[i]) continue;
        primes++;
        for (int k = i * i; k < n; k += i) composite[k] = 1;
    }
    return primes;
}
int main(void) {
    for (int i = 0; i < 6; i++) {
        vector[i] = i;
        for (int k = 0; k < 6; k++) matrix[i][k] = i * k + 1;
    }
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) result[i] += matrix[i][k] * vector[k];
    print_number((long)(result[5] * 10));
    print_number(sieve(200));
    return 0;
}
