// Output before abort, and death by SIGABRT.
// guest: build=static
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    write(1, "before\n", 7);
    abort();
}
