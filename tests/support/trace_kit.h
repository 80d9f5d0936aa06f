/*
 * trace_kit.h: traces for tests: small random ones, that of tests/data, and published ones.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lab/trace_sim.h"
#include "lab/trace.h"

/* Full attention, with blocks so small that a sanitizer's shadow of their addresses is as well. */
extern const struct cost trace_kit_full;
/* The same with snapshots that cost as much as the rows of four tokens. */
extern const struct cost trace_kit_hybrid;

/* Prompts of up to `blocks_max` blocks of 4 tokens over an alphabet of two, so that many share
 * prefixes; one a second. */
void trace_kit_random(struct trace *trace, uint64_t *seed, size_t requests, uint32_t blocks_max);
/* Adds a prompt whose blocks are the characters of `text`. */
void trace_kit_add(struct trace *trace, uint64_t at_s, const char *text);
/* The trace of tests/data (traces/make.py has made it). */
#define TRACE_KIT_OWN "tests/data/traces/agents.jsonl"
/* The path of a trace of ../shared/traces, or NULL (with a line that says so) when this clone has
 * none. Borrowed until the next call. */
const char *trace_kit_published(const char *name);
void trace_kit_read(struct trace *trace, const char *path);
