// The library that notes_library.c opens.
#include <stddef.h>
static char arena[1 << 12];
static size_t used;
void *je_malloc(size_t n) {
    used += n;
    return arena + used - n;
}
void je_free(void *p) { *(volatile char *)p = 0; }
