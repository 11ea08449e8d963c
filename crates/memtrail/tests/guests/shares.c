// Two threads count: each its own of two neighbours (f), one counter together (t), or each a counter
// on lines of its own (n). What to do comes on the command line.
#include <pthread.h>

enum { TIMES = 20000 };

struct neighbours {
    long left;
    long right;
};

struct padded {
    long value;
    char pad[248];
};

struct neighbours neighbours __attribute__((aligned(128)));
long together __attribute__((aligned(128)));
struct padded apart[2] __attribute__((aligned(128)));
// So that nothing else lies beside a counter.
static char mode __attribute__((aligned(128)));
char last __attribute__((aligned(128)));

static void *work(void *argument) {
    long second = (long)argument;
    volatile long *mine = mode == 'n' ? &apart[second].value : second ? &neighbours.right : &neighbours.left;
    for (int i = 0; i < TIMES; i++) {
        if (mode == 't')
            __atomic_fetch_add(&together, 1, __ATOMIC_SEQ_CST);
        else
            *mine += 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    (void)argc;
    pthread_t threads[2];
    mode = argv[1][0];
    for (long i = 0; i < 2; i++)
        if (pthread_create(&threads[i], 0, work, (void *)i))
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}
