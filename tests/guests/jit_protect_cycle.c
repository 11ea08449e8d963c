// Code written under rw, run under rx, rewritten and run again: mprotect back and forth.
// guest: build=nolibc
#include "nolibc.h"
static void emit(unsigned char *at, int value) {
    // mov eax, imm32; push rax; pop rax; add eax, [rdi]; ret
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x50, 0x58, 0x03, 0x07, 0xc3};
    code[1] = (unsigned char)value;
    for (unsigned i = 0; i < sizeof code; i++) ((volatile unsigned char *)at)[i] = code[i];
}
int main(void) {
    unsigned char *page = map_pages(8192, PROT_READ | PROT_WRITE);
    long sum = 0;
    int cell = 100;
    for (int round = 0; round < 4; round++) {
        SYS3(SYS_mprotect, page, 8192, PROT_READ | PROT_WRITE);
        emit(page, round + 1);
        emit(page + 4090, 10 * round);  // across the page boundary
        SYS3(SYS_mprotect, page, 8192, PROT_READ | PROT_EXEC);
        sum += ((int (*)(int *))page)(&cell) * ((int (*)(int *))(page + 4090))(&cell);
        cell++;
    }
    print_number(sum);
    return 0;
}
