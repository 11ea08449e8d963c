/* The kernels of the METRIC paper, on globals; and a list. */
#define N 20
double xx[N][N], xy[N][N], xz[N][N];
double x[N][N], a[N][N], b[N][N];
struct node { struct node *next; int value[4]; };

void mm(void)
{
    int i, j, k;
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++)
            for (k = 0; k < N; k++)
                xx[i][j] = xy[i][k] * xz[k][j] + xx[i][j];
}

void adi(void)
{
    for (int k = 1; k < N; k++) {
        for (int i = 2; i < N; i++)
            x[i][k] = x[i][k] - x[i-1][k] * a[i][k] / b[i-1][k];
        for (int i = 2; i < N; i++)
            b[i][k] = b[i][k] - a[i][k] * a[i][k] / b[i-1][k];
    }
}

int sum(struct node *p, int *q)
{
    int n = 0;
    for (; p; p = p->next)
        n += p->value[2] + *q++;
    return n;
}

int main(void)
{
    struct node one = { 0, { 1, 2, 3, 4 } };
    mm();
    adi();
    return sum(&one, one.value);
}
