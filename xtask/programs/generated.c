/* Maps memory, writes machine code into it, runs it, and does so again in the
 * same place: once through mprotect, once in memory that is writable and
 * executable at the same time, once after munmap and a new mapping. */
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

typedef int function(int);

/* lea eax, [rdi + imm32]; ret */
static void emit_add(unsigned char *at, int32_t constant)
{
    at[0] = 0x8d, at[1] = 0x87;
    memcpy(at + 2, &constant, 4);
    at[6] = 0xc3;
}

/* imul eax, edi, imm32; ret */
static void emit_multiply(unsigned char *at, int32_t constant)
{
    at[0] = 0x69, at[1] = 0xc7;
    memcpy(at + 2, &constant, 4);
    at[6] = 0xc3;
}

static unsigned char *map(int protection)
{
    void *at = mmap(0, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? 0 : at;
}

int main(void)
{
    long sum = 0;
    unsigned char *page = map(PROT_READ | PROT_WRITE);
    if (!page)
        return 2;
    for (int i = 0; i < 300; i++) {
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
        (i % 2 ? emit_add : emit_multiply)(page, i);
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        sum += ((function *)page)(i + 1);
    }
    munmap(page, 4096);

    unsigned char *open = map(PROT_READ | PROT_WRITE | PROT_EXEC);
    if (!open)
        return 3;
    for (int i = 0; i < 300; i++) {
        (i % 3 ? emit_add : emit_multiply)(open + 64 * (i % 8), i);
        sum += ((function *)(open + 64 * (i % 8)))(i + 2);
    }
    munmap(open, 4096);

    for (int i = 0; i < 50; i++) {
        unsigned char *fresh = map(PROT_READ | PROT_WRITE | PROT_EXEC);
        if (!fresh)
            return 4;
        emit_add(fresh, i * 1000);
        sum += ((function *)fresh)(i);
        munmap(fresh, 4096);
    }
    printf("%ld\n", sum);
    return 0;
}
