// The same program dynamically linked at a fixed address, unoptimised.
// guest: build=dynamic-nopie flags=-O0
#include "libc_mix.h"
