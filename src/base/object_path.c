/* object_path.c: see the header. */
#include "base/object_path.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char suffix[] = ".hobj";

void object_path(const struct hash256 *key, char out[OBJECT_PATH_BYTES])
{
    char hex[HASH256_HEX_BYTES];

    hash256_hex(key, hex);
    int len = snprintf(out, OBJECT_PATH_BYTES, "%.2s/%.2s/%s%s", hex, hex + 2, hex, suffix);
    assert(len == OBJECT_PATH_BYTES - 1);
}

/* Only what object_path writes is accepted: no upper case, no wrong folder. */
bool object_path_parse(const char *path, size_t len, struct hash256 *key)
{
    char canonical[OBJECT_PATH_BYTES];
    struct hash256 parsed;

    if (len != OBJECT_PATH_BYTES - 1 ||
        !hash256_from_hex(path + OBJECT_PATH_FILE_AT, HASH256_HEX_BYTES - 1, &parsed))
        return false;
    object_path(&parsed, canonical);
    if (memcmp(path, canonical, len) != 0)
        return false;
    *key = parsed;
    return true;
}
