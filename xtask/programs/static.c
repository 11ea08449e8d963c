/* Position-independent and static: the program relocates itself before main. */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf back;

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void leave(int depth)
{
    if (depth == 0)
        longjmp(back, 5);
    leave(depth - 1);
}

int main(void)
{
    enum { N = 20000 };
    char **words = malloc(N * sizeof *words);
    double sum = 0;
    for (int i = 0; i < N; i++) {
        char text[32];
        snprintf(text, sizeof text, "word%d", i * 7919 % 10007);
        words[i] = strdup(text);
        sum += sqrt(i);
    }
    qsort(words, N, sizeof *words, compare);
    int from = setjmp(back);
    if (from == 0)
        leave(50);
    printf("%s %s %.3f %d\n", words[0], words[N - 1], sum, from);
    return 0;
}
