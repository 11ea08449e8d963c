/* One object that grows from 8 to 4096 elements in nine steps: 4096 writes and 4096 reads, whatever the copies in between. */
#include <stdlib.h>

int main(void) {
    size_t room = 8, used = 0;
    long *items = malloc(room * sizeof *items);
    for (long i = 0; i < 4096; i++) {
        if (used == room) {
            room *= 2;
            items = realloc(items, room * sizeof *items);
        }
        items[used++] = i;
    }
    long sum = 0;
    for (size_t i = 0; i < used; i++)
        sum += items[i];
    free(items);
    return sum == 4096L * 4095 / 2 ? 0 : 1;
}
