/*
 * bench_tokens.h: the tokens of a prompt as a server sees it, to compare with "computed".
 *
 * Works with hearth and llama-server (`/apply-template`, `/tokenize`). Neither call touches an
 * engine. Threads: any.
 */
#ifndef HEARTH_LAB_BENCH_TOKENS_H
#define HEARTH_LAB_BENCH_TOKENS_H

#include "lab/bench_ask.h"

struct tokens {
    uint32_t *ids;
    size_t count;
};

/* Renders messages to text, appended to `out`; a message without a role is already rendered. */
enum err tokens_render(const struct client_url *url, const struct ask_message *messages,
                       size_t count, struct buf *out, struct errinfo *info) NODISCARD;
/* The caller finishes `out` in any case. */
enum err tokens_of(const struct client_url *url, const char *text, struct tokens *out,
                   struct errinfo *info) NODISCARD;
void tokens_fini(struct tokens *tokens);

/* The length of the common prefix. */
size_t tokens_common(const struct tokens *a, const struct tokens *b);

#endif
