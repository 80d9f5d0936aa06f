/*
 * model.c: see the header. Parts are closed in the reverse order of opening: the scheduler before
 * its engine, spaces after the scheduler that stores into them.
 */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "sched/drafter.h"

enum {
    TENANTS_MAX = 4096, /* as many as there can be keys */
    PARTS_MAX = 4096,   /* of tenants, by salts and sets of adapters */
    TENANT_BYTES = 128,
    TOKEN_TEXT_BYTES = 256,
    WARM_ARENA_BYTES_MAX = 16 << 20
};

/* describe() converts one to the other bit for bit. */
_Static_assert(KIND_BIT(KIND_FULL) == HEARTH_KIND_FULL &&
                   KIND_BIT(KIND_SLIDING) == HEARTH_KIND_SLIDING &&
                   KIND_BIT(KIND_CHUNKED) == HEARTH_KIND_CHUNKED &&
                   KIND_BIT(KIND_RECURRENT) == HEARTH_KIND_RECURRENT && KIND_COUNT == 4,
               "engine and cache kinds must have the same bits");

struct model_space {
    struct map_node link;
    char tenant[TENANT_BYTES];
    struct hash256 fingerprint;       /* with the adapters */
    const struct engine_facts *facts; /* of the model, or of its draft model */
    bool part;                        /* of a tenant: of a salt, or of a set of adapters */
    struct hearth_space *space;
};

struct model {
    struct engine *engine, *draft_engine;
    char *name;
    struct hearth_cache *cache;
    struct log *log;
    const struct model_share *shares;
    size_t shares_count;
    struct chat_template *tmpl;
    struct tokens *tokens;
    struct sched *sched;
    uint64_t loaded_s;
    enum model_cache state;
    struct lock lock;
    struct lora_set lora GUARDED_BY(lock);
    struct model_space **spaces GUARDED_BY(lock); /* in the order of opening */
    size_t spaces_count GUARDED_BY(lock), spaces_capacity GUARDED_BY(lock);
    struct map spaces_by_name GUARDED_BY(lock);
    uint64_t seed; /* of the map: salts come from clients */
};

/* ---- template and tokenizer ---- */

static size_t text_of(const struct engine *engine, token_id token, char *out, size_t size)
{
    return token < 0 ? 0 : MIN(engine_token_bytes(engine, token, true, out, size), size);
}

static enum err open_template(struct model *model, const char *text, struct log *log,
                              struct errinfo *info)
{
    const struct engine_facts *facts = engine_facts(model->engine);
    char bos[TOKEN_TEXT_BYTES], eos[TOKEN_TEXT_BYTES];
    struct chat_template_options options = {
        .source = text != NULL ? text : facts->chat_template,
        .bos = {bos, text_of(model->engine, facts->bos, bos, sizeof(bos))},
        .eos = {eos, text_of(model->engine, facts->eos, eos, sizeof(eos))},
    };
    enum err err = chat_template_create(&options, &model->tmpl, info);

    if (err == ERR_OK || text != NULL || facts->chat_template == NULL)
        return err;
    /* A model whose own template is unusable is still served. */
    LOG_WARN(log, "model", "the model's chat template cannot be used; using a plain one",
             LOG_STR("model", model->name), LOG_STR("reason", info->text));
    options.source = NULL;
    return chat_template_create(&options, &model->tmpl, info);
}

/* A client that sends tools to such a model gets its calls as text. */
static void report_calls(const struct model *model, struct log *log)
{
    enum chat_calls calls = chat_template_calls(model->tmpl);

    if (calls == CHAT_CALLS_UNREADABLE)
        LOG_WARN(log, "model", "tool calls of this model come as text",
                 LOG_STR("model", model->name), LOG_STR("reason", chat_calls_sentence(calls)));
}

static enum err open_tokens(struct model *model, uint64_t bytes_max, struct errinfo *info)
{
    struct tokens_options options = {.engine = model->engine, .memory_bytes_max = bytes_max};

    return tokens_create(&options, &model->tokens, info);
}

/* ---- spaces ---- */

static struct hearth_model describe(const struct engine_facts *facts,
                                    const struct hash256 *fingerprint)
{
    bool whole = facts->slicing == ENGINE_SLICING_WHOLE;
    struct hearth_model model = {
        .struct_size = sizeof(model),
        /* stored as a whole: valid at one length only */
        .kinds = whole ? HEARTH_KIND_RECURRENT : facts->kinds,
        .window = facts->window,
        .rows_bytes_per_token = facts->rows_bytes_per_token,
        .snapshot_bytes = facts->snapshot_bytes_max,
    };

    memcpy(model.fingerprint, fingerprint->bytes, sizeof(model.fingerprint));
    return model;
}

/* What a space is found by. */
struct space_name {
    const char *tenant;
    const struct hash256 *fingerprint;
    bool adapted; /* the request has chosen other adapters than those of the options */
};

static bool has_name(const struct map_node *node, const void *key)
{
    const struct model_space *space = CONTAINER_OF(node, struct model_space, link);
    const struct space_name *name = key;

    return strcmp(space->tenant, name->tenant) == 0 &&
           hash256_eq(&space->fingerprint, name->fingerprint);
}

static uint64_t hash_of(const struct model *model, const struct space_name *name)
{
    return map_hash(name->tenant, strlen(name->tenant), model->seed) ^
           map_hash(name->fingerprint, sizeof(*name->fingerprint), model->seed);
}

static struct model_space *find_space_locked(struct model *model, const struct space_name *name)
    REQUIRES(lock)
{
    lock_assert_held(&model->lock);
    struct map_node *node = map_find(&model->spaces_by_name, hash_of(model, name), has_name, name);
    return node != NULL ? CONTAINER_OF(node, struct model_space, link) : NULL;
}

/* Without its salt. */
static struct str owner_of(const char *tenant)
{
    return (struct str){tenant, strcspn(tenant, "/")};
}

/* Parts never take the room of tenants, and those of one tenant at most as much as they leave to
 * the others: a client that chooses a salt for each request costs no other tenant its cache. */
static bool has_room_locked(struct model *model, const struct engine_facts *facts,
                            const char *tenant, bool part) REQUIRES(lock)
{
    size_t tenants = 0, parts = 0, own = 0;

    lock_assert_held(&model->lock);
    for (size_t i = 0; i < model->spaces_count; i++) {
        const struct model_space *space = model->spaces[i];
        if (space->facts != facts)
            continue;
        tenants += !space->part;
        parts += space->part;
        own += space->part && str_eq(owner_of(space->tenant), owner_of(tenant));
    }
    return part ? own < PARTS_MAX - parts : tenants < TENANTS_MAX;
}

/* Spaces of adapters have none: the tenant's would count once for each of them. */
static struct model_share share_of(const struct model *model, const char *tenant,
                                   const struct hash256 *fingerprint)
{
    struct model_share share = {.tenant = tenant};
    bool own = hash256_eq(fingerprint, &model_facts(model)->fingerprint);

    for (size_t i = 0; own && i < model->shares_count; i++)
        if (strcmp(model->shares[i].tenant, tenant) == 0) {
            share.bytes += model->shares[i].bytes;
            share.ssd_bytes += model->shares[i].ssd_bytes;
        }
    return share;
}

/* Opening takes locks of the cache, which rank above ours. */
static enum err open_space(struct model *model, struct model_space *space, struct errinfo *info)
{
    struct hearth_model record = describe(space->facts, &space->fingerprint);
    struct model_share share = share_of(model, space->tenant, &space->fingerprint);

    int error = hearth_space_open(model->cache, &record, space->tenant, share.bytes, &space->space);
    if (error == HEARTH_ERROR_MEMORY && share.bytes > 0)
        error = hearth_space_open(model->cache, &record, space->tenant, 0, &space->space);
    if (error != HEARTH_OK)
        return err_set(info, error == HEARTH_ERROR_MEMORY ? ERR_NOMEM : ERR_INVALID,
                       "cannot open a cache space: %s", hearth_error_text(error));
    /* As with memory: without the share, the tenant is still served. */
    if (share.ssd_bytes > 0 &&
        hearth_space_set_ssd_share(space->space, share.ssd_bytes) != HEARTH_OK)
        LOG_WARN(model->log, "model", "a share of the disk is not available",
                 LOG_STR("tenant", space->tenant));
    return ERR_OK;
}

static enum err add_space_locked(struct model *model, const struct engine_facts *facts,
                                 const struct space_name *name, struct model_space **out,
                                 struct errinfo *info) REQUIRES(lock)
{
    bool part = name->adapted || strchr(name->tenant, '/') != NULL;

    lock_assert_held(&model->lock);
    if (strlen(name->tenant) >= TENANT_BYTES)
        return err_set(info, ERR_LIMIT, "the name of the tenant is too long");
    if (!has_room_locked(model, facts, name->tenant, part))
        return err_set(info, ERR_LIMIT, "too many %s",
                       part ? "salts and sets of adapters" : "tenants");
    struct model_space *added = mem_alloc(sizeof(*added));
    added->facts = facts;
    added->fingerprint = *name->fingerprint;
    added->part = part;
    snprintf(added->tenant, sizeof(added->tenant), "%s", name->tenant);
    enum err err = open_space(model, added, info);
    if (err != ERR_OK) {
        mem_free(added);
        return err;
    }
    mem_reserve_one(&model->spaces, model->spaces_count, &model->spaces_capacity, sizeof(added));
    model->spaces[model->spaces_count++] = added;
    map_insert(&model->spaces_by_name, &added->link, hash_of(model, name));
    *out = added;
    return ERR_OK;
}

static enum err space_of(struct model *model, const struct engine_facts *facts,
                         const struct space_name *name, struct hearth_space **space,
                         struct errinfo *info)
{
    enum err err = ERR_OK;

    lock_enter(&model->lock);
    struct model_space *found = find_space_locked(model, name);
    if (found == NULL)
        err = add_space_locked(model, facts, name, &found, info);
    if (err == ERR_OK)
        *space = found->space;
    lock_leave(&model->lock);
    return err;
}

enum err model_space(struct model *model, const char *tenant, const struct lora_set *lora,
                     struct hearth_space **space, struct errinfo *info)
{
    const struct engine_facts *facts = model_facts(model);
    const struct lora_set *chosen = lora != NULL ? lora : &facts->lora.initial;
    struct hash256 fingerprint = lora_fingerprint(&facts->fingerprint, &facts->lora, chosen);
    struct space_name name = {tenant, &fingerprint, !lora_set_eq(chosen, &facts->lora.initial)};

    *space = NULL;
    if (model->cache == NULL)
        return ERR_OK;
    return space_of(model, facts, &name, space, info);
}

/* A model may be its own draft model, and their objects have different records: so the fingerprint
 * of the space is another one. */
enum err model_draft_space(struct model *model, const char *tenant, struct hearth_space **space,
                           struct errinfo *info)
{
    static const char suffix[] = "draft";
    unsigned char bytes[sizeof(struct hash256) + sizeof(suffix)];

    *space = NULL;
    if (model->cache == NULL || model->draft_engine == NULL)
        return ERR_OK;
    const struct engine_facts *facts = engine_facts(model->draft_engine);
    if (facts->slicing != ENGINE_SLICING_ROWS)
        return ERR_OK;
    memcpy(bytes, &facts->fingerprint, sizeof(facts->fingerprint));
    memcpy(bytes + sizeof(facts->fingerprint), suffix, sizeof(suffix));
    struct hash256 fingerprint = hash256_of(bytes, sizeof(bytes));
    return space_of(model, facts, &(struct space_name){tenant, &fingerprint, false}, space, info);
}

struct lora_set model_lora(struct model *model)
{
    lock_enter(&model->lock);
    struct lora_set lora = model->lora;
    lock_leave(&model->lock);
    return lora;
}

enum err model_set_lora(struct model *model, const struct lora_set *lora, struct errinfo *info)
{
    TRY(lora_set_check(&model_facts(model)->lora, lora, info));
    lock_enter(&model->lock);
    model->lora = *lora;
    lock_leave(&model->lock);
    return ERR_OK;
}

/* Open spaces do not change until the model closes. */
bool model_space_at(struct model *model, size_t index, struct model_tenant *out)
{
    lock_enter(&model->lock);
    bool found = index < model->spaces_count;
    if (found)
        *out = (struct model_tenant){model->spaces[index]->tenant, model->spaces[index]->space};
    lock_leave(&model->lock);
    return found;
}

void model_get_cache_stats(struct model *model, struct hearth_stats *sum)
{
    enum { FIELDS = (sizeof(*sum) - offsetof(struct hearth_stats, lookups)) / sizeof(uint64_t) };
    struct model_tenant tenant;

    *sum = (struct hearth_stats){.struct_size = sizeof(*sum)};
    for (size_t i = 0; model_space_at(model, i, &tenant); i++) {
        struct hearth_stats one = {.struct_size = sizeof(one)};
        hearth_get_stats(model->cache, tenant.space, &one);
        /* all fields after the size are counts */
        uint64_t *to = &sum->lookups;
        const uint64_t *from = &one.lookups;
        for (size_t field = 0; field < FIELDS; field++)
            to[field] += from[field];
    }
    sum->bytes_budget = sum->bytes_cap = sum->bytes_memory = 0;
}

/* Disk shares count from now on, not from the tenant's first request: until then others could evict
 * what the tenant stored earlier. */
static enum err open_shared_spaces(struct model *model, struct errinfo *info)
{
    static const struct lora_set none;
    struct hearth_space *space;

    for (size_t i = 0; i < model->shares_count; i++)
        if (model->shares[i].ssd_bytes > 0)
            TRY(model_space(model, model->shares[i].tenant, &none, &space, info));
    return ERR_OK;
}

/* ---- open and close ---- */

static enum err open_parts(struct model *model, const struct model_options *options,
                           struct errinfo *info)
{
    struct sched_options sched = options->sched;

    TRY(open_template(model, options->template_text, options->log, info));
    report_calls(model, options->log);
    TRY(open_tokens(model, options->tokens_cache_bytes, info));
    TRY(open_shared_spaces(model, info));
    if (model->draft_engine != NULL)
        TRY(drafter_check(model->engine, model->draft_engine, info));
    sched.engine = model->engine;
    sched.draft_engine = model->draft_engine;
    sched.model = model->name;
    sched.clock = options->clock;
    sched.log = options->log;
    return sched_create(&model->sched, &sched, info);
}

bool model_has_tails(const struct model *model)
{
    const struct engine_facts *facts = engine_facts(model->engine);

    return facts->slicing == ENGINE_SLICING_ROWS && kind_set_sliceable(facts->kinds);
}

/* A model whose engine cannot move state is served without a cache. */
static void choose_cache(struct model *model, const struct model_options *options)
{
    char kinds[64];

    if (options->cache == NULL)
        return;
    if (engine_facts(options->engine)->slicing != ENGINE_SLICING_NONE) {
        model->cache = options->cache;
        model->state = MODEL_CACHE_ON;
        if (!model_has_tails(model))
            LOG_INFO(options->log, "model",
                     "its state cannot be cut at any token: prompts continue from snapshots",
                     LOG_STR("model", model->name),
                     LOG_STR("kinds", kind_set_names(engine_facts(options->engine)->kinds, kinds,
                                                     sizeof(kinds))));
        return;
    }
    if (engine_facts(options->engine)->embed.whole) /* nothing that could be cached */
        return;
    model->state = MODEL_CACHE_UNSUPPORTED;
    LOG_WARN(options->log, "model",
             "its state cannot be saved and restored: it is served without a cache",
             LOG_STR("model", model->name), LOG_STR("reason", model_cache_reason(model)));
}

static struct model *create(const struct model_options *options)
{
    struct model *model = mem_alloc(sizeof(*model));
    const struct engine_facts *facts = engine_facts(options->engine);

    model->engine = options->engine;
    model->draft_engine = options->draft_engine;
    model->name = mem_strdup(options->name != NULL ? options->name : facts->name);
    choose_cache(model, options);
    model->log = options->log;
    model->shares = options->shares;
    model->shares_count = options->shares_count;
    model->loaded_s = clock_wall_ns(options->clock) / NS_PER_S;
    model->lora = facts->lora.initial;
    map_init(&model->spaces_by_name);
    hash_random(&model->seed, sizeof(model->seed));
    lock_init(&model->lock, "model", LOCK_RANK_MODELS);
    return model;
}

enum err model_open(struct model **out, const struct model_options *options, struct errinfo *info)
{
    struct model *model = create(options);
    enum err err = open_parts(model, options, info);

    if (err != ERR_OK)
        model_close(&model);
    *out = model;
    return err;
}

void model_close(struct model **out)
{
    struct model *model = *out;

    *out = NULL;
    if (model == NULL)
        return;
    sched_destroy(&model->sched);
    for (size_t i = 0; i < model->spaces_count; i++) {
        hearth_space_close(&model->spaces[i]->space);
        mem_free(model->spaces[i]);
    }
    map_fini(&model->spaces_by_name);
    tokens_destroy(&model->tokens);
    chat_template_destroy(&model->tmpl);
    engine_close(&model->draft_engine);
    engine_close(&model->engine);
    lock_fini(&model->lock);
    mem_free(model->spaces);
    mem_free(model->name);
    mem_free(model);
}

/* ---- parts ---- */

const char *model_name(const struct model *model)
{
    return model->name;
}

const struct engine_facts *model_facts(const struct model *model)
{
    return engine_facts(model->engine);
}

struct engine *model_engine(const struct model *model)
{
    return model->engine;
}

uint32_t model_request_context(const struct model *model)
{
    return engine_seq_length_max(model->engine);
}

struct sched *model_sched(const struct model *model)
{
    return model->sched;
}

const struct chat_template *model_template(const struct model *model)
{
    return model->tmpl;
}

struct tokens *model_tokens(const struct model *model)
{
    return model->tokens;
}

enum model_cache model_cache(const struct model *model)
{
    return model->state;
}

const char *model_cache_name(enum model_cache state)
{
    static const char *const names[] = {MODEL_CACHE_TABLE(TABLE_NAME)};

    return (unsigned)state < COUNT_OF(names) ? names[state] : "unknown";
}

const char *model_cache_reason(const struct model *model)
{
    switch (model->state) {
    case MODEL_CACHE_ON:
        return "";
    case MODEL_CACHE_OFF:
        return model_facts(model)->embed.whole ? "an encoder computes each input as a whole"
                                               : "--no-cache";
    default:
        return engine_fault_text(model_facts(model)->fault);
    }
}

struct chat_model model_chat(const struct model *model)
{
    return (struct chat_model){model_engine(model), model_template(model), model_tokens(model),
                               model_name(model)};
}

uint64_t model_loaded_s(const struct model *model)
{
    return model->loaded_s;
}

/* ---- warm-up ----
 *
 * The prompt is rendered by the template that requests will use, so a warm-up cannot use a wrong
 * one. */

struct warm_run {
    struct lock lock;
    struct cond over;
    bool done GUARDED_BY(lock);
    struct errinfo info GUARDED_BY(lock);
};

static enum err render(struct model *model, struct arena *arena, struct token_prompt *prompt,
                       struct errinfo *info)
{
    struct part hello = {STR("Hello")};
    const struct message message = {
        .role = ROLE_USER, .form = CONTENT_TEXT, .parts = &hello, .parts_count = 1};
    const struct chat_request request = {
        .messages = &message, .messages_count = 1, .add_generation_prompt = true};
    struct chat_text text;

    TRY(chat_template_render(model_template(model), &request, arena, &text, info));
    return tokens_from_text(model_tokens(model), NULL, &text, prompt, info);
}

static enum err make_prompt(struct model *model, struct token_prompt *prompt, struct errinfo *info)
{
    struct arena arena;

    arena_init(&arena, WARM_ARENA_BYTES_MAX);
    enum err err = render(model, &arena, prompt, info);
    arena_fini(&arena);
    return err;
}

static bool on_token(void *arg, const struct gen_token *token)
{
    (void)arg;
    (void)token;
    return true;
}

/* On the scheduler's thread. */
static void on_done(void *arg, const struct gen_result *result)
{
    struct warm_run *run = arg;

    lock_enter(&run->lock);
    run->done = true;
    if (result->end == GEN_END_ERROR)
        run->info = result->info;
    else if (result->end == GEN_END_CANCELLED)
        err_set(&run->info, ERR_CANCELLED, "cancelled");
    cond_broadcast(&run->over);
    lock_leave(&run->lock);
}

static enum err run_prompt(struct model *model, const struct token_prompt *prompt,
                           struct errinfo *info)
{
    struct warm_run run = {0};
    struct gen gen = {
        .tenant = "",
        .tokens = prompt->tokens,
        .tokens_count = (uint32_t)prompt->count,
        .max_tokens = 1,
        .embed = model_facts(model)->embed.whole,
        .sample = sample_params_default(),
        .cache = {.no_read = true, .no_write = true},
        .sink = {.token = on_token, .done = on_done, .arg = &run},
    };

    lock_init(&run.lock, "warm", LOCK_RANK_MODELS);
    cond_init(&run.over);
    enum err err = sched_submit(model_sched(model), &gen, info);
    lock_enter(&run.lock);
    while (err == ERR_OK && !run.done)
        cond_wait(&run.over, &run.lock);
    lock_leave(&run.lock);
    if (err == ERR_OK && run.info.code != ERR_OK)
        err = err_set(info, run.info.code, "%s", run.info.text);
    cond_fini(&run.over);
    lock_fini(&run.lock);
    return err;
}

enum err model_warm(struct model *model, uint32_t *tokens, struct errinfo *info)
{
    struct token_prompt prompt = {0};

    TRY(make_prompt(model, &prompt, info));
    if (tokens != NULL)
        *tokens = (uint32_t)prompt.count;
    enum err err = run_prompt(model, &prompt, info);
    token_prompt_fini(&prompt);
    return err;
}
