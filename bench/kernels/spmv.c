/* Sparse matrix times vector, CSR, 8 to 24 entries a row in random columns that
 * are not sorted: one access in three is unpredictable, and nothing is done twice.
 * The matrix comes from a file that an earlier call wrote, so that a recording
 * holds the product and not the making of the matrix, whose accesses are regular.
 * usage: spmv make FILE [rows] [columns]
 *        spmv FILE */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The file: this, then row starts (int32, rows + 1), columns (int32), values (double). */
struct shape {
    int32_t rows, columns, entries, pad;
};

static uint64_t state = 88172645463325252u;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 32) * below >> 32);
}

static int make(const char *path, int rows, int columns)
{
    int32_t *start = malloc(((size_t)rows + 1) * sizeof *start);
    if (!start)
        return 2;
    start[0] = 0;
    for (int i = 0; i < rows; i++)
        start[i + 1] = start[i] + 8 + (int32_t)draw(17);
    size_t entries = (size_t)start[rows];
    /* Values lie behind an odd number of int32 otherwise. */
    size_t padded = entries + (entries + (size_t)rows + 1) % 2;
    int32_t *column = calloc(padded, sizeof *column);
    double *value = malloc(entries * sizeof *value);
    FILE *file = fopen(path, "wb");
    if (!column || !value || !file)
        return 2;
    for (size_t k = 0; k < entries; k++) {
        column[k] = (int32_t)draw((uint32_t)columns);
        value[k] = (double)(1 + k % 9);
    }
    struct shape shape = {rows, columns, (int32_t)padded, 0};
    fwrite(&shape, sizeof shape, 1, file);
    fwrite(start, sizeof *start, (size_t)rows + 1, file);
    fwrite(column, sizeof *column, padded, file);
    fwrite(value, sizeof *value, entries, file);
    return fclose(file) ? 2 : 0;
}

static void __attribute__((noinline)) multiply(int rows, const int32_t *start, const int32_t *column,
                                               const double *value, const double *x, double *y)
{
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int32_t k = start[i]; k < start[i + 1]; k++)
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    if (argc > 2 && !strcmp(argv[1], "make"))
        return make(argv[2], argc > 3 ? atoi(argv[3]) : 200000, argc > 4 ? atoi(argv[4]) : 1500);
    int fd = open(argv[1], O_RDONLY);
    off_t size = lseek(fd, 0, SEEK_END);
    const struct shape *shape = mmap(0, size > 0 ? (size_t)size : 1, PROT_READ, MAP_PRIVATE, fd, 0);
    if (shape == MAP_FAILED)
        return 2;
    const int32_t *start = (const int32_t *)(shape + 1);
    const int32_t *column = start + shape->rows + 1;
    const double *value = (const double *)(column + shape->entries);
    double *x = malloc((size_t)shape->columns * sizeof *x), *y = malloc((size_t)shape->rows * sizeof *y);
    if (!x || !y)
        return 2;
    for (int i = 0; i < shape->columns; i++)
        x[i] = i % 4;
    multiply(shape->rows, start, column, value, x, y);
    printf("%ld\n", (long)y[shape->rows / 2]);
    return 0;
}
