// As sanitizer_address, in a program that lies below the shadow memory.
// guest: build=dynamic-nopie scope=output flags=-pthread,-fsanitize=address
#include "sanitized.h"
