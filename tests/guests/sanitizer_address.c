// AddressSanitizer, whose shadow memory lies at fixed addresses.
// guest: build=dynamic scope=output flags=-pthread,-fsanitize=address
#include "sanitized.h"
