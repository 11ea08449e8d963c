// Calls and jumps to unmapped and to non-executable memory: the fault's address is the target itself.
// guest: build=nolibc
#include "nolibc.h"
static volatile long faults, matched;
static long expected;
static void handle(int n, siginfo_t *info, void *context) {
    (void)n;
    greg_t *r = context_registers(context);
    faults++;
    matched += r[REG_RIP] == expected && (long)info->si_addr == expected;
    r[REG_RIP] = *(long *)r[REG_RSP];
    r[REG_RSP] += 8;
}
int main(void) {
    on_signal(SIGSEGV, handle, 0, 0);
    char *data = map_pages(4096, 3);
    data[0] = (char)0xc3;
    void (*volatile targets[])(void) = {(void (*)(void))0x1234567000, (void (*)(void))data, (void (*)(void))8};
    for (int i = 0; i < 3; i++) {
        expected = (long)targets[i];
        targets[i]();
    }
    SYS3(SYS_mprotect, data, 4096, 5);
    targets[1]();
    SYS3(SYS_mprotect, data, 4096, 1);
    expected = (long)data;
    targets[1]();
    print_number(faults * 10 + matched);
    return 0;
}
