// The same program dynamically linked and position-independent: loader, lazy binding, ifuncs.
// guest: build=dynamic
#include "libc_mix.h"
