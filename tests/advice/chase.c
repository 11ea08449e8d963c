/* A walk along pointers in random order. */
#define N 8192
struct node {
    struct node *next;
} nodes[N];
int order[N];

int main(void) {
    unsigned seed = 1;
    for (int i = 0; i < N; i++)
        order[i] = i;
    for (int i = N - 1; i > 0; i--) {
        seed = seed * 1103515245 + 12345;
        int j = seed / 65536 % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (int i = 0; i < N; i++)
        nodes[order[i]].next = &nodes[order[(i + 1) % N]];
    struct node *at = nodes;
    for (int i = 0; i < 4 * N; i++)
        at = at->next;
    return at != nodes;
}
