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

/* What object_path writes for the key, from its byte `at` on. This also rejects upper case and the
 * wrong folder. */
static bool parse(const char *text, size_t len, size_t at, struct hash256 *key)
{
    char canonical[OBJECT_PATH_BYTES];
    struct hash256 parsed;

    if (len != OBJECT_PATH_BYTES - 1 - at ||
        !hash256_from_hex(text + OBJECT_PATH_FILE_AT - at, HASH256_HEX_BYTES - 1, &parsed))
        return false;
    object_path(&parsed, canonical);
    if (memcmp(text, canonical + at, len) != 0)
        return false;
    *key = parsed;
    return true;
}

bool object_path_parse(const char *path, size_t len, struct hash256 *key)
{
    return parse(path, len, 0, key);
}

bool object_path_parse_file(const char *name, size_t len, struct hash256 *key)
{
    return parse(name, len, OBJECT_PATH_FILE_AT, key);
}
