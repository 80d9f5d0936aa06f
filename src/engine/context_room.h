/*
 * context_room.h: whether the rows of a context fit into memory, known from the model file alone.
 *
 * Without this check, the library allocates and clears what it can get, for minutes, before it
 * fails. The estimate is a lower bound, so that no context is refused that would have fitted: layers
 * with a window may keep few rows, and how many of the layers have one is not in every file.
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct engine_options;
struct gguf_file;

/* Bytes that each further token of a context needs at least. `windows`: some layers have one, or
 * may have one: not every file says so. */
double context_token_bytes(const struct gguf_file *file, const struct engine_options *options,
                           bool windows);

/* Bytes of the recurrent state of one sequence; 0: the file has none, or none that is known. */
uint64_t context_state_bytes(const struct gguf_file *file);

/* ERR_LIMIT when the rows of `tokens` do not fit into `room` bytes; the message says how many do,
 * and names no path. */
enum err context_check_room(const struct gguf_file *file, const struct engine_options *options,
                            bool windows, uint32_t tokens, uint64_t room,
                            struct errinfo *info) NODISCARD;
