// LeakSanitizer, which stops all threads at the end and looks at their memory.
// guest: build=dynamic scope=output flags=-pthread,-fsanitize=leak
#include "sanitized.h"
