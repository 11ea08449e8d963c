// The same, linked statically: the symbols are in the executable.
// guest: build=static
#include "notes_malloc.h"
