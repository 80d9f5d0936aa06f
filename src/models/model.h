/*
 * model.h: one loaded model with everything needed to answer: engine, scheduler, chat template,
 * tokenizer, and a cache space for each tenant.
 *
 *      api --> model_chat (template, tokens) --> struct gen --> model_sched --> answers
 *
 * Threads: open and close from one thread; everything else from any.
 */
#pragma once

#include <hearth/hearth.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/engine.h"
#include "chat/prepare.h"
#include "chat/template.h"
#include "chat/tokens.h"
#include "sched/sched.h"

struct model;

/* Bytes of the RAM tier and of the disk that are reserved for a tenant. Several for one tenant add
 * up. */
struct model_share {
    const char *tenant;
    uint64_t bytes;
    uint64_t ssd_bytes;
};

struct model_options {
    struct engine *engine;            /* owned from now on, even on failure */
    struct engine *draft_engine;      /* owned likewise; guesses tokens. NULL = none */
    const char *name;                 /* the name that clients use; NULL = the engine's */
    const char *template_text;        /* Jinja, instead of the model's own; NULL = its own */
    struct hearth_cache *cache;       /* NULL = off; borrowed */
    uint64_t tokens_cache_bytes;      /* size of the tokenizer's memo; 0 = 64 MiB */
    const struct model_share *shares; /* borrowed until model_close */
    size_t shares_count;
    struct sched_options sched; /* engine, model, clock and log are filled in */
    struct clock *clock;
    struct log *log;
};

enum err model_open(struct model **model, const struct model_options *options,
                    struct errinfo *info) NODISCARD;
/* Cancels its generations. */
void model_close(struct model **model);

const char *model_name(const struct model *model);
const struct engine_facts *model_facts(const struct model *model);
/* only for tokenizer functions: the scheduler owns the rest */
struct engine *model_engine(const struct model *model);
/* Tokens that one request can have: less than facts.context with --kv-streams. */
uint32_t model_request_context(const struct model *model);
struct sched *model_sched(const struct model *model);
const struct chat_template *model_template(const struct model *model);
struct tokens *model_tokens(const struct model *model);
struct chat_model model_chat(const struct model *model); /* all of that, for chat/prepare.h */
uint64_t model_loaded_s(const struct model *model);      /* wall time */

/* Whether its state is cached. Unsupported is not the same as off: it was not requested, and the
 * log says why, once (keeps I48). X(value, name) */
#define MODEL_CACHE_TABLE(X)  \
    X(MODEL_CACHE_OFF, "off") \
    X(MODEL_CACHE_ON, "on")   \
    X(MODEL_CACHE_UNSUPPORTED, "unsupported (see log)")

enum model_cache { MODEL_CACHE_TABLE(TABLE_VALUE) MODEL_CACHE_COUNT };

enum model_cache model_cache(const struct model *model);
const char *model_cache_name(enum model_cache state);

/* Why it is not on, in a few words; "" when it is. */
const char *model_cache_reason(const struct model *model);

/* Its state can be cut at any token, so the rows after the last whole block are kept, too. */
bool model_has_tails(const struct model *model);

/* The space of a tenant ("" = none) and a set of adapters (NULL = as loaded); opened once, and open
 * as long as the model. *space is NULL when the cache is off. If a share is no longer available,
 * the space is opened without it; only that of the model without adapters has one. A tenant's name
 * ends at the first '/'; a salt may follow. ERR_LIMIT: too many tenants, or too many salts and sets of
 * adapters of this tenant. */
enum err model_space(struct model *model, const char *tenant, const struct lora_set *lora,
                     struct hearth_space **space, struct errinfo *info) NODISCARD;

/* The same for the state of its draft model; NULL as well if there is none. Has no share. */
enum err model_draft_space(struct model *model, const char *tenant, struct hearth_space **space,
                           struct errinfo *info) NODISCARD;

/* The adapters of requests that choose none: at first as loaded. Any thread. ERR_INVALID as
 * lora_set_check. */
struct lora_set model_lora(struct model *model);
enum err model_set_lora(struct model *model, const struct lora_set *lora,
                        struct errinfo *info) NODISCARD;

/* The open spaces by index: for reports and for clearing. False: there are fewer. The result is
 * valid as long as the model. */
struct model_tenant {
    const char *tenant;
    struct hearth_space *space;
};
bool model_space_at(struct model *model, size_t index, struct model_tenant *out);

/* The sum over its open spaces; zeros without a cache. Gauges of the whole cache (bytes_budget,
 * bytes_cap, bytes_memory) are left out. */
void model_get_cache_stats(struct model *model, struct hearth_stats *sum);

/* Runs one token through all of a model: its template, tokenizer, scheduler and engine (I82). So the
 * first client finds compiled templates, mapped weights and warm threads, and a model that cannot
 * answer is detected before the first request. Waits for it. Nothing of it enters the cache.
 * `tokens` (may be NULL) returns the length of the prompt. */
enum err model_warm(struct model *model, uint32_t *tokens, struct errinfo *info) NODISCARD;
