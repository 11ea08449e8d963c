// Gathers and a scatter that fault at a lane in the middle and go on after the page is opened.
// guest: build=nolibc needs=avx2,avx512f flags=-mavx512f
#include "nolibc.h"
#include <immintrin.h>
static volatile long faults;
static void open_page(int n, siginfo_t *info, void *c) {
    (void)n; (void)c;
    faults++;
    SYS3(SYS_mprotect, (long)info->si_addr & ~4095L, 4096, 3);
}
static int offsets[16] = {0, 1, -1, 2000, 3, 2001, 5, -2, 0, 1, 2, 3, 4, 5, 2002, 7};
int main(void) {
    on_signal(SIGSEGV, open_page, 0, 0);
    int *pages = map_pages(4 * 4096, 3);
    int *base = pages + 1024;
    for (int i = -4; i < 8; i++) base[i] = i * 3 + 100;
    base[2000] = 7, base[2001] = 8, base[2002] = 9;
    SYS3(SYS_mprotect, pages + 2048, 8192, 0);
    __m256i index = _mm256_loadu_si256((void *)offsets);
    __m256i got = _mm256_i32gather_epi32(base, index, 4);
    print_number(_mm256_extract_epi32(got, 3) * 1000 + _mm256_extract_epi32(got, 7));
    SYS3(SYS_mprotect, pages + 2048, 8192, 0);
    __m512i wide = _mm512_loadu_si512(offsets);
    __m512i all = _mm512_mask_i32gather_epi32(wide, 0xeff7, wide, base, 4);
    print_number(_mm512_reduce_add_epi32(all));
    SYS3(SYS_mprotect, pages + 2048, 8192, 0);
    _mm512_mask_i32scatter_epi32(base, 0x7fbf, wide, all, 4);
    print_number(base[2000] + base[3] * 10);
    print_number(faults);
    return 0;
}
