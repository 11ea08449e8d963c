// A statically linked program: allocation, formatting, sorting, strings.
// guest: build=static
#include "libc_mix.h"
