// Reads an array in an order that follows no rule, so often that the records of its thread take several chunks.
// Built without libc by the test of the reader.
static volatile unsigned table[1 << 12];

void _start(void) {
    unsigned state = 1, sum = 0;
    for (unsigned i = 0; i < 560000; i++) {
        state = state * 1664525 + 1013904223;
        sum += table[state >> 20];
    }
    __asm__ volatile("syscall" : : "a"(60), "D"(sum) : "rcx", "r11", "memory");
}
