#include "prompt/choice.h"
