/* A mapped file (512 reads of 8 bytes), anonymous memory (1024 writes), and an array on the stack (256 writes, 256 reads). */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static long on_stack(void) {
    long local[256];
    for (int i = 0; i < 256; i++)
        local[i] = i;
    long sum = 0;
    for (int i = 0; i < 256; i++)
        sum += local[i];
    return sum;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    FILE *file = fopen(argv[1], "w+");
    if (!file || ftruncate(fileno(file), 4096))
        return 3;
    long *mapped = mmap(0, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    long *scratch = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED || scratch == MAP_FAILED)
        return 4;
    long sum = 0;
    for (int i = 0; i < 512; i++)
        sum += mapped[i];
    for (int i = 0; i < 1024; i++)
        scratch[i] = i;
    munmap(mapped, 4096);
    munmap(scratch, 8192);
    return sum + on_stack() == 255 * 128 ? 0 : 1;
}
