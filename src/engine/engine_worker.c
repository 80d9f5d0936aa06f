/*
 * engine_worker.c: the parent's side: the table of operations as calls to a child. See the header.
 *
 *                 load                 a call failed                 restart
 *      (nothing) -----> child alive -------------------> child dead ---------> child alive, empty
 *
 * Replies are checked before use: sizes against capacities here, lengths and exact sizes by
 * engine.c and state.c as for every engine.
 */
#include "engine/engine_worker.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "engine/engine_llama.h"
#include "engine/engine_ops.h"
#include "engine/host_memory.h"
#include "engine/picture_file.h"
#include "engine/projector.h"
#include "engine/worker_link.h"
#include "engine/worker_picture.h"

enum { HANG_MS = 10000, LOAD_HANG_MS = 120000 };
static const uint64_t staging_bytes_max = UINT64_C(1) << 30;

struct engine_worker {
    struct engine base;
    struct engine_worker_options options;
    struct engine *vocab;             /* tokenizes in this process: base.vocab */
    struct worker_memory *own_memory; /* unless the options have one */
    struct worker_link link;
    struct worker_control *control; /* these two live as long as the engine: */
    char *work;                     /* engine_abort and borrowed logits survive restarts */
    char *name, *architecture, *description, *backend;
    /* the message that makes the child's engine, for restarts */
    unsigned char load[WORKER_MESSAGE_BYTES_MAX];
    size_t load_len;
};

static const struct engine_ops worker_ops;

static struct engine_worker *worker_of(const struct engine *engine)
{
    return (struct engine_worker *)engine;
}

/* For the child, which counts positions. */
static uint32_t length_of(const struct engine_worker *worker, seq_id seq)
{
    return seqs_position(&worker->base.seqs, seq, seqs_length(&worker->base.seqs, seq));
}

/* An op that is not about a sequence. */
static struct worker_call call_of(enum worker_op op)
{
    return (struct worker_call){.op = op, .seq = SEQ_NONE, .other = SEQ_NONE};
}

static struct worker_call call_about(const struct engine *engine, enum worker_op op, seq_id seq)
{
    struct worker_call call = call_of(op);

    call.seq = seq;
    call.length = length_of(worker_of(engine), seq);
    return call;
}

/* Ops about one sequence that need nothing but a number. */
static uint64_t ask_about(const struct engine *engine, enum worker_op op, seq_id seq, uint32_t end)
{
    struct worker_call call = call_about(engine, op, seq);

    call.end = end;
    return worker_link_ask(&worker_of(engine)->link, &call);
}

/* ---- sequences ---- */

static bool worker_seq_copy(struct engine *engine, seq_id from, seq_id to)
{
    struct worker_call call = call_about(engine, WORKER_SEQ_COPY, from);

    call.other = to;
    return worker_link_ask(&worker_of(engine)->link, &call) != 0;
}

static bool worker_seq_cut(struct engine *engine, seq_id seq, uint32_t length)
{
    return ask_about(engine, WORKER_SEQ_CUT, seq, length) != 0;
}

static uint32_t worker_seq_least(struct engine *engine, seq_id seq)
{
    uint32_t length = length_of(worker_of(engine), seq);

    if (!engine->facts.windows_cut)
        return length;
    uint64_t least = ask_about(engine, WORKER_SEQ_LEAST, seq, 0);
    return least > 0 ? (uint32_t)MIN(least, length) : length; /* 0: the child is dead */
}

static void worker_seq_clear(struct engine *engine, seq_id seq)
{
    ask_about(engine, WORKER_SEQ_CLEAR, seq, 0);
}

static uint32_t worker_seq_length(struct engine *engine, seq_id seq)
{
    return (uint32_t)MIN(ask_about(engine, WORKER_SEQ_LENGTH, seq, 0), UINT32_MAX);
}

static bool worker_seq_settle(struct engine *engine, seq_id seq)
{
    return ask_about(engine, WORKER_SEQ_SETTLE, seq, 0) != 0;
}

/* ---- running ---- */

static void fill_run(struct engine_worker *worker, const struct engine_item *items, size_t count,
                     struct worker_item *out)
{
    token_id *tokens = (token_id *)(void *)worker->work;

    for (size_t i = 0; i < count; i++) {
        out[i] = (struct worker_item){.seq = items[i].seq,
                                      .length = length_of(worker, items[i].seq),
                                      .count = items[i].count,
                                      .logits = items[i].logits};
        memcpy(tokens, items[i].tokens, items[i].count * sizeof(*tokens));
        tokens += items[i].count; /* engine.c has checked the sum */
    }
}

/* The child is not trusted: accept only error codes that a run may return. */
static enum err run_error(const struct worker_reply *reply, struct errinfo *info)
{
    switch (reply->err) {
    case ERR_LIMIT:
    case ERR_CANCELLED:
    case ERR_INVALID:
        return err_set(info, reply->err, "%s", reply->text);
    default:
        return err_set(info, ERR_ENGINE, "%s", reply->text);
    }
}

static bool worker_set_lora(struct engine *engine, const struct lora_set *set)
{
    struct worker_call call = call_of(WORKER_SET_LORA);

    call.lora = *set;
    return worker_link_ask(&worker_of(engine)->link, &call) != 0;
}

static enum err run(struct engine *engine, enum worker_op op, const struct engine_item *items,
                    size_t count, struct errinfo *info)
{
    struct engine_worker *worker = worker_of(engine);
    struct worker_item list[SEQS_SLOTS_MAX];
    struct worker_call call = call_of(op);
    struct worker_reply reply;

    call.items = list;
    call.items_count = count;
    fill_run(worker, items, count, list);
    /* Relaxed: the flag orders no other memory, and an early abort finds no run to end. */
    atomic_store_explicit(&worker->control->abort, 0, memory_order_relaxed);
    enum err err = worker_link_call(&worker->link, &call, NULL, 0, &reply, info);
    return err != ERR_OK || reply.err == ERR_OK ? err : run_error(&reply, info);
}

/* ---- pictures ---- */

/* A decoder gives no sign of life until it ends. This is twenty times slower than any of a machine
 * that has nothing else to do. */
enum { DECODE_PIXELS_PER_MS = 1000 };

static uint32_t decode_ms(struct str file)
{
    struct picture_size size;

    if (picture_file_size(file, &size, NULL) != ERR_OK)
        return 0;
    uint64_t pixels = (uint64_t)size.width * size.height;
    return (uint32_t)(MIN(pixels, (uint64_t)PICTURE_PIXELS_MAX) / DECODE_PIXELS_PER_MS);
}

/* A call with a picture's file in shared memory, which may have room for more; *memory has it and
 * is the caller's. */
static enum err send_file(struct engine_worker *worker, struct worker_call *call, struct str file,
                          size_t bytes, void **memory, struct worker_reply *reply,
                          struct errinfo *info)
{
    *memory = worker_memory_alloc(bytes, worker->link.memory);
    if (*memory == NULL)
        return err_set(info, ERR_NOMEM, "no shared memory for a picture of %zu bytes", file.len);
    memcpy(*memory, file.ptr, file.len);
    call->end = (uint32_t)file.len;
    call->silent_ms = decode_ms(file);
    return worker_link_call(&worker->link, call, *memory, bytes, reply, info);
}

static enum err worker_run_picture(struct engine *engine, seq_id seq,
                                   const struct picture_piece *piece, struct errinfo *info)
{
    struct engine_worker *worker = worker_of(engine);
    const struct picture *picture = piece->picture;
    struct worker_call call = call_about(engine, WORKER_RUN_PICTURE, seq);
    struct worker_reply reply;
    void *memory;

    call.begin = (uint32_t)piece->chunk;
    atomic_store_explicit(&worker->control->abort, 0, memory_order_relaxed);
    enum err err = send_file(worker, &call, (struct str){picture->file, picture->file_len},
                             picture->file_len, &memory, &reply, info);
    worker_memory_free(memory, worker->link.memory);
    return err != ERR_OK || reply.err == ERR_OK ? err : run_error(&reply, info);
}

static enum err worker_read_picture(const struct engine *engine, struct str file,
                                    struct picture **out, struct errinfo *info)
{
    struct engine_worker *worker = worker_of(engine);
    struct worker_call call = call_of(WORKER_READ_PICTURE);
    uint64_t bytes = MAX(file.len, worker_picture_bytes_max(engine->seqs.cells));
    struct worker_reply reply;
    void *memory;

    *out = NULL;
    enum err err = send_file(worker, &call, file, bytes, &memory, &reply, info);
    if (err == ERR_OK && reply.err != ERR_OK)
        err = err_set(info, reply.err, "%s", reply.text);
    if (err == ERR_OK) {
        *out = mem_alloc(sizeof(**out));
        (*out)->file = mem_alloc(file.len);
        (*out)->file_len = file.len;
        memcpy((*out)->file, file.ptr, file.len);
        if (reply.value > bytes || !worker_picture_decode(*out, memory, reply.value)) {
            picture_destroy(out);
            err = err_set(info, ERR_ENGINE, "the engine's process describes no picture");
        }
    }
    worker_memory_free(memory, worker->link.memory);
    return err;
}

static enum err worker_run(struct engine *engine, const struct engine_item *items, size_t count,
                           struct errinfo *info)
{
    return run(engine, WORKER_RUN, items, count, info);
}

static enum err worker_embed(struct engine *engine, const struct engine_item *items, size_t count,
                             struct errinfo *info)
{
    return run(engine, WORKER_EMBED, items, count, info);
}

static const float *worker_logits(struct engine *engine, size_t output)
{
    const struct engine_worker *worker = worker_of(engine);
    const float *logits =
        (const float *)(const void *)(worker->work + worker_work_logits(&engine->facts));

    return logits + output * engine->facts.vocab;
}

static const float *worker_embedding(struct engine *engine, size_t index)
{
    const char *vectors = worker_of(engine)->work + worker_work_vectors(&engine->facts);

    return (const float *)(const void *)vectors + index * engine->facts.embed.size;
}

static void worker_abort(struct engine *engine)
{
    atomic_store_explicit(&worker_of(engine)->control->abort, 1, memory_order_relaxed);
}

static uint64_t worker_beats(const struct engine *engine)
{
    return atomic_load_explicit(&worker_of(engine)->control->ticks, memory_order_relaxed);
}

/* ---- state ---- */

static uint64_t worker_rows_capacity(const struct engine *engine, uint32_t tokens)
{
    struct worker_call call = call_of(WORKER_ROWS_CAPACITY);

    call.end = tokens;
    return worker_link_ask(&worker_of(engine)->link, &call);
}

static const struct {
    enum worker_op bytes, export, import;
} state_ops[] = {
    [STATE_ROWS] = {WORKER_ROWS_CAPACITY, WORKER_EXPORT_ROWS, WORKER_IMPORT_ROWS},
    [STATE_SNAPSHOT] = {WORKER_SNAPSHOT_BYTES, WORKER_EXPORT_SNAPSHOT, WORKER_IMPORT_SNAPSHOT},
    [STATE_WHOLE] = {WORKER_WHOLE_BYTES, WORKER_EXPORT_WHOLE, WORKER_IMPORT_WHOLE},
};

static uint64_t worker_end_bytes(struct engine *engine, seq_id seq, enum state_kind kind)
{
    return ask_about(engine, state_ops[kind].bytes, seq, 0);
}

static uint64_t worker_export_rows(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                                   void *dst, uint64_t capacity)
{
    struct worker_call call = call_about(engine, WORKER_EXPORT_ROWS, seq);

    call.begin = begin;
    call.end = end;
    return worker_link_export(&worker_of(engine)->link, &call, dst, capacity);
}

static uint64_t worker_export_end(struct engine *engine, seq_id seq, enum state_kind kind,
                                  void *dst, uint64_t capacity)
{
    struct worker_call call = call_about(engine, state_ops[kind].export, seq);

    return worker_link_export(&worker_of(engine)->link, &call, dst, capacity);
}

static bool worker_import(struct engine *engine, seq_id seq, enum state_kind kind, const void *data,
                          uint64_t bytes)
{
    struct worker_call call = call_about(engine, state_ops[kind].import, seq);

    return worker_link_import(&worker_of(engine)->link, &call, data, bytes) != 0;
}

static bool worker_rows_cut(struct engine *engine, seq_id seq, uint32_t length)
{
    return ask_about(engine, WORKER_ROWS_CUT, seq, length) != 0;
}

/* ---- the child's life ---- */

static bool find_block(struct engine_worker *worker, const void *ptr,
                       struct worker_segment *segment)
{
    return worker_memory_find(worker->link.memory, ptr, 0, segment);
}

/* Starts a child and loads the model; the reply has the facts. On failure there is no child. The
 * caller sets how `wait` can be cancelled. */
static enum err start_child(struct engine_worker *worker, struct worker_wait *wait,
                            struct worker_reply *reply, struct errinfo *info)
{
    uint32_t hang_ms = worker->options.load_hang_ms;
    struct worker_process_options process = {.program = worker->options.program,
                                             .name = worker->name,
                                             .control = worker->control,
                                             .log = worker->base.log};
    struct worker_segment control;

    wait->what = worker_op_name(WORKER_LOAD);
    wait->silence_ms = hang_ms > 0 ? hang_ms : LOAD_HANG_MS;
    bool found = find_block(worker, worker->control, &control);
    assert(found);
    worker->link.attached_count = 0;
    worker->link.early = 0;
    /* The last child's figures end with it. */
    atomic_store_explicit(&worker->control->pins, 0, memory_order_relaxed);
    atomic_store_explicit(&worker->control->pinned, 0, memory_order_relaxed);
    atomic_store_explicit(&worker->control->plain, 0, memory_order_relaxed);
    TRY(worker_process_start(&worker->link.process, &process, info));
    enum err err = worker_process_call(worker->link.process, worker->load, worker->load_len,
                                       control.fd, 0, wait, reply, info);
    if (err == ERR_OK && reply->err != ERR_OK)
        err = err_set(info, reply->err, "%s", reply->text);
    else if (err == ERR_OK && !reply->has_facts)
        err = err_set(info, ERR_ENGINE, "the engine's process does not say what it has loaded");
    return err;
}

static void attach_early(struct engine_worker *worker)
{
    if (atomic_load_explicit(&worker->control->pins, memory_order_relaxed) != 0)
        worker_link_attach_early(&worker->link);
}

static enum err give_memory(struct engine_worker *worker, struct errinfo *info)
{
    struct worker_segment work;

    bool found = find_block(worker, worker->work, &work);
    assert(found);
    if (worker_link_attach(&worker->link, &work, true)) {
        attach_early(worker);
        return ERR_OK;
    }
    return err_set(info, ERR_ENGINE, "%s", worker_process_death(worker->link.process));
}

static bool alive_now(const struct engine_worker *worker)
{
    return worker->link.process != NULL && worker_process_alive(worker->link.process);
}

static bool worker_alive(struct engine *engine)
{
    worker_link_begin(&worker_of(engine)->link);
    bool alive = alive_now(worker_of(engine));
    worker_link_end(&worker_of(engine)->link);
    return alive;
}

/* Also detaches freed segments from the child: the RAM tier shrinks while models are idle, and
 * without a call the child would keep that memory mapped and unaccounted for. New ones are attached
 * if the child pins them. */
static uint64_t worker_memory_bytes(struct engine *engine)
{
    struct engine_worker *worker = worker_of(engine);

    worker_link_begin(&worker->link);
    worker_link_detach_freed(&worker->link);
    attach_early(worker);
    uint64_t bytes = alive_now(worker) ? sysinfo_memory_of(engine_worker_pid(engine)) : 0;
    worker_link_end(&worker->link);
    return bytes;
}

static uint64_t worker_device_free(struct engine *engine)
{
    struct worker_call call = call_of(WORKER_DEVICE_FREE);

    return worker_alive(engine) ? worker_link_ask(&worker_of(engine)->link, &call) : 0;
}

static struct host_memory_stats worker_host_memory(const struct engine *engine)
{
    const struct worker_control *control = worker_of(engine)->control;

    return (struct host_memory_stats){
        .pinned = atomic_load_explicit(&control->pinned, memory_order_relaxed),
        .plain = atomic_load_explicit(&control->plain, memory_order_relaxed)};
}

/* The same model in every respect that state and buffers depend on. */
static bool is_same(const struct engine *engine, const struct worker_facts *now)
{
    const struct engine_facts *a = &engine->facts, *b = &now->facts;

    return hash256_eq(&a->fingerprint, &b->fingerprint) &&
           memcmp(&a->lora, &b->lora, sizeof(a->lora)) == 0 && a->vocab == b->vocab &&
           a->chunk == b->chunk && a->sequences == b->sequences && a->context == b->context &&
           a->outputs == b->outputs && a->embed.size == b->embed.size && a->slicing == b->slicing &&
           a->kinds == b->kinds && a->rows_bytes_fixed == b->rows_bytes_fixed &&
           a->rows_bytes_per_token == b->rows_bytes_per_token && engine->seqs.cells == now->cells &&
           engine->seqs.streams == now->streams;
}

static enum err restart_now(struct engine *engine, bool (*on_progress)(float done, void *arg),
                            void *arg, struct errinfo *info)
{
    struct engine_worker *worker = worker_of(engine);
    struct worker_wait wait = {.on_progress = on_progress, .progress_arg = arg};
    struct worker_reply reply;

    worker_process_stop(&worker->link.process);
    enum err err = start_child(worker, &wait, &reply, info);
    if (err == ERR_OK && !is_same(engine, &reply.facts))
        err = err_set(info, ERR_ENGINE,
                      "the file of model %s is another one now; restart the server", worker->name);
    if (err == ERR_OK)
        err = give_memory(worker, info);
    if (err != ERR_OK) {
        worker_process_stop(&worker->link.process);
        return ERR_ENGINE;
    }
    LOG_INFO(worker->base.log, "worker", "an engine has a new process",
             LOG_STR("model", worker->name),
             LOG_INT("pid", worker_process_pid(worker->link.process)));
    return ERR_OK;
}

static enum err worker_restart(struct engine *engine, bool (*on_progress)(float done, void *arg),
                               void *arg, struct errinfo *info)
{
    worker_link_begin(&worker_of(engine)->link);
    enum err err = restart_now(engine, on_progress, arg, info);
    worker_link_end(&worker_of(engine)->link);
    return err;
}

static void worker_close(struct engine *engine)
{
    struct engine_worker *worker = worker_of(engine);

    worker_link_fini(&worker->link);
    if (worker->vocab != NULL)
        engine_close(&worker->vocab);
    worker_memory_free(worker->control, worker->link.memory);
    worker_memory_free(worker->work, worker->link.memory);
    worker_memory_destroy(&worker->own_memory);
    mem_free(worker->name);
    mem_free(worker->architecture);
    mem_free(worker->description);
    mem_free(worker->backend);
    mem_free(worker);
}

static const struct engine_ops worker_ops = {
    .close = worker_close,
    .seq_copy = worker_seq_copy,
    .seq_cut = worker_seq_cut,
    .seq_least = worker_seq_least,
    .seq_clear = worker_seq_clear,
    .seq_length = worker_seq_length,
    .seq_settle = worker_seq_settle,
    .set_lora = worker_set_lora,
    .run = worker_run,
    .run_picture = worker_run_picture,
    .read_picture = worker_read_picture,
    .logits = worker_logits,
    .embed = worker_embed,
    .embedding = worker_embedding,
    .abort = worker_abort,
    .beats = worker_beats,
    .device_free = worker_device_free,
    .rows_capacity = worker_rows_capacity,
    .export_rows = worker_export_rows,
    .end_bytes = worker_end_bytes,
    .export_end = worker_export_end,
    .import = worker_import,
    .rows_cut = worker_rows_cut,
    .alive = worker_alive,
    .memory = worker_memory_bytes,
    .host_memory = worker_host_memory,
    .restart = worker_restart,
};

/* ---- loading ---- */

static void on_sent(void *arg)
{
    struct engine_worker *worker = arg;

    if (worker->options.on_call != NULL)
        worker->options.on_call(&worker->base, worker->options.arg);
}

static enum err load_vocab(struct engine_worker *worker, const struct engine_options *options,
                           struct errinfo *info)
{
    if (worker->options.load_vocab != NULL)
        return worker->options.load_vocab(&worker->vocab, options, info);
    return engine_llama_load_vocab(&worker->vocab, options, info);
}

/* Texts of the reply are valid only until the next one. */
static enum err take_facts(struct engine_worker *worker, const struct worker_facts *from,
                           struct errinfo *info)
{
    struct engine_facts *facts = &worker->base.facts;
    const struct engine_facts *vocab = engine_facts(worker->vocab);

    if (from->facts.vocab != vocab->vocab)
        return err_set(info, ERR_ENGINE, "the engine's process has %u tokens, its parent %u",
                       from->facts.vocab, vocab->vocab);
    *facts = from->facts;
    mem_free(worker->name);
    facts->name = worker->link.name = worker->name = mem_strdup(from->facts.name);
    facts->architecture = worker->architecture = mem_strdup(from->facts.architecture);
    facts->description = worker->description = mem_strdup(from->facts.description);
    facts->backend = worker->backend = mem_strdup(from->facts.backend);
    facts->chat_template = vocab->chat_template;
    facts->words = vocab->words;
    worker->base.lora = lora_set_before(&facts->lora, &facts->lora.initial);
    struct engine_embed embed = vocab->embed; /* how pairs are read: of the vocabulary */
    embed.pooling = from->facts.embed.pooling;
    embed.size = from->facts.embed.size;
    embed.whole = from->facts.embed.whole;
    embed.only = from->facts.embed.only;
    facts->embed = embed;
    seqs_init(&worker->base.seqs, facts->sequences, from->cells, from->streams);
    return ERR_OK;
}

static enum err load_all(struct engine_worker *worker, const struct engine_options *options,
                         struct errinfo *info)
{
    struct worker_wait wait = {.on_progress = options->on_progress, .progress_arg = options->arg};
    struct worker_reply reply;

    worker->load_len = worker_load_encode(options, worker->load);
    if (worker->load_len == 0)
        return err_set(info, ERR_LIMIT,
                       "the paths and adapters of a model are too long for its process");
    /* until the child reports its own */
    worker->link.name = worker->name = mem_strdup(file_base_name(options->path));
    worker->control = worker_memory_alloc(sizeof(*worker->control), worker->link.memory);
    if (worker->control == NULL)
        return err_set(info, ERR_NOMEM, "no shared memory for an engine's process");
    /* The child first: a file that crashes the library must not be opened in this process. */
    TRY(start_child(worker, &wait, &reply, info));
    TRY(load_vocab(worker, options, info));
    worker->base.vocab = worker->vocab;
    TRY(take_facts(worker, &reply.facts, info));
    worker->work = worker_memory_alloc(worker_work_bytes(&worker->base.facts), worker->link.memory);
    if (worker->work == NULL)
        return err_set(info, ERR_NOMEM, "no shared memory for the logits of %u tokens",
                       worker->base.facts.outputs);
    return give_memory(worker, info);
}

enum err engine_worker_load(struct engine **engine, const struct engine_options *options,
                            const struct engine_worker_options *worker_options,
                            struct errinfo *info)
{
    struct engine_worker *worker = mem_alloc(sizeof(*worker));
    struct engine_worker_options *own = &worker->options;

    *engine = NULL;
    *own = *worker_options;
    worker->base.ops = &worker_ops;
    worker->base.log = options->log;
    if (own->memory == NULL)
        worker->own_memory = worker_memory_create();
    worker->link.memory = own->memory != NULL ? own->memory : worker->own_memory;
    worker->link.hang_ms = own->hang_ms > 0 ? own->hang_ms : HANG_MS;
    worker->link.staging_bytes_max =
        own->staging_bytes_max > 0 ? own->staging_bytes_max : staging_bytes_max;
    worker->link.on_sent = on_sent;
    worker->link.arg = worker;
    worker_link_init(&worker->link);
    enum err err = load_all(worker, options, info);
    struct engine *made = &worker->base;
    if (err == ERR_OK)
        *engine = made;
    else
        engine_close(&made);
    return err;
}

pid_t engine_worker_pid(const struct engine *engine)
{
    assert(engine->ops == &worker_ops);
    return worker_process_pid(worker_of(engine)->link.process);
}
