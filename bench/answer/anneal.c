/* Places the cells of a netlist on a grid by swapping pairs while that shortens the wires. */
#include <stdio.h>
#include <stdlib.h>

typedef struct Net { int count; struct Cell *cells[5]; } Net;
typedef struct Cell { int x, y; Net *nets[4]; } Cell;

static unsigned long state = 11;
static unsigned random_number(void) { return (unsigned)((state = state * 6364136223846793005UL + 1442695040888963407UL) >> 33); }

static int length(const Net *net) {
    int left = 1 << 30, right = 0, low = 1 << 30, high = 0;
    for (int i = 0; i < net->count; i++) {
        const Cell *c = net->cells[i];
        left = c->x < left ? c->x : left, right = c->x > right ? c->x : right;
        low = c->y < low ? c->y : low, high = c->y > high ? c->y : high;
    }
    return net->count ? right - left + high - low : 0;
}

static int wires(const Cell *c) {
    int sum = 0;
    for (int i = 0; i < 4; i++) sum += length(c->nets[i]);
    return sum;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 40000, moves = argc > 2 ? atoi(argv[2]) : 200000;
    Cell **cells = malloc(sizeof *cells * n);
    Net **nets = malloc(sizeof *nets * n);
    for (int i = 0; i < n; i++) nets[i] = calloc(1, sizeof(Net));
    for (int i = 0; i < n; i++) {
        cells[i] = malloc(sizeof(Cell));
        cells[i]->x = i % 200, cells[i]->y = i / 200;
        for (int j = 0; j < 4; j++) {
            Net *net = nets[random_number() % n];
            cells[i]->nets[j] = net;
            if (net->count < 5) net->cells[net->count++] = cells[i];
        }
    }
    double temperature = 100;
    long taken = 0;
    for (int move = 0; move < moves; move++, temperature *= 0.99998) {
        Cell *a = cells[random_number() % n], *b = cells[random_number() % n];
        int before = wires(a) + wires(b), x = a->x, y = a->y;
        a->x = b->x, a->y = b->y, b->x = x, b->y = y;
        int after = wires(a) + wires(b);
        if (after > before + (int)(random_number() % 100 * temperature / 100)) b->x = a->x, b->y = a->y, a->x = x, a->y = y;
        else taken++;
    }
    printf("%ld\n", taken);
}
