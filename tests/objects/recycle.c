/* An address that belongs to one object, and after that to another. first: 8 writes; second: 5 writes and 5 reads. */
#include <stdint.h>
#include <stdlib.h>

int main(void) {
    long *first = malloc(64);
    uintptr_t was = (uintptr_t)first;
    for (int i = 0; i < 8; i++)
        first[i] = i;
    free(first);
    long *second = malloc(64);
    if ((uintptr_t)second != was)
        return 2;
    long sum = 0;
    for (int i = 0; i < 5; i++)
        second[i] = i;
    for (int i = 0; i < 5; i++)
        sum += second[i];
    free(second);
    return sum == 10 ? 0 : 1;
}
