// One program for all ways of linking: a little of everything libc offers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    int *numbers = malloc(40 * sizeof *numbers);
    for (int i = 0; i < 40; i++) numbers[i] = (i * 7919) % 101;
    qsort(numbers, 40, sizeof *numbers, order);
    char text[128] = "";
    for (int i = 0; i < 40; i += 13) sprintf(text + strlen(text), "%d ", numbers[i]);
    char *copy = strdup(text);
    memmove(copy + 1, copy, strlen(copy) - 1);
    printf("%s| %s| %.3f %zu\n", text, copy, (double)numbers[20] / 7, strcspn(text, "|"));
    free(copy);
    free(numbers);
    return 3;
}
