// clock_gettime and gettimeofday through the vdso: time must not go backwards.
// guest: build=dynamic scope=exe
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
int main(void) {
    struct timespec a, b;
    struct timeval t;
    int good = 0;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 10; i++) {
        clock_gettime(CLOCK_MONOTONIC, &b);
        // No branch on the time: a second may begin at any moment.
        good += b.tv_sec * 1000000000L + b.tv_nsec >= a.tv_sec * 1000000000L + a.tv_nsec;
        a = b;
    }
    gettimeofday(&t, 0);
    // time() reads the coarse clock, which may be a tick behind: one second less just after a second began.
    printf("%d %d %d\n", good, t.tv_sec > 1600000000, time(0) + 1 >= t.tv_sec);
    return 0;
}
