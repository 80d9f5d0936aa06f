/*
 * bench_words.h: prompts for measuring: text that looks like text to a tokenizer, the same for the
 * same seed, and different from its first word on for another.
 */
#ifndef HEARTH_LAB_BENCH_WORDS_H
#define HEARTH_LAB_BENCH_WORDS_H

#include <stddef.h>
#include <stdint.h>

struct buf;

/* Appends `bytes` bytes of lower-case words. */
void words_append(struct buf *out, size_t bytes, uint64_t seed);

#endif
