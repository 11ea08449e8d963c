// UndefinedBehaviorSanitizer.
// guest: build=dynamic scope=output flags=-pthread,-fsanitize=undefined
#include "sanitized.h"
