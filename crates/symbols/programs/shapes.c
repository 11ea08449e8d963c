/* Variables of every shape, and functions to find. Line numbers are in the tests. */
#include <stdint.h>
#define N 8
struct point { double x, y; };
typedef struct { int id; struct point pos; char tag[4]; } cell_t;
double matrix[N][N + 1];
cell_t grid[3][5];
static int counter;
const char *message = "m";
union { int i; float f; } either;
struct node { struct node *next; int value; } *list;
struct { volatile double xx[N][N], xy[N][N]; } m;
__thread int per_thread = 5;
static __thread double another[4];
struct { struct { int a, b; }; unsigned low : 3, high : 29; } nested;

static inline __attribute__((always_inline)) int add(int a, int b)
{
    return a + b + counter;
}

__attribute__((noinline)) int use(int *p, int n)
{
    static int calls[2];
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum = add(sum, p[i]);
    calls[n & 1]++;
    return sum + calls[0];
}

int main(int argc, char **argv)
{
    int local[4] = { 1, 2, 3, 4 };
    struct point here = { 1, 2 };
    matrix[1][2] = here.x;
    grid[1][2].pos.y = here.y;
    counter = argc;
    another[argc & 3] += 1;
    per_thread += another[1] + (argv != 0);
    return use(local, 4) + (int)matrix[0][0] + (list ? list->value : 0);
}
