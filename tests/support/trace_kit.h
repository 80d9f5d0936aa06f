/*
 * trace_kit.h: traces for tests: small random ones, and those of the shared folder.
 */
#ifndef HEARTH_TESTS_SUPPORT_TRACE_KIT_H
#define HEARTH_TESTS_SUPPORT_TRACE_KIT_H

#include <stddef.h>
#include <stdint.h>

#include "lab/trace_sim.h"
#include "lab/trace.h"

/* Full attention, with blocks so small that a sanitizer's shadow of their addresses is, too. */
extern const struct cost trace_kit_full;
/* The same with snapshots that cost as much as the rows of four tokens. */
extern const struct cost trace_kit_hybrid;

/* Prompts of up to `blocks_max` blocks of 4 tokens over an alphabet of two, so that many share
 * prefixes; one a second. */
void trace_kit_random(struct trace *trace, uint64_t *seed, size_t requests, uint32_t blocks_max);
/* Adds a prompt whose blocks are the characters of `text`. */
void trace_kit_add(struct trace *trace, uint64_t at_s, const char *text);
/* A trace of ../shared/traces; false when the folder is not there. */
bool trace_kit_shared(struct trace *trace, const char *path);

#endif
