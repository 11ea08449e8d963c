// Code that patches its own immediate in a loop on an rwx page, and code that patches the next instruction.
// guest: build=nolibc
#include "nolibc.h"
int main(void) {
    unsigned char *code = map_pages(4096, 7);
    const unsigned char body[] = {0xb8, 1, 0, 0, 0, 0xc3};  // mov eax, 1; ret
    for (unsigned i = 0; i < sizeof body; i++) code[i] = body[i];
    long sum = 0;
    for (int i = 0; i < 5; i++) {
        *(volatile unsigned char *)(code + 1) = (unsigned char)(i * 3 + 1);
        sum = sum * 10 + ((int (*)(void))code)();
    }
    print_number(sum);
    // mov byte [rdi], dl ; mov eax, 0 ; ret -- the store hits the following immediate
    const unsigned char next[] = {0x88, 0x17, 0xb8, 0, 0, 0, 0, 0xc3};
    unsigned char *self = code + 256;
    for (unsigned i = 0; i < sizeof next; i++) self[i] = next[i];
    sum = 0;
    for (int i = 0; i < 4; i++) sum = sum * 10 + ((int (*)(void *, int, int))self)(self + 3, 0, i + 5);
    print_number(sum);
    return 0;
}
