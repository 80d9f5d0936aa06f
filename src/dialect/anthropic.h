/*
 * anthropic.h: Anthropic's Messages API: what its parser and composer share; answer.h declares the
 * dialects.
 *
 *      POST /v1/messages                 dialect_anthropic_messages: anthropic_parse.c reads,
 *                                        anthropic_compose.c writes
 *      POST /v1/messages/count_tokens    dialect_anthropic_count: the same, but max_tokens is not
 *                                        needed and nothing is generated
 *
 * The reported parts of a prompt add up to its length (keeps I99; usage.h), with or without
 * cache_control, and are the same in message_start, message_delta and whole bodies:
 *
 *      cache_read_input_tokens        what was cached
 *      cache_creation_input_tokens    what was written
 *      input_tokens                   the rest: one token, unless the cache is not written
 *
 * Threads: as the dialect's functions.
 */
#ifndef HEARTH_DIALECT_ANTHROPIC_H
#define HEARTH_DIALECT_ANTHROPIC_H

#include <stdint.h>
#include <yyjson.h>

#include "dialect/answer.h"
#include "chat/error.h"
#include "chat/gen_request.h"
#include "base/attr.h"
#include "base/buf.h"

/* The two lifetimes of cache_control, "5m" and "1h". The longest one in a request becomes
 * gen_request.cache_ttl_s and decides under which name creation is reported. */
enum { ANTHROPIC_TTL_SHORT_S = 300, ANTHROPIC_TTL_LONG_S = 3600 };

/* As dialect->parse. Counting needs no max_tokens; all other fields are checked in the same way. */
enum err anthropic_parse(struct gen_request *request, yyjson_val *root,
                         struct api_error *error) NODISCARD;
enum err anthropic_parse_count(struct gen_request *request, yyjson_val *root,
                               struct api_error *error) NODISCARD;

#endif
