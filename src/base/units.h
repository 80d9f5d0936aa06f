/*
 * units.h: sizes and durations as people write them.
 *
 *      sizes      4096   64K   8GiB   1.5 GB   20%    K, KB, KiB ... are powers of 1024, as in
 *                                                     llama.cpp and Redis; a percentage is of a
 *                                                     whole that the caller gives
 *      durations  90     90s   1h30m   250ms   2d     a plain number means seconds
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

enum { UNITS_TEXT_BYTES = 32 };

/* `whole` is what a percentage (at most 100) refers to; 0: percentages are refused. Upper or lower
 * case; one space is allowed before the unit and between the parts of a duration. Fractions are
 * rounded down; a fraction of plain bytes is refused. ERR_INVALID with a message that shows
 * examples; ERR_LIMIT when it does not fit; the result is then untouched. */
enum err units_parse_size(struct str text, uint64_t whole, uint64_t *bytes,
                          struct errinfo *info) NODISCARD;
enum err units_parse_duration(struct str text, uint64_t *ns, struct errinfo *info) NODISCARD;

/* For people: "512 B", "1.5 GiB", "17.5 MiB"; "850 us", "1.9 s", "2 h 05 min"; "28,412". Rounded to
 * the nearest; sizes and durations can be parsed again. Return `out`. */
const char *units_format_size(uint64_t bytes, char out[UNITS_TEXT_BYTES]);
const char *units_format_duration(uint64_t ns, char out[UNITS_TEXT_BYTES]);
const char *units_format_count(uint64_t count, char out[UNITS_TEXT_BYTES]);
