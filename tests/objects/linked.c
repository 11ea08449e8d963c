/* Started through a link, and with an argument it starts itself through another one: writes 100 numbers each time. */
#include <unistd.h>

static volatile int numbers[100];

int main(int argc, char **argv) {
    for (int i = 0; i < 100; i++)
        numbers[i] = i;
    if (argc > 1)
        execl(argv[1], argv[1], (char *)0);
    return 0;
}
