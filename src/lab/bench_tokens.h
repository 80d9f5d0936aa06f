/*
 * bench_tokens.h: the tokens of a prompt as a server sees it: what a bench holds "computed"
 * against.
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

/* The text that messages become; one without a role is that text already. `out` gets it appended.
 */
enum err tokens_render(const struct client_url *url, const struct ask_message *messages,
                       size_t count, struct buf *out, struct errinfo *info) NODISCARD;
/* The caller finishes `out` in any case. */
enum err tokens_of(const struct client_url *url, const char *text, struct tokens *out,
                   struct errinfo *info) NODISCARD;
void tokens_fini(struct tokens *tokens);

/* How many at the beginning are the same. */
size_t tokens_common(const struct tokens *a, const struct tokens *b);

#endif
