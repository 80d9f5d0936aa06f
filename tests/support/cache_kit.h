/*
 * cache_kit.h: an engine for tests of the cache, made of nothing but arithmetic.
 *
 * The row of token i is a function of the space and of all tokens [0, i]; a snapshot at n is one of
 * all tokens [0, n). So whatever is wrong, swapped, stale, foreign or shifted differs from what is
 * expected, and kit_restore finds it.
 *
 * Threads: a kit belongs to one test; kit_restore and kit_store may be called from several threads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hearth/hearth.h>

struct kit {
    struct hearth_cache *cache;
    struct hearth_space *space;
    uint64_t tag;            /* of the space: part of every byte */
    uint32_t row_bytes;      /* a multiple of 8 */
    uint32_t snapshot_bytes; /* likewise */
};

enum { KIT_BLOCK = 16 };

/* Blocks of 16 tokens, runs of 64, 4 tails, rows of 64 bytes, snapshots of 512; one space of tenant
 * "". */
void kit_open(struct kit *kit, uint64_t ram_bytes, uint32_t kinds);
/* The same with 4 MiB, and `count` tokens (of seed 1) whose rows it holds. */
void kit_open_holding(struct kit *kit, uint32_t kinds, int32_t *tokens, uint32_t count);
void kit_open_with(struct kit *kit, const struct hearth_options *options,
                   const struct hearth_model *model);
void kit_close(struct kit *kit);

struct hearth_options kit_options(uint64_t ram_bytes);
struct hearth_model kit_model(uint32_t kinds);
/* Another space of the same cache; close it with hearth_space_close. */
struct kit kit_space(const struct kit *kit, const struct hearth_model *model, const char *tenant,
                     uint64_t share);

/* Tokens that are the same for the same seed, and differ at every position for others. */
void kit_tokens(int32_t *tokens, size_t count, uint32_t seed);

/* Fills or checks the bytes of an object; tokens [0, end) are its own. */
void kit_fill(const struct kit *kit, enum hearth_object_kind kind, uint32_t begin, uint32_t end,
              const int32_t *tokens, void *memory);
uint64_t kit_bytes(const struct kit *kit, enum hearth_object_kind kind, uint32_t begin,
                   uint32_t end);
/* Fails the test unless the object is that of these tokens, as far as they go (`count`). */
void kit_expect(const struct kit *kit, const struct hearth_object *object, const void *data,
                const int32_t *tokens, size_t count);

/* Stores one object: an enum hearth_error. */
int kit_put(const struct kit *kit, struct hearth_store *store, enum hearth_object_kind kind,
            uint32_t begin, uint32_t end, const int32_t *tokens);
/* Stores all rows that are not held, sliding rows with them where they are captured; the number of
 * objects. Hints may be NULL. */
size_t kit_store(const struct kit *kit, const int32_t *tokens, size_t count,
                 const struct hearth_store_hints *hints);
int kit_snapshot(const struct kit *kit, const int32_t *tokens, size_t count, uint32_t at);

/* Looks up, fetches and checks every object and that they cover the boundary, accepts, releases.
 * Falls back when a fetch fails. Returns the boundary; *info (may be NULL) is what the accepted
 * plan said, with objects NULL. */
uint32_t kit_restore(const struct kit *kit, const int32_t *tokens, size_t count,
                     struct hearth_plan_info *info);
/* A plan, to be released. */
struct hearth_plan *kit_lookup(const struct kit *kit, const int32_t *tokens, size_t count);
/* For lookups that touch nothing. */
extern const struct hearth_lookup_options kit_peeking;
/* What a lookup would say, touching nothing. */
struct hearth_plan_info kit_peek(const struct kit *kit, const int32_t *tokens, size_t count);

struct hearth_stats kit_stats(const struct kit *kit); /* of the whole cache */
/* Checks the whole cache, and that it is within its cap (keeps I93). */
void kit_check(const struct kit *kit);
