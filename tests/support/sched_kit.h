/*
 * sched_kit.h: a scheduler on an engine with a cache, and generations whose answers can be waited
 * for and compared.
 *
 * Threads: the functions belong to the test's thread; a `struct kit_gen` is filled by the
 * scheduler's until it is done.
 */
#pragma once

#include <hearth/hearth.h>

#include <semaphore.h>
#include <stdbool.h>

#include "base/lock.h"
#include "support/engine_fake.h"
#include "sched/sched.h"

enum { KIT_PROMPT_MAX = 4608, KIT_ANSWER_MAX = 512, KIT_TEXT_MAX = 8192 };

struct sched_kit {
    struct engine *engine;
    struct hearth_cache *cache; /* NULL: none */
    struct hearth_space *space;
    struct sched *sched;
};

struct kit_gen {
    struct gen gen;
    token_id prompt[KIT_PROMPT_MAX];
    struct mark marks[128];
    /* filled by the sink */
    struct lock lock;
    struct cond changed;
    bool done;
    unsigned started, dones;
    struct gen_result result; /* its pointers are cleared */
    float vector[ENGINE_FAKE_VECTOR];
    bool has_vector;
    struct gen_usage first_usage;
    token_id answer[KIT_ANSWER_MAX];
    float logprobs[KIT_ANSWER_MAX];
    size_t answer_count, logprobs_count;
    uint64_t token_ns, gap_ns; /* when the last token came; the longest time between two */
    char text[KIT_TEXT_MAX];
    size_t text_len;
    size_t enough;          /* tokens after which the sink wants no more; 0 = never */
    struct kit_gen *cancel; /* is cancelled when the first token comes */
    /* when it starts, the scheduler says `holds` and waits for `go`; NULL = it does not */
    sem_t *holds, *go;
};

/* `options` may be NULL; engine, clock and parking (on, unless exact) are filled in. ram_bytes 0:
 * no cache. */
void sched_kit_open(struct sched_kit *kit, const struct engine_fake_options *fake,
                    uint64_t ram_bytes, const struct sched_options *options);
void sched_kit_open_model(struct sched_kit *kit, const char *family, uint64_t ram_bytes,
                          const struct sched_options *options);
/* Takes the engine. */
void sched_kit_open_engine(struct sched_kit *kit, struct engine *engine, uint64_t ram_bytes,
                           const struct sched_options *options);
void sched_kit_close(struct sched_kit *kit);

/* A generation of a greedy answer to `count` tokens that the seed decides; marks after every MARK
 * token. */
void kit_gen_init(struct kit_gen *gen, const struct sched_kit *kit, uint32_t seed, uint32_t count,
                  uint32_t max_tokens);
/* From `from` on the prompt is that of another seed. */
void kit_gen_change(struct kit_gen *gen, const struct sched_kit *kit, uint32_t seed, uint32_t from);
void kit_gen_fini(struct kit_gen *gen);
void kit_gen_submit(struct sched_kit *kit, struct kit_gen *gen);
void kit_gen_wait(struct kit_gen *gen);
/* Submit and wait. */
void kit_gen_run(struct sched_kit *kit, struct kit_gen *gen);
/* Two at the same time: the scheduler is held in the start of a third one, short and of that seed,
 * until both are submitted. */
void kit_gen_run_both(struct sched_kit *kit, struct kit_gen *one, struct kit_gen *two,
                      uint32_t seed);
/* The same tokens, and the same bits of their log-probabilities when `exact`. */
void kit_gen_expect_same(const struct kit_gen *a, const struct kit_gen *b, bool exact);
