/*
 * micro.c: what the microbenchmarks share.
 */
#include "lab/micro.h"

#include <stdio.h>
#include <stdlib.h>

void micro_path(char out[MICRO_PATH_BYTES], const char *name)
{
    const char *folder = getenv("TMPDIR");

    snprintf(out, MICRO_PATH_BYTES, "%s/%s.gguf",
             folder != NULL && folder[0] != '\0' ? folder : "/tmp", name);
}
