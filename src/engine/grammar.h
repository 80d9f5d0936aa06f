/*
 * grammar.h: a grammar that follows one generation. For this folder only; others use sample.h.
 *
 *      waiting --a trigger was generated (grammar_accept)--> following
 *         `-----the text so far is the grammar's, and its point has come--^
 *      (without triggers and point it follows from the beginning)
 *
 * The inference library also has grammars, but no bound on their work: 231 bytes were enough to
 * keep it busy forever. It also throws C++ exceptions through C. Here every token has a bounded
 * number of steps (gbnf.h), and a grammar that needs more is an error. Triggers are plain
 * texts.
 *
 * OWNER: the engine's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/sample.h"

struct llama_token_data_array;

enum { GRAMMAR_TRIGGERS_MAX = 32, GRAMMAR_TRIGGER_BYTES_MAX = 128 };

struct grammar;

/* Reads the fields `grammar...`. ERR_INVALID, ERR_LIMIT: what is wrong with the text or a trigger. A trigger that the grammar does
 * not allow as its beginning could never start it and is refused as well. ERR_NOMEM. */
enum err grammar_create(struct grammar **grammar, const struct engine *engine,
                        const struct sample_params *params, struct errinfo *info) NODISCARD;
void grammar_destroy(struct grammar **grammar);

/* Whether `token` may come next; always while it waits. Also false after an error that the next
 * call reports. */
bool grammar_allows(const struct grammar *grammar, token_id token);

/* The tokens that may come next, a bit each (token / 64, token % 64), until the next call. NULL: that
 * would take too long, and grammar_mask finds some of them. Not while it waits. Errors as
 * grammar_mask. */
enum err grammar_allowed(struct grammar *grammar, const uint64_t **allowed,
                         struct errinfo *info) NODISCARD;

/* Sets the logit of every candidate that may not come next to -infinity. ERR_INVALID: the grammar
 * is too ambiguous; ERR_NOMEM. */
enum err grammar_mask(struct grammar *grammar, struct llama_token_data_array *candidates,
                      struct errinfo *info) NODISCARD;

/* `token` has come; grammar_allows said yes. While it waits this may start it: then the text
 * from the beginning of the trigger on is read by the grammar. If the token contains more text
 * that the grammar refuses, it keeps waiting. Errors as grammar_mask. */
enum err grammar_accept(struct grammar *grammar, token_id token, struct errinfo *info) NODISCARD;
