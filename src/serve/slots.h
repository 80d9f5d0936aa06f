/*
 * slots.h: llama-server's slots: the tokens of the last conversations, by number.
 *
 * hearth has one cache for all requests, and any sequence can continue any of them. A slot is only a
 * name for the tokens of the last request that ran under its number, so that clients can save and
 * restore it (endpoints_slots.c). Numbers are per tenant and model.
 *
 *      slots_take   "id_slot", or the idle slot whose tokens this prompt continues, or the one that
 *                   was idle for longest
 *      slots_give   the request has ended; its tokens replace those of the slot
 *
 * Threads: any; one lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/hash.h"
#include "engine/engine.h"

enum { SLOT_NONE = -1 };

struct slots;

/* `bytes_max`: tokens of all slots together; those used longest ago are forgotten. 0 = only numbers
 * are kept. */
struct slots *slots_create(size_t bytes_max);
void slots_destroy(struct slots **slots); /* NULL is a no-op */

/* Whose slots they are. */
struct hash128 slots_owner(const char *who, const char *model);

/* The number of a slot below `count`, which is busy until slots_give. `wanted`: its number, or
 * SLOT_NONE. Several requests may share a slot if all are busy or the number was asked for. */
int32_t slots_take(struct slots *slots, const struct hash128 *owner, int32_t wanted, uint32_t count,
                   const token_id *tokens, size_t tokens_count);
/* `tokens` are copied; NULL: the slot keeps its tokens. */
void slots_give(struct slots *slots, const struct hash128 *owner, int32_t id,
                const token_id *tokens, size_t tokens_count);

/* Replaces the tokens of a slot; none: forgets them. */
void slots_put(struct slots *slots, const struct hash128 *owner, int32_t id, const token_id *tokens,
               size_t tokens_count);
/* Appends the tokens as bytes. False: a request is running in it. An unused slot has none. */
bool slots_get(struct slots *slots, const struct hash128 *owner, int32_t id,
               struct buf *out) NODISCARD;
