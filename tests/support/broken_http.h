/*
 * broken_http.h: broken HTTP from a generator: requests with a defect of a known kind, and good
 * ones with random damage.
 *
 * All of it follows from the seed. The client is http_client.h; a failed check fails the test and
 * shows the request.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

/* Each replaces what is in `request`. A good one is a POST to /echo, which need not exist. */
void broken_http_good(struct buf *request, uint64_t *seed);
void broken_http_defect(struct buf *request, uint64_t *seed);
/* Bytes changed, doubled, lost, or the end cut off. */
void broken_http_damage(struct buf *request, uint64_t *seed);

/* Sends it, in pieces. It must be refused, by a status from 400 on or by silence, and the
 * connection closed. */
void broken_http_check_refused(uint16_t port, const struct buf *request, uint64_t *seed);
/* The same for damage, after which anything may come, but in whole answers. */
void broken_http_check_survived(uint16_t port, const struct buf *request, uint64_t *seed);

/* How many requests of each kind: HEARTH_MALFORMED_N, or 300. */
uint64_t broken_http_count(void);
