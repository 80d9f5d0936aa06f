#include "support/sched_kit.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/models.h"
#include "support/test.h"

enum { MARK_EVERY = 50 };

static void open_cache(struct sched_kit *kit, uint64_t ram_bytes)
{
    const struct engine_facts *facts = engine_facts(kit->engine);
    struct hearth_options options = {.struct_size = sizeof(options),
                                     .ram_bytes = ram_bytes,
                                     .block_tokens = 16,
                                     .run_tokens = 64};
    struct hearth_model model = {.struct_size = sizeof(model), .window = facts->window};

    if (ram_bytes == 0)
        return;
    model.kinds = facts->slicing == ENGINE_SLICING_WHOLE ? HEARTH_KIND_RECURRENT : facts->kinds;
    memcpy(model.fingerprint, facts->fingerprint.bytes, sizeof(model.fingerprint));
    assert_int_equal(hearth_open(&kit->cache, &options, NULL), HEARTH_OK);
    assert_int_equal(hearth_space_open(kit->cache, &model, "", 0, &kit->space), HEARTH_OK);
}

static void open_sched(struct sched_kit *kit, const struct sched_options *options)
{
    struct sched_options own = {0};

    if (options != NULL)
        own = *options;
    own.engine = kit->engine;
    own.park = options == NULL || options->park;
    assert_ok(sched_create(&kit->sched, &own, NULL));
}

void sched_kit_open(struct sched_kit *kit, const struct engine_fake_options *fake,
                    uint64_t ram_bytes, const struct sched_options *options)
{
    *kit = (struct sched_kit){0};
    assert_ok(engine_fake_create(&kit->engine, fake, NULL));
    open_cache(kit, ram_bytes);
    open_sched(kit, options);
}

void sched_kit_open_model(struct sched_kit *kit, const char *family, uint64_t ram_bytes,
                          const struct sched_options *options)
{
    *kit = (struct sched_kit){0};
    kit->engine = test_engine(
        family, &(struct engine_options){.context = 4096,
                                         .sequences = 6,
                                         .chunk = 128,
                                         .threads = 1,
                                         .rollback = options != NULL ? options->drafts : 0});
    open_cache(kit, ram_bytes);
    open_sched(kit, options);
}

void sched_kit_open_engine(struct sched_kit *kit, struct engine *engine, uint64_t ram_bytes,
                           const struct sched_options *options)
{
    *kit = (struct sched_kit){.engine = engine};
    open_cache(kit, ram_bytes);
    open_sched(kit, options);
}

void sched_kit_close(struct sched_kit *kit)
{
    sched_destroy(&kit->sched);
    if (kit->cache != NULL) {
        hearth_space_close(&kit->space);
        hearth_close(&kit->cache);
    }
    engine_close(&kit->engine);
}

/* ---- generations ---- */

static void on_started(void *arg, const struct gen_usage *usage)
{
    struct kit_gen *gen = arg;

    gen->started++;
    gen->first_usage = *usage;
    if (gen->holds != NULL) {
        sem_post(gen->holds);
        while (sem_wait(gen->go) != 0) /* by a signal */
            ;
    }
}

static void add_text(struct kit_gen *gen, struct str text)
{
    assert_true(gen->text_len + text.len < sizeof(gen->text));
    if (text.len > 0)
        memcpy(gen->text + gen->text_len, text.ptr, text.len);
    gen->text_len += text.len;
    gen->text[gen->text_len] = '\0';
}

static bool on_token(void *arg, const struct gen_token *token)
{
    struct kit_gen *gen = arg;

    assert_int_equal(token->index, gen->logprobs_count);
    assert_true(gen->logprobs_count < KIT_ANSWER_MAX);
    if (gen->logprobs_count > 0)
        gen->gap_ns = MAX(gen->gap_ns, token->times.ended - gen->token_ns);
    gen->token_ns = token->times.ended;
    gen->logprobs[gen->logprobs_count++] = token->pick->logprob;
    add_text(gen, token->text);
    if (gen->cancel != NULL)
        gen_cancel(&gen->cancel->gen);
    return gen->enough == 0 || gen->logprobs_count < gen->enough;
}

static void on_done(void *arg, const struct gen_result *result)
{
    struct kit_gen *gen = arg;

    lock_enter(&gen->lock);
    gen->dones++;
    gen->result = *result;
    add_text(gen, result->tail);
    assert_true(result->tokens_count <= KIT_ANSWER_MAX);
    gen->answer_count = result->tokens_count;
    memcpy(gen->answer, result->tokens, result->tokens_count * sizeof(*gen->answer));
    gen->result.tokens = NULL;
    gen->result.tail = STR_NONE;
    gen->has_vector = result->vector != NULL;
    if (gen->has_vector)
        memcpy(gen->vector, result->vector, sizeof(gen->vector));
    gen->result.vector = NULL;
    gen->done = true;
    cond_broadcast(&gen->changed);
    lock_leave(&gen->lock);
}

static token_id token_at(const struct sched_kit *kit, uint32_t seed, uint32_t at)
{
    uint64_t state = ((uint64_t)seed << 32) + at;
    uint32_t vocab = MIN(engine_facts(kit->engine)->vocab, 256);

    return (token_id)test_random_below(&state, vocab);
}

void kit_gen_init(struct kit_gen *gen, const struct sched_kit *kit, uint32_t seed, uint32_t count,
                  uint32_t max_tokens)
{
    *gen = (struct kit_gen){0};
    assert_true(count <= KIT_PROMPT_MAX && count / MARK_EVERY < COUNT_OF(gen->marks));
    lock_init(&gen->lock, "kit", LOCK_RANK_TEST_HIGH);
    cond_init(&gen->changed);
    for (uint32_t at = 0; at < count; at++)
        gen->prompt[at] = token_at(kit, seed, at);
    for (uint32_t at = MARK_EVERY; at < count; at += MARK_EVERY)
        gen->marks[gen->gen.marks_count++] = (struct mark){.at = at, .role = ROLE_USER};
    gen->gen.id = seed;
    gen->gen.space = kit->space;
    gen->gen.tenant = "";
    gen->gen.tokens = gen->prompt;
    gen->gen.tokens_count = count;
    gen->gen.marks = gen->marks;
    gen->gen.max_tokens = max_tokens;
    gen->gen.sample = sample_params_default();
    gen->gen.sample.temperature = 0;
    gen->gen.sample.logprob = true;
    gen->gen.sink =
        (struct gen_sink){.started = on_started, .token = on_token, .done = on_done, .arg = gen};
}

void kit_gen_change(struct kit_gen *gen, const struct sched_kit *kit, uint32_t seed, uint32_t from)
{
    for (uint32_t at = from; at < gen->gen.tokens_count; at++)
        gen->prompt[at] = token_at(kit, seed, at);
    if (from < gen->gen.tokens_count &&
        gen->prompt[from] == token_at(kit, (uint32_t)gen->gen.id, from))
        gen->prompt[from] ^= 1; /* they part exactly here */
}

void kit_gen_fini(struct kit_gen *gen)
{
    cond_fini(&gen->changed);
    lock_fini(&gen->lock);
}

void kit_gen_submit(struct sched_kit *kit, struct kit_gen *gen)
{
    struct errinfo info = {0};

    if (sched_submit(kit->sched, &gen->gen, &info) != ERR_OK)
        fail_msg("submit: %s", info.text);
}

/* The parts add up, also those of one that ended before it began (I99). */
static void expect_sums(const struct kit_gen *gen)
{
    const struct gen_usage *usage = &gen->result.usage;

    assert_int_equal(usage->prompt + usage->cut, gen->started > 0 ? gen->gen.tokens_count : 0);
    assert_true(usage->cut == 0 || gen->result.end == GEN_END_CANCELLED ||
                gen->result.end == GEN_END_ERROR);
    assert_int_equal(usage->prompt,
                     usage->device + usage->ram + usage->ssd + usage->remote + usage->computed);
}

void kit_gen_wait(struct kit_gen *gen)
{
    lock_enter(&gen->lock);
    while (!gen->done)
        cond_wait(&gen->changed, &gen->lock);
    lock_leave(&gen->lock);
    assert_int_equal(gen->dones, 1);
    expect_sums(gen);
}

void kit_gen_run(struct sched_kit *kit, struct kit_gen *gen)
{
    kit_gen_submit(kit, gen);
    kit_gen_wait(gen);
}

void kit_gen_run_both(struct sched_kit *kit, struct kit_gen *one, struct kit_gen *two,
                      uint32_t seed)
{
    static struct kit_gen third;
    sem_t holds, go;

    sem_init(&holds, 0, 0);
    sem_init(&go, 0, 0);
    kit_gen_init(&third, kit, seed, 4, 8);
    third.holds = &holds;
    third.go = &go;
    kit_gen_submit(kit, &third);
    while (sem_wait(&holds) != 0)
        ;
    kit_gen_submit(kit, one);
    kit_gen_submit(kit, two);
    sem_post(&go);
    kit_gen_wait(&third);
    kit_gen_wait(one);
    kit_gen_wait(two);
    kit_gen_fini(&third);
    sem_destroy(&holds);
    sem_destroy(&go);
}

void kit_gen_expect_same(const struct kit_gen *a, const struct kit_gen *b, bool exact)
{
    if (a->answer_count != b->answer_count ||
        memcmp(a->answer, b->answer, a->answer_count * sizeof(*a->answer)) != 0)
        fail_msg("another answer (%zu and %zu tokens) of seed %u", a->answer_count, b->answer_count,
                 (unsigned)a->gen.id);
    if (exact && memcmp(a->logprobs, b->logprobs, a->logprobs_count * sizeof(float)) != 0)
        fail_msg("other probabilities of seed %u", (unsigned)a->gen.id);
}
