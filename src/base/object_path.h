/*
 * object_path.h: where a folder of cached objects has the object of a key: "ab/cd/abcd....hobj".
 *
 * The SSD tier, exports and the files of slots share this layout. Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/hash.h"

enum {
    OBJECT_PATH_LEAF_AT = 3, /* "cd" */
    OBJECT_PATH_FILE_AT = 6,
    OBJECT_PATH_BYTES = OBJECT_PATH_FILE_AT + 64 + 6 /* 64 digits ".hobj" NUL */
};

void object_path(const struct hash256 *key, char out[OBJECT_PATH_BYTES]);

/* The key of such a path; false, with *key untouched, for anything object_path would not write. */
bool object_path_parse(const char *path, size_t len, struct hash256 *key) NODISCARD;
