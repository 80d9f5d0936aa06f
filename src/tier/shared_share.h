/*
 * shared_share.h: how much of a shared store one tenant may fill.
 *
 * The bytes that a tenant writes are counted in the store itself, for all machines together: in a
 * counter per eighth of the time to live. Their sum is at least what the tenant has there, except
 * for objects that live longer because they are used.
 *
 *      PREFIX:h1:NAME:u:E    bytes written in eighth E since 1970; NAME is a keyed hash of the tenant
 *
 * Without a known size of the store (no maxmemory, S3) there is no limit. A store that lies about
 * the numbers can refuse writes, or allow them; it can do that anyway.
 *
 * Threads: any; nothing here has state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"
#include "tier/shared_object.h"

enum shared_share {
    SHARED_SHARE_COUNTED,
    SHARED_SHARE_NONE, /* nothing was added: there is no limit, or the store did not answer */
    SHARED_SHARE_OVER, /* nothing was added: the tenant would be above its share */
};

/* Adds bytes to what the tenant has written until `wall_ns`. */
enum shared_share shared_share_take(const struct shared_io *io, const struct hash256 *tenant,
                                    uint64_t bytes, uint64_t wall_ns) NODISCARD;
/* Counted bytes were not written after all. The time is that of the call above. */
void shared_share_give(const struct shared_io *io, const struct hash256 *tenant, uint64_t bytes,
                       uint64_t wall_ns);
