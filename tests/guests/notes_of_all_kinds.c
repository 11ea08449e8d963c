// Every kind of note in a few hundred accesses: blocks, mappings, names, regions, a fork.
// guest: build=nolibc
#include "nolibc.h"
#include <memtrail.h>
static char arena[1 << 12];
static size_t used;
// memtrail knows functions of these names.
__attribute__((noinline)) void *je_malloc(size_t n) {
    if (n > sizeof arena - used) return 0;
    used += n;
    return arena + used - n;
}
__attribute__((noinline)) void je_free(void *p) { *(volatile char *)p = 0; }
__attribute__((noinline)) void *je_realloc(void *p, size_t n) {
    je_free(p);
    return je_malloc(n);
}
int main(void) {
    memtrail_enter("all");
    for (int i = 1; i < 4; i++) {
        char *p = je_malloc(8 * i);
        memtrail_name(p, 0, "block");
        p = je_realloc(p, 100);
        p[99] = i;
        je_realloc(p, 1 << 20);
        je_free(p);
    }
    char *page = map_pages(4096, PROT_READ | PROT_WRITE);
    page[5] = 5;
    page = (char *)SYS4(SYS_mremap, page, 4096, 8192, MREMAP_MAYMOVE);
    print_number(page[5]);
    SYS2(SYS_munmap, page, 8192);
    SYS1(SYS_brk, SYS1(SYS_brk, 0) + 4096);
    long child = SYS1(SYS_fork, 0);
    if (child == 0) {
        je_free(arena);
        SYS1(SYS_exit_group, 0);
    }
    SYS4(SYS_wait4, child, 0, 0, 0);
    memtrail_leave("all");
    return 0;
}
