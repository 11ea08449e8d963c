/* Globals, statics and thread-local storage.
 *   grid: 1200 writes, 1200 reads; bodies: 100 writes of .id, 100 reads of .mass and 100 of .at.x;
 *   header: 10 writes of .items, 1 of .count, 1 read; ticks (static): 7 writes, 14 reads (++ticks, and its value); mine (TLS): 16 writes, 16 reads by main. */
#include <string.h>

struct point {
    double x, y;
};
struct body {
    float mass;
    int id;
    struct point at;
};

double grid[30][40];
struct body bodies[100];
struct {
    int count;
    double items[10];
} header;
__thread long mine[16];

static int tick(void) {
    static int ticks;
    return ++ticks;
}

int main(void) {
    for (int i = 0; i < 30; i++)
        for (int j = 0; j < 40; j++)
            grid[i][j] = i + j;
    double total = 0;
    for (int j = 0; j < 40; j++)
        for (int i = 0; i < 30; i++)
            total += grid[i][j];
    for (int i = 0; i < 100; i++)
        bodies[i].id = i;
    for (int i = 0; i < 100; i++)
        total += bodies[i].mass;
    for (int i = 0; i < 100; i++)
        total += bodies[i].at.x;
    for (int i = 0; i < 10; i++)
        header.items[i] = i;
    header.count = 10;
    for (int i = 0; i < 7; i++)
        tick();
    for (int i = 0; i < 16; i++)
        mine[i] = i;
    for (int i = 0; i < 16; i++)
        total += mine[i];
    return header.count == 10 && total == 40800 + 120 ? 0 : 1;
}
