/* Where thread-local variables are, seen from the thread pointer. */
#include <stdio.h>
_Thread_local int first = 1;
_Thread_local _Alignas(64) double aligned[3];
static _Thread_local char last[5];

int main(void)
{
    char *pointer = __builtin_thread_pointer();
    printf("first %ld\n", (long)((char *)&first - pointer));
    printf("aligned %ld\n", (long)((char *)aligned - pointer));
    printf("last %ld\n", (long)(last - pointer));
    return 0;
}
