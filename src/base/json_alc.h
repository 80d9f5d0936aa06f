/*
 * json_alc.h: yyjson as we use it: memory from base/mem.h, so that it can fail in tests like any
 * other, and never aborts; text of its values.
 */
#pragma once

#include <yyjson.h>

#include "base/str.h"

struct arena;

/* For every document of the API. Any thread; never freed. Memory that yyjson hands out is freed
 * with mem_free. */
const yyjson_alc *json_alc(void);

/* From an arena: the document lives as long as that, and is not freed. */
yyjson_alc json_alc_arena(struct arena *arena);

/* The text of a string; STR_NONE for anything else, and for NULL. (yyjson_get_len also returns the
 * length of an array or an object, whose text is NULL.) */
struct str json_get_text(yyjson_val *value);
