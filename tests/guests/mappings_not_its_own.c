// Maps, unmaps, protects and drops whatever is mapped that it does not know: natively nothing is.
// guest: build=nolibc scope=output
#include "nolibc.h"

// Each call must end as if nothing were there, but for mapping something at a place that is taken.
// How many ranges it found goes to standard error.
enum { ENOMEM_ = 12, EFAULT_ = 14, EEXIST_ = 17, MREMAP_MAYMOVE_ = 1, MREMAP_FIXED_ = 2 };
extern char __executable_start, _end;
static char maps[1 << 20];
static long bytes, ranges, wrong;

static void expect(const char *call, long got, long wanted) {
    if (got == wanted) return;
    print(call);
    print_number(got);
    wrong++;
}

static unsigned long hex(const char **at) {
    unsigned long value = 0;
    for (;; (*at)++) {
        char c = **at;
        if (c >= '0' && c <= '9') value = value << 4 | (c - '0');
        else if (c >= 'a' && c <= 'f') value = value << 4 | (c - 'a' + 10);
        else return value;
    }
}

static int is_known(const char *rest, unsigned long start, unsigned long end) {
    // The heap follows the program; the kernel's own have names in brackets.
    if (start < ((unsigned long)&_end | 0xfff) + 1 && end > (unsigned long)&__executable_start) return 1;
    for (; *rest != '\n'; rest++) if (*rest == '[') return 1;
    return 0;
}

static void attack(unsigned long start, unsigned long length) {
    const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    ranges++;
    expect("mmap ", sys6(SYS_mmap, start, length, PROT_READ, anonymous | MAP_FIXED, -1, 0), -ENOMEM_);
    expect("mmap one page ", sys6(SYS_mmap, start, 4096, 3, anonymous | MAP_FIXED, -1, 0), -ENOMEM_);
    expect("mmap without replacing ", sys6(SYS_mmap, start, length, 3, anonymous | 0x100000, -1, 0), -EEXIST_);
    expect("munmap ", SYS2(SYS_munmap, start, length), 0);
    expect("munmap with a page more ", SYS2(SYS_munmap, start, length + 4096), 0);
    expect("mprotect ", SYS3(SYS_mprotect, start, length, PROT_NONE), -ENOMEM_);
    expect("pkey_mprotect ", SYS4(329, start, length, PROT_NONE, -1), -ENOMEM_);
    expect("madvise ", SYS3(SYS_madvise, start, length, 4), -ENOMEM_);
    expect("mremap ", SYS4(SYS_mremap, start, length, 4096, MREMAP_MAYMOVE_), -EFAULT_);
    void *page = map_pages(4096, 3);
    *(long *)page = 77;
    expect("mremap onto it ", sys6(SYS_mremap, (long)page, 4096, 4096, MREMAP_MAYMOVE_ | MREMAP_FIXED_, start, 0), -ENOMEM_);
    expect("what is in the page ", *(long *)page, 77);
    expect("munmap of the page ", SYS2(SYS_munmap, page, 4096), 0);
}

int main(void) {
    int fd = SYS3(SYS_open, "/proc/self/maps", 0, 0);
    for (long n; (n = SYS3(SYS_read, fd, maps + bytes, sizeof maps - 1 - bytes)) > 0;) bytes += n;
    SYS1(SYS_close, fd);
    for (const char *at = maps; *at; at++) {
        unsigned long start = hex(&at);
        at++;
        unsigned long end = hex(&at);
        if (!is_known(at, start, end)) attack(start, end - start);
        while (*at != '\n') at++;
    }
    // Everything from the end of the program to its stack, at one go.
    unsigned long low = 0x10000000000, high = 0x7e0000000000;
    expect("munmap of nearly everything ", SYS2(SYS_munmap, low, high - low), 0);
    char text[] = "000 ranges\n";
    for (long i = 2, n = ranges; i >= 0; i--, n /= 10) text[i] = '0' + n % 10;
    SYS3(SYS_write, 2, text, sizeof text - 1);
    print(wrong ? "some calls went wrong\n" : "done\n");
    return 0;
}
