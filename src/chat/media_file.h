/*
 * media_file.h: files below a folder that the operator names (--media-path), by file:// URLs.
 *
 * "file://NAME" is relative to the folder; "file:///PATH" must begin with it. No component may
 * begin with a dot, and no link is followed, so that nothing outside the folder is reached.
 *
 * Threads: pure functions, which block on the disk.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct arena;

bool media_file_is_url(struct str url);

/* Reads a file of at most `max` bytes into the arena. `dir` is an absolute path, NULL = no folder
 * was named: ERR_UNSUPPORTED. ERR_INVALID: no such file below it; ERR_LIMIT: too large; or
 * arena->err. Messages continue the name of a field. */
enum err media_file_read(const char *dir, struct str url, size_t max, struct arena *arena,
                         struct str *out, struct errinfo *info) NODISCARD;
