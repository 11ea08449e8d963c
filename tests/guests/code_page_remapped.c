// A code page unmapped and mapped again at the same address with other code, and code moved with mremap.
// guest: build=nolibc
#include "nolibc.h"
static void *const place = (void *)0x10000000;
static void fill(int value) {
    sys6(SYS_mmap, (long)place, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x48, 0x89, 0x07, 0xc3};  // mov eax, imm; mov [rdi], rax; ret
    code[1] = (unsigned char)value;
    for (unsigned i = 0; i < sizeof code; i++) ((volatile unsigned char *)place)[i] = code[i];
}
int main(void) {
    long cell = 0, sum = 0;
    for (int i = 0; i < 3; i++) {
        fill(i + 7);
        for (int k = 0; k < 3; k++) sum = sum * 3 + ((long (*)(long *))place)(&cell);
        SYS2(SYS_munmap, place, 4096);
    }
    fill(50);
    sum += ((long (*)(long *))place)(&cell);
    fill(60);  // mapped over without an unmap
    sum += ((long (*)(long *))place)(&cell);
    char *moved = (char *)sys6(SYS_mremap, (long)place, 4096, 4096, 3, 0x10010000, 0);
    sum += ((long (*)(long *))moved)(&cell);
    fill(70);
    sum += ((long (*)(long *))place)(&cell) + cell;
    print_number(sum);
    return 0;
}
