// The same program as a static position-independent executable: it relocates itself first.
// guest: build=static-pie
#include "libc_mix.h"
