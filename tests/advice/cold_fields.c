/* A search by key through large elements. Remedy: the keys apart from the rest. */
struct element {
    long key;
    char name[40];
    long count, limit;
};
#define N 4000
#ifdef FIXED
long keys[N];
struct rest {
    char name[40];
    long count, limit;
} rests[N];
#define KEY(i) keys[i]
#define COUNT(i) rests[i].count
#else
struct element table[N];
#define KEY(i) table[i].key
#define COUNT(i) table[i].count
#endif

__attribute__((noinline)) long kernel(long wanted) {
    __asm__ volatile("" ::: "memory"); /* not to be hoisted */
    long found = 0;
    for (int i = 0; i < N; i++)
        found += KEY(i) == wanted;
    return found;
}

int main(void) {
    for (int i = 0; i < N; i++)
        KEY(i) = i;
    COUNT(7) = 1;
    long found = 0;
    for (int t = 0; t < 20; t++)
        found += kernel(t);
    return found != 20;
}
