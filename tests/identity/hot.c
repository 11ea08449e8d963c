/* A loop in a function called HOT that reads TIMES times 1000 elements; then the program given, if any, replaces this one, or, with
 * FORK, its child. Programs made of this differ in nothing but names and one constant, so that everything is at the same address. */
#include <sys/wait.h>
#include <unistd.h>

static volatile long data[1000];

__attribute__((noinline)) long HOT(void)
{
    long sum = 0;
    for (int t = 0; t < TIMES; t++)
        for (int i = 0; i < 1000; i++)
            sum += data[i];
    return sum;
}

int main(int argc, char **argv)
{
    HOT();
    if (argc == 1)
        return 0;
#ifdef FORK
    if (fork()) {
        wait(0);
        return 0;
    }
#endif
    execv(argv[1], argv + 1);
    return 1;
}
