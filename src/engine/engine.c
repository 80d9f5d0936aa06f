/*
 * engine.c: the code common to all engines: checks arguments, accounts for sequences and cells, and
 * calls the engine through its table of operations.
 *
 * A sequence goes
 *
 *      acquire/fork/import -> LIVE --engine_run, truncate--> LIVE --release--> (free)
 *                               |
 *                               '-- failed or aborted, half written --> BROKEN --release--> (free)
 *
 * Nothing here depends on a library, so the fake engine refuses exactly what a real one does.
 */
#include "engine/engine.h"

#include <assert.h>

#include "base/mem.h"
#include "engine/engine_ops.h"
#include "engine/fingerprint.h"
#include "engine/picture.h"
#include "engine/pieces.h"

double engine_kv_bytes(enum engine_kv type)
{
    /* blocks of 32 with their scales */
    static const double bytes[] = {
        [ENGINE_KV_F16] = 2,          [ENGINE_KV_F32] = 4,          [ENGINE_KV_BF16] = 2,
        [ENGINE_KV_Q8_0] = 34.0 / 32, [ENGINE_KV_Q5_1] = 24.0 / 32, [ENGINE_KV_Q5_0] = 22.0 / 32,
        [ENGINE_KV_Q4_1] = 20.0 / 32, [ENGINE_KV_Q4_0] = 18.0 / 32,
    };

    return bytes[type];
}

const char *const engine_kv_names[] = {ENGINE_KV_TABLE(TABLE_NAME) NULL};

void engine_close(struct engine **engine)
{
    if (*engine == NULL)
        return;
    struct engine *old = *engine;
    struct pieces *pieces = old->pieces;
    pieces_destroy(&pieces);
    seqs_fini(&old->seqs);
    old->ops->close(old);
    *engine = NULL;
}

static const char owned[] = "engine";

void engine_check_owner(const struct engine *engine)
{
    thread_owner_check(&engine->owner, owned);
}

void engine_own(struct engine *engine)
{
    thread_owner_take(&engine->owner, owned);
}

void engine_disown(struct engine *engine)
{
    thread_owner_leave(&engine->owner, owned);
}

bool engine_isolated(const struct engine *engine)
{
    return engine->ops->alive != NULL;
}

bool engine_alive(struct engine *engine)
{
    return engine->ops->alive == NULL || engine->ops->alive(engine);
}

uint64_t engine_memory(struct engine *engine)
{
    return engine->ops->memory != NULL ? engine->ops->memory(engine) : 0;
}

struct host_memory_stats engine_host_memory(const struct engine *engine)
{
    return engine->ops->host_memory != NULL ? engine->ops->host_memory(engine)
                                            : host_memory_stats();
}

uint64_t engine_device_free(struct engine *engine)
{
    bool has = engine->facts.device_total > 0 && engine->ops->device_free != NULL;

    return has ? MIN(engine->ops->device_free(engine), engine->facts.device_total) : 0;
}

enum err engine_restart(struct engine *engine, bool (*on_progress)(float done, void *arg),
                        void *arg, struct errinfo *info)
{
    /* Retired sequences became free when the last one was released. */
    assert(engine->ops->restart != NULL && seqs_live_count(&engine->seqs) == 0 &&
           engine->seqs.cells_used == 0);
    engine->run_items = 0;
    TRY(engine->ops->restart(engine, on_progress, arg, info));
    engine->lora = lora_set_before(&engine->facts.lora, &engine->facts.lora.initial);
    return ERR_OK;
}

const struct engine_facts *engine_facts(const struct engine *engine)
{
    return &engine->facts;
}

/* All zero: an engine that says nothing about it. */
bool engine_has_fim(const struct engine_facts *facts)
{
    const struct engine_fim *fim = &facts->fim;

    return fim->prefix >= 0 && fim->suffix >= 0 && fim->middle >= 0 && fim->prefix != fim->suffix;
}

/* ---- tokens ---- */

/* The one that has the tokenizer. */
static const struct engine *speller(const struct engine *engine)
{
    return engine->vocab != NULL ? engine->vocab : engine;
}

enum err engine_tokenize(const struct engine *engine, struct str text, unsigned flags,
                         token_id *tokens, size_t max, size_t *count, struct errinfo *info)
{
    if (text.len > INT32_MAX)
        return err_set(info, ERR_LIMIT, "the text has more than 2 GiB");
    enum err err = speller(engine)->ops->tokenize(speller(engine), text, flags, tokens, max, count);
    if (err != ERR_OK)
        return err_set(info, err,
                       err == ERR_NOMEM ? "no memory to tokenize a text of %zu bytes"
                                        : "the tokenizer failed on a text of %zu bytes",
                       text.len);
    if (*count > max)
        return err_set(info, ERR_LIMIT, "the text has %zu tokens, there is room for %zu", *count,
                       max);
    return ERR_OK;
}

size_t engine_token_bytes(const struct engine *engine, token_id token, bool control, char *out,
                          size_t size)
{
    return engine_token_valid(engine, token)
               ? speller(engine)->ops->token_bytes(speller(engine), token, control, out, size)
               : 0;
}

bool engine_token_valid(const struct engine *engine, token_id token)
{
    return token >= 0 && (uint32_t)token < engine->facts.vocab;
}

bool engine_token_is_end(const struct engine *engine, token_id token)
{
    return engine_token_valid(engine, token) &&
           speller(engine)->ops->token_is_end(speller(engine), token);
}

bool engine_token_is_control(const struct engine *engine, token_id token)
{
    return engine_token_valid(engine, token) &&
           speller(engine)->ops->token_is_control(speller(engine), token);
}

unsigned engine_token_traits(const struct engine *engine, token_id token)
{
    return engine_token_valid(engine, token)
               ? speller(engine)->ops->token_traits(speller(engine), token)
               : 0;
}

/* ---- sequences ---- */

static enum err no_sequence(const struct engine *engine, struct errinfo *info)
{
    return err_set(info, ERR_LIMIT, "all %u sequences are in use", engine->seqs.slots_count);
}

enum err engine_seq_acquire(struct engine *engine, seq_id *seq, struct errinfo *info)
{
    engine_check_owner(engine);
    *seq = seqs_acquire(&engine->seqs);
    if (*seq == SEQ_NONE)
        return no_sequence(engine, info);
    engine->whole_from[*seq] = UINT32_MAX;
    return ERR_OK;
}

/* What the copy has is unknown, so its slot is not used again until all sequences are empty. */
static enum err copy_failed(struct engine *engine, seq_id *seq, struct errinfo *info)
{
    engine->ops->seq_clear(engine, *seq);
    seqs_retire(&engine->seqs, *seq);
    seqs_recycle(&engine->seqs);
    *seq = SEQ_NONE;
    return err_set(info, ERR_ENGINE, "the library could not copy a sequence");
}

enum err engine_seq_fork(struct engine *engine, seq_id source, seq_id *seq, struct errinfo *info)
{
    engine_check_owner(engine);
    assert(seqs_live(&engine->seqs, source));
    if (engine->rolled[source]) /* the library would give the fork the state before the cut */
        TRY(engine_seq_settle(engine, source, info));
    *seq = seqs_fork(&engine->seqs, source);
    if (*seq == SEQ_NONE)
        return no_sequence(engine, info);
    if (!engine->ops->seq_copy(engine, source, *seq))
        return copy_failed(engine, seq, info);
    engine->whole_from[*seq] = UINT32_MAX;
    return ERR_OK;
}

/* A picture that shares its positions would have to be counted. */
uint32_t engine_seq_least(struct engine *engine, seq_id seq)
{
    uint32_t length = seqs_length(&engine->seqs, seq);
    bool unknown = (engine->facts.kinds & KIND_BIT(KIND_RECURRENT)) != 0 || engine->facts.mrope ||
                   engine->ops->seq_least == NULL;

    engine_check_owner(engine);
    assert(seqs_live(&engine->seqs, seq));
    if (length == 0 || kind_set_sliceable(engine->facts.kinds))
        return MIN(length, 1);
    return unknown ? length : MIN(MAX(engine->ops->seq_least(engine, seq), 1), length);
}

/* Emptying always works. Tokens of the last run can be removed whatever the kinds are, if there are
 * few; of windows, as many as the library still has the rows for. */
static bool may_cut(struct engine *engine, seq_id seq, uint32_t length)
{
    return length == 0 || kind_set_sliceable(engine->facts.kinds) ||
           (length >= engine->whole_from[seq] &&
            seqs_length(&engine->seqs, seq) - length <= engine->facts.rollback) ||
           length >= engine_seq_least(engine, seq);
}

enum err engine_seq_truncate(struct engine *engine, seq_id seq, uint32_t length,
                             struct errinfo *info)
{
    engine_check_owner(engine);
    assert(seqs_live(&engine->seqs, seq));
    if (length > seqs_length(&engine->seqs, seq))
        return err_set(info, ERR_INVALID, "the sequence has %u tokens, not %u",
                       seqs_length(&engine->seqs, seq), length);
    if (length == seqs_length(&engine->seqs, seq))
        return ERR_OK;
    if (seqs_floor(&engine->seqs, seq, length) != length)
        return err_set(info, ERR_UNSUPPORTED, "a sequence cannot be cut inside a picture");
    if (!may_cut(engine, seq, length) ||
        !engine->ops->seq_cut(engine, seq, seqs_position(&engine->seqs, seq, length))) {
        char names[64];
        return err_set(info, ERR_UNSUPPORTED, "a sequence of kinds %s cannot be cut at token %u",
                       kind_set_names(engine->facts.kinds, names, sizeof(names)), length);
    }
    seqs_truncate(&engine->seqs, seq, length);
    engine->whole_from[seq] = UINT32_MAX; /* once: the library counts from the end of the run */
    engine->rolled[seq] = length > 0 && (engine->facts.kinds & KIND_BIT(KIND_RECURRENT)) != 0;
    return ERR_OK;
}

enum err engine_seq_settle(struct engine *engine, seq_id seq, struct errinfo *info)
{
    engine_check_owner(engine);
    assert(seqs_live(&engine->seqs, seq));
    if (engine->ops->seq_settle == NULL || seqs_length(&engine->seqs, seq) == 0 ||
        engine->ops->seq_settle(engine, seq)) {
        engine->whole_from[seq] = UINT32_MAX;
        engine->rolled[seq] = false;
        return ERR_OK;
    }
    seqs_break(&engine->seqs, seq);
    if (!engine_alive(engine)) /* the process is dead: do not blame the library */
        return err_set(info, ERR_ENGINE, "the process of the model died");
    return err_set(info, ERR_ENGINE, "the library could not re-import the window of a sequence");
}

void engine_seq_release(struct engine *engine, seq_id *seq)
{
    if (*seq == SEQ_NONE)
        return;
    engine_check_owner(engine);
    engine->ops->seq_clear(engine, *seq);
    engine->rolled[*seq] = false;
    seqs_release(&engine->seqs, *seq);
    /* if this was the last one, the library is empty and retired slots can be reused */
    seqs_recycle(&engine->seqs);
    *seq = SEQ_NONE;
}

uint32_t engine_seq_length(const struct engine *engine, seq_id seq)
{
    return seqs_length(&engine->seqs, seq);
}

uint32_t engine_seq_length_max(const struct engine *engine)
{
    return engine->seqs.cells;
}

uint32_t engine_cells_free(const struct engine *engine)
{
    return seqs_cells_free(&engine->seqs);
}

/* A picture that shares its positions ends before the next position. */
uint32_t engine_library_length(struct engine *engine, seq_id seq)
{
    uint32_t have = engine->ops->seq_length(engine, seq);
    uint32_t length = seqs_length(&engine->seqs, seq);
    uint32_t next = seqs_position(&engine->seqs, seq, length);

    if (have >= next)
        return length + (have - next);
    return have > seqs_position(&engine->seqs, seq, length - 1) ? length : MIN(have, length - 1);
}

/* ---- running ---- */

enum err engine_set_lora(struct engine *engine, const struct lora_set *set, struct errinfo *info)
{
    engine_check_owner(engine);
    if (lora_set_eq(set, &engine->lora))
        return ERR_OK;
    TRY(lora_set_check(&engine->facts.lora, set, info));
    if (!engine->ops->set_lora(engine, set))
        return err_set(info, ERR_ENGINE, "the library cannot apply these adapters");
    engine->lora = *set;
    return ERR_OK;
}

static enum err check_item(const struct engine *engine, const struct engine_item *item,
                           struct errinfo *info)
{
    if (!seqs_live(&engine->seqs, item->seq))
        return err_set(info, ERR_INVALID, "sequence %d is not in use", item->seq);
    if (item->count == 0)
        return err_set(info, ERR_INVALID, "an item without tokens");
    if (item->logits > item->count)
        return err_set(info, ERR_INVALID, "logits of %u tokens, the item has %u", item->logits,
                       item->count);
    for (uint32_t i = 0; i < item->count; i++)
        if (!engine_token_valid(engine, item->tokens[i]))
            return err_set(info, ERR_INVALID, "token %d is not in the vocabulary of %u",
                           item->tokens[i], engine->facts.vocab);
    return ERR_OK;
}

/* An encoder needs all tokens of an input at once. Others pool what they compute at a time, so
 * that a vector of the last token is computed with that token alone. */
static enum err check_embed(const struct engine *engine, const struct engine_item *items,
                            size_t count, struct errinfo *info)
{
    const struct engine_embed *embed = &engine->facts.embed;
    bool single = !embed->whole && embed->pooling != ENGINE_POOLING_MEAN;
    uint64_t tokens = 0;

    for (size_t i = 0; i < count; i++) {
        tokens += items[i].count;
        if (items[i].logits > 0)
            return err_set(info, ERR_INVALID, "logits and vectors in one batch");
        if (single && items[i].count != 1)
            return err_set(info, ERR_INVALID, "a vector is computed with the last token alone");
        if (embed->whole && seqs_length(&engine->seqs, items[i].seq) > 0)
            return err_set(info, ERR_INVALID, "an encoder takes whole inputs only");
    }
    if (tokens > engine->facts.chunk)
        return err_set(info, ERR_INVALID, "%llu tokens in one batch of vectors, at most %u",
                       (unsigned long long)tokens, engine->facts.chunk);
    return ERR_OK;
}

/* Checks everything before calling the library, so that its asserts never fail. */
static enum err check_run(const struct engine *engine, const struct engine_item *items,
                          size_t count, struct errinfo *info)
{
    uint64_t tokens = 0, outputs = 0;
    bool seen[SEQS_SLOTS_MAX] = {false};

    engine_check_owner(engine);
    if (count == 0)
        return err_set(info, ERR_INVALID, "nothing to run");
    for (size_t i = 0; i < count; i++) {
        TRY(check_item(engine, &items[i], info));
        if (seen[items[i].seq])
            return err_set(info, ERR_INVALID, "sequence %d occurs twice in a batch", items[i].seq);
        seen[items[i].seq] = true;
        if (engine->seqs.streams &&
            items[i].count > engine->seqs.cells - seqs_length(&engine->seqs, items[i].seq))
            return err_set(info, ERR_LIMIT, "no room for %u more tokens in sequence %d",
                           items[i].count, items[i].seq);
        tokens += items[i].count;
        outputs += items[i].logits;
    }
    if (outputs > engine->facts.outputs)
        return err_set(info, ERR_INVALID, "logits of %llu tokens in one batch, at most %u",
                       (unsigned long long)outputs, engine->facts.outputs);
    if (tokens > (uint64_t)engine->facts.chunk + engine->facts.sequences)
        return err_set(info, ERR_INVALID, "%llu tokens in one batch, at most %u + %u are allowed",
                       (unsigned long long)tokens, engine->facts.chunk, engine->facts.sequences);
    if (!engine->seqs.streams && tokens > seqs_cells_free(&engine->seqs))
        return err_set(info, ERR_LIMIT, "no room for %llu more tokens: %u of %u are free",
                       (unsigned long long)tokens, seqs_cells_free(&engine->seqs),
                       engine->seqs.cells);
    return ERR_OK;
}

/* While it computes, the library moves recurrent states of other sequences as well, to make room or
 * where they were rolled back. After a run that did not end, any of them may be in the wrong place. */
static void break_recurrent(struct engine *engine)
{
    bool recurrent = engine->facts.kinds & KIND_BIT(KIND_RECURRENT);

    for (seq_id seq = 0; recurrent && seq < (seq_id)engine->seqs.slots_count; seq++)
        if (seqs_live(&engine->seqs, seq) && seqs_length(&engine->seqs, seq) > 0)
            seqs_break(&engine->seqs, seq);
}

/* After a failure or an abort the library keeps the micro-batches that it finished. A state that
 * cannot be truncated may then be half written: the sequence is broken and can only be released. */
static void account_failed_run(struct engine *engine, const struct engine_item *items, size_t count,
                               bool whole)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t before = seqs_length(&engine->seqs, items[i].seq);
        uint32_t now = engine_library_length(engine, items[i].seq);
        if (!whole || now < before || now > before + items[i].count)
            seqs_break(&engine->seqs, items[i].seq);
        else if (now > before)
            seqs_append(&engine->seqs, items[i].seq, now - before);
        engine->whole_from[items[i].seq] = UINT32_MAX;
    }
    break_recurrent(engine);
}

/* Whether tokens of the run can be removed again. A batch of more than a chunk is computed in parts:
 * a window may overwrite rows between them. So is one with several items of a model with recurrent
 * state, which keeps earlier states of the last part only. */
static bool can_undo(const struct engine *engine, const struct engine_item *items, size_t count)
{
    uint64_t tokens = 0;

    for (size_t i = 0; i < count; i++)
        tokens += items[i].count;
    return tokens <= engine->facts.chunk &&
           (count == 1 || !(engine->facts.kinds & KIND_BIT(KIND_RECURRENT)));
}

static enum err account_run(struct engine *engine, const struct engine_item *items, size_t count,
                            enum err err)
{
    if (err == ERR_OK) {
        bool undo = can_undo(engine, items, count);
        for (size_t i = 0; i < count; i++) {
            engine->whole_from[items[i].seq] =
                undo ? seqs_length(&engine->seqs, items[i].seq) + 1 : UINT32_MAX;
            engine->rolled[items[i].seq] = false;
            seqs_append(&engine->seqs, items[i].seq, items[i].count);
            engine->run_outputs[i + 1] = engine->run_outputs[i] + items[i].logits;
        }
        engine->run_items = count;
    } else if (err == ERR_CANCELLED || err == ERR_ENGINE) {
        account_failed_run(engine, items, count,
                           err == ERR_CANCELLED && kind_set_sliceable(engine->facts.kinds));
    }
    return err;
}

enum err engine_run(struct engine *engine, const struct engine_item *items, size_t count,
                    struct errinfo *info)
{
    engine->run_items = 0;
    engine->run_embeds = false;
    TRY(check_run(engine, items, count, info));
    if (engine->facts.embed.whole)
        return err_set(info, ERR_UNSUPPORTED, "an encoder makes vectors, no text");
    return account_run(engine, items, count, engine->ops->run(engine, items, count, info));
}

enum err engine_embed(struct engine *engine, const struct engine_item *items, size_t count,
                      struct errinfo *info)
{
    engine->run_items = 0;
    engine->run_embeds = true;
    TRY(check_run(engine, items, count, info));
    TRY(check_embed(engine, items, count, info));
    return account_run(engine, items, count, engine->ops->embed(engine, items, count, info));
}

enum err engine_run_picture(struct engine *engine, seq_id seq, const struct picture_piece *piece,
                            struct errinfo *info)
{
    engine_check_owner(engine);
    engine->run_items = 0;
    engine->run_embeds = false;
    if (engine->ops->run_picture == NULL || !seqs_live(&engine->seqs, seq))
        return err_set(info, ERR_INVALID, "sequence %d cannot take a picture", seq);
    uint32_t room = engine->seqs.streams ? engine->seqs.cells - seqs_length(&engine->seqs, seq)
                                         : seqs_cells_free(&engine->seqs);
    if (piece->count > room)
        return err_set(info, ERR_LIMIT, "no room for a picture of %u tokens: %u are free",
                       piece->count, room);
    enum err err = engine->ops->run_picture(engine, seq, piece, info);
    if (err == ERR_LIMIT)
        return err;
    engine->whole_from[seq] = UINT32_MAX; /* it is computed in steps of its own */
    if (err != ERR_OK) {
        seqs_break(&engine->seqs, seq); /* a part of the piece may be in the library's memory */
        break_recurrent(engine);
        return err;
    }
    uint32_t length = seqs_length(&engine->seqs, seq);
    engine->rolled[seq] = false;
    seqs_append(&engine->seqs, seq, piece->count);
    if (engine->facts.mrope)
        seqs_fold(&engine->seqs, seq,
                  (struct seqs_fold){length, length + piece->count, piece->positions});
    return ERR_OK;
}

const float *engine_logits(struct engine *engine, size_t index)
{
    bool has =
        index < engine->run_items && engine->run_outputs[index] < engine->run_outputs[index + 1];

    return has ? engine->ops->logits(engine, engine->run_outputs[index + 1] - 1) : NULL;
}

const float *engine_logits_nth(struct engine *engine, size_t index, uint32_t nth)
{
    bool has = index < engine->run_items &&
               nth < engine->run_outputs[index + 1] - engine->run_outputs[index];

    return has ? engine->ops->logits(engine, engine->run_outputs[index] + nth) : NULL;
}

const float *engine_embedding(struct engine *engine, size_t index)
{
    bool has = index < engine->run_items && engine->run_embeds;

    return has ? engine->ops->embedding(engine, index) : NULL;
}

void engine_abort(struct engine *engine)
{
    engine->ops->abort(engine);
}

uint64_t engine_beats(const struct engine *engine)
{
    return engine->ops->beats != NULL ? engine->ops->beats(engine) : 0;
}

const char *engine_fault_text(enum engine_fault fault)
{
    static const char *const texts[] = {ENGINE_FAULT_TABLE(TABLE_NAME)};

    assert((unsigned)fault < COUNT_OF(texts));
    return texts[fault];
}
