/* Random increments of a table that is larger than the cache. */
#define N 4096
long counts[N];

int main(void) {
    unsigned seed = 1;
    for (int i = 0; i < 100000; i++) {
        seed = seed * 1103515245 + 12345;
        counts[seed / 65536 % N]++;
    }
    return counts[0] < 0;
}
