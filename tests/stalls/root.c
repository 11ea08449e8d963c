/* A structure that rarely misses, at the root of everything that follows, like crafty's `search`: of
 * its many accesses the first one of each position misses, and what is read then says where on the
 * board to go. The misses of `table`, many more, wait for nothing; those of `undo` are stores, which
 * nothing waits for. `undo` lies a multiple of 512 KB from `search`, to take its place in a
 * second level that is direct-mapped. */
#include <stdio.h>
#include <stdlib.h>

enum { POSITIONS = 2000, STEPS = 12, TABLE = 1 << 15, LINES = 48, APART = 1 << 19 };

struct search {
    int square;
    int seen[15];
};

static double table[TABLE];
static int board[256];

__attribute__((noinline)) static double evaluate(int position)
{
    double sum = 0;
    for (int i = 0; i < LINES; i++)
        sum += table[(position * LINES + i) * 8 % TABLE];
    return sum;
}

__attribute__((noinline)) static int walk(struct search *search)
{
    int square = search->square;
    for (int i = 0; i < STEPS; i++) {
        square = board[square];
        search->seen[i] += square;
    }
    return square;
}

__attribute__((noinline)) static void store(char *undo, int position)
{
    for (int i = 0; i < 3; i++)
        undo[i * APART] = position;
}

int main(void)
{
    struct search *search = aligned_alloc(APART, APART);
    char *undo = aligned_alloc(APART, 3 * APART);
    double sum = 0;
    int last = 0;
    search->square = 1;
    for (int i = 0; i < 256; i++)
        board[i] = (i * 77 + 5) % 256;
    for (int i = 0; i < TABLE; i++)
        table[i] = i;
    for (int position = 0; position < POSITIONS; position++) {
        store(undo, position);
        sum += evaluate(position);
        last = walk(search);
    }
    printf("%g %d %d\n", sum, last, undo[APART]);
    return 0;
}
