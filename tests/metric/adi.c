/* METRIC's second example (section 7.2): Erlebacher ADI integration, 800 x 800 doubles, in the paper's three versions.
 *
 * Each of the two statements makes five accesses, in the order that the paper's names of its reference points tell:
 * x[i-1][k] (x_Read_0), a[i][k] (a_Read_1), b[i-1][k] (b_Read_2), x[i][k] (x_Read_3), write of x[i][k]; and
 * a[i][k] (a_Read_5), a[i][k] again, b[i-1][k], b[i][k] (b_Read_8), write of b[i][k].
 * The matrices are volatile, so that every access of the source is one of the machine, in that order: without it a compiler reads a[i][k] once, and keeps
 * x[i-1][k] in a register from one iteration to the next. Counters stay in registers.
 *
 * One struct, aligned to more than the cache, fixes where they lie. The first version makes 500,501 misses wherever that is; the others make as many as the paper says,
 * to within one, if a and b begin 56 and 113 lines of 32 bytes behind x, modulo the 512 sets. The gaps see to that.
 *
 * build: gcc -O1 -static -fno-pie -no-pie -DORIGINAL | -DINTERCHANGED | -DFUSED */
#define N 800

static struct {
    volatile double x[N][N];
    char gap[9984];
    volatile double a[N][N];
    char another[10016];
    volatile double b[N][N];
} m __attribute__((aligned(1 << 16)));

static inline void __attribute__((always_inline)) first(long i, long k)
{
    double above = m.x[i - 1][k];
    double a = m.a[i][k];
    double b = m.b[i - 1][k];
    double x = m.x[i][k];
    m.x[i][k] = x - above * a / b;
}

static inline void __attribute__((always_inline)) second(long i, long k)
{
    double a = m.a[i][k];
    double again = m.a[i][k];
    double above = m.b[i - 1][k];
    double b = m.b[i][k];
    m.b[i][k] = b - a * again / above;
}

void __attribute__((noinline)) kernel(void)
{
#if defined ORIGINAL
    for (long k = 1; k < N; k++) {
        for (long i = 2; i < N; i++)
            first(i, k);
        for (long i = 2; i < N; i++)
            second(i, k);
    }
#elif defined INTERCHANGED
    for (long i = 2; i < N; i++) {
        for (long k = 1; k < N; k++)
            first(i, k);
        for (long k = 1; k < N; k++)
            second(i, k);
    }
#elif defined FUSED
    for (long i = 2; i < N; i++)
        for (long k = 1; k < N; k++) {
            first(i, k);
            second(i, k);
        }
#else
#error which version?
#endif
}

int main(void)
{
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            m.x[i][k] = i + k;
            m.a[i][k] = 0.25;
            m.b[i][k] = 2;
        }
    kernel();
    return 0;
}
