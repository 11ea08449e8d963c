// Every allocation function of the C library, in place, moving, failing.
// guest: build=dynamic
#include "notes_malloc.h"
