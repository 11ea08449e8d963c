// ThreadSanitizer, whose shadow memory lies at fixed addresses and which wants nothing else there.
// guest: build=dynamic scope=output flags=-pthread,-fsanitize=thread
#include "sanitized.h"
