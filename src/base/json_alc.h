/*
 * json_alc.h: memory for yyjson from base/mem.h, so that it can fail in tests like any other, and
 * never aborts.
 */
#pragma once

#include <yyjson.h>

struct arena;

/* For every document of the API. Any thread; never freed. Memory that yyjson hands out is freed
 * with mem_free. */
const yyjson_alc *json_alc(void);

/* From an arena: the document lives as long as that, and is not freed. */
yyjson_alc json_alc_arena(struct arena *arena);
