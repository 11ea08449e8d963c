// The program executes itself twice with other arguments; the thread keeps its serial.
// guest: build=static
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char text[32];
    int round = argc > 1 ? atoi(argv[1]) : 0;
    int n = snprintf(text, sizeof text, "round %d\n", round);
    write(1, text, n);
    if (round == 2) return 7;
    snprintf(text, sizeof text, "%d", round + 1);
    char *next[] = {argv[0], text, 0};
    execve(argv[0], next, (char *[]){0});
    return 1;
}
