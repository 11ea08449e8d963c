// A repeated move that faults in the middle, at a page that the handler then opens: the elements before count once.
// guest: build=nolibc
#include "nolibc.h"
static char *pages;
static volatile long faults, left;
static void open_page(int n, siginfo_t *info, void *context) {
    (void)n;
    faults++;
    left = left * 1000 + context_registers(context)[REG_RCX];
    SYS3(SYS_mprotect, (long)info->si_addr & ~4095L, 4096, 3);
}
int main(void) {
    pages = map_pages(4 * 4096, 3);
    on_signal(SIGSEGV, open_page, 0, 0);
    for (int i = 0; i < 64; i++) pages[4096 - 32 + i] = (char)i;
    SYS3(SYS_mprotect, pages + 3 * 4096, 4096, 0);
    char *to = pages + 3 * 4096 - 20, *from = pages + 4096 - 30;
    long count = 50;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    print_number(faults * 1000 + left);
    SYS3(SYS_mprotect, pages + 4096, 4096, 0);
    long *at = (long *)(pages + 4096 - 3 * 8 - 4);  // an element straddles the closed page
    count = 6;
    __asm__ volatile("rep stosq" : "+D"(at), "+c"(count) : "a"(0x0102030405060708) : "memory");
    print_number(faults * 1000 + left);
    SYS3(SYS_mprotect, pages + 4096, 4096, 0);
    char *a = pages + 4096 - 5, *b = pages + 4096 - 9;
    count = 20;
    __asm__ volatile("repne cmpsb" : "+S"(a), "+D"(b), "+c"(count) : : "cc", "memory");
    print_number(faults * 1000 + left);
    print_number(count);
    SYS3(SYS_mprotect, pages, 4096, 0);
    char *down = pages + 4096 + 10;
    count = 30;
    __asm__ volatile("std\n rep stosb\n cld" : "+D"(down), "+c"(count) : "a"(7) : "memory");
    print_number(faults);
    print_number(down - pages);
    return 0;
}
