// Death by an unhandled SIGSEGV after some accesses.
// guest: build=nolibc
#include "nolibc.h"
int main(void) {
    volatile long cell = 3;
    print_number(cell);
    cell += *(volatile long *)16;
    print_number(cell);
    return 0;
}
