// Threads that each fault on their own pages and repair them in a shared handler.
// guest: build=dynamic scope=exe flags=-pthread,-z,now
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
static __thread int faults;
static int totals[4];
static void open_page(int n, siginfo_t *info, void *context) {
    faults++;
    mprotect((void *)((long)info->si_addr & ~4095L), 4096, PROT_READ | PROT_WRITE);
}
static void *work(void *argument) {
    long id = (long)argument;
    volatile char *pages = mmap((void *)(0x20000000 + id * 0x100000), 8 * 4096, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    for (int i = 0; i < 8 * 4096; i += 1000) pages[i] += (char)id;
    totals[id] = faults;
    return 0;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%d %d %d %d\n", totals[0], totals[1], totals[2], totals[3]);
    return 0;
}
