/*
 * worker_main.c: see the header.
 *
 *      main thread       recv -> look up the op -> engine's table -> reply (one at a time)
 *      exit thread       poll for the end of the socket -> _exit, even if the library hangs
 *      library threads   on_tick: control->ticks++, and the parent's abort flag
 *      pin thread        pins segments while the main thread has nothing to do (worker_pin.h)
 *
 * The parent does the accounting of sequences. Here only the length of each is kept, because
 * engines need it; each call states it, and `follow` sets it.
 *
 * The parent is trusted. An invalid message, or a place outside its segment, means a broken parent:
 * the process ends.
 */
#include "engine/worker_main.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_ops.h"
#include "engine/picture.h"
#include "engine/worker_pin.h"
#include "engine/worker_process.h"
#include "engine/worker_picture.h"
#include "engine/worker_wire.h"

struct segment {
    uint64_t id, bytes;
    char *base;
    bool *seen; /* per part of PART_BYTES: its pages are mapped */
};

enum { PART_BYTES = 1 << 20 };

struct worker {
    int socket;
    struct log *log;
    enum err (*load)(struct engine **engine, const struct engine_options *options,
                     struct errinfo *info);
    struct engine *engine;
    struct worker_control *control;
    struct worker_pin *pin; /* NULL: nothing is pinned */
    struct segment *segments;
    size_t segments_count, segments_cap;
    token_id *tokens;  /* in the work segment: those of a run, and then ... */
    float *logits;     /* ... `vocab` floats per output, or ... */
    float *vectors;    /* ... a vector per item */
    uint64_t progress; /* last reported, in parts per million */
    unsigned char in[WORKER_MESSAGE_BYTES_MAX], out[WORKER_MESSAGE_BYTES_MAX];
    struct worker_item items[SEQS_SLOTS_MAX];
    struct picture *picture; /* the last one: its pieces run one after the other */
    struct hash256 picture_hash;
};

NORETURN static void give_up(const char *why)
{
    fprintf(stderr, "the engine's process ends: %s\n", why);
    _exit(1);
}

/* ---- messages ---- */

static void send_reply(struct worker *worker, const struct worker_reply *reply)
{
    size_t len = worker_reply_encode(reply, worker->out);
    ssize_t sent;

    if (len == 0)
        give_up("a reply that cannot be written");
    do
        sent = send(worker->socket, worker->out, len, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != (ssize_t)len)
        _exit(0); /* the parent is gone: nothing to report to */
}

/* One message, with the descriptor that came along, or FILE_NO. Returns its length, 0 at the
 * end. */
static size_t receive(struct worker *worker, int *fd)
{
    struct iovec part = {.iov_base = worker->in, .iov_len = sizeof(worker->in)};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t len;

    do
        len = recvmsg(worker->socket, &header, MSG_CMSG_CLOEXEC);
    while (len < 0 && errno == EINTR);
    *fd = FILE_NO;
    struct cmsghdr *cmsg = len > 0 ? CMSG_FIRSTHDR(&header) : NULL;
    if (cmsg != NULL && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(cmsg), sizeof(*fd));
    return len > 0 ? (size_t)len : 0;
}

/* ---- signs of life ---- */

static void on_tick(void *arg)
{
    struct worker *worker = arg;

    atomic_fetch_add_explicit(&worker->control->ticks, 1, memory_order_relaxed);
    if (worker->engine != NULL &&
        atomic_load_explicit(&worker->control->abort, memory_order_relaxed) != 0)
        engine_abort(worker->engine);
}

static bool on_progress(float done, void *arg)
{
    struct worker *worker = arg;
    uint64_t parts = (uint64_t)(done * 1e6f);

    on_tick(worker);
    if (parts >= worker->progress + 1000 || parts >= 1000000) { /* as fine as a bar can show */
        worker->progress = parts;
        send_reply(worker, &(struct worker_reply){.kind = WORKER_PROGRESS, .value = parts});
    }
    return true;
}

/* Ends the process when the parent has ended or cancelled. */
static void exit_with_parent(void *arg)
{
    struct pollfd fd = {.fd = *(const int *)arg, .events = POLLRDHUP};

    for (;;)
        if (poll(&fd, 1, -1) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0)
            _exit(0);
}

/* ---- memory ---- */

static void *map(int fd, uint64_t bytes)
{
    void *base =
        fd != FILE_NO ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (base == MAP_FAILED)
        give_up("shared memory cannot be mapped");
    close(fd);
    (void)madvise(base, bytes, MADV_HUGEPAGE);
    return base;
}

static struct segment *find_segment(struct worker *worker, uint64_t id)
{
    for (size_t i = 0; i < worker->segments_count; i++)
        if (worker->segments[i].id == id)
            return &worker->segments[i];
    return NULL;
}

/* Untouched pages would be mapped one by one, each with a fault; a part at a time is much
 * faster. */
static void populate(struct segment *segment, uint64_t begin, uint64_t end)
{
    for (uint64_t part = begin / PART_BYTES; part * PART_BYTES < end; part++) {
        uint64_t at = part * PART_BYTES;
        if (segment->seen[part])
            continue;
        segment->seen[part] = true;
        /* A kernel without support faults them in one by one. */
        (void)madvise(segment->base + at, MIN(PART_BYTES, segment->bytes - at),
                      MADV_POPULATE_WRITE);
    }
}

static void *resolve(struct worker *worker, const struct worker_place *place)
{
    struct segment *segment = find_segment(worker, place->segment);

    if (segment == NULL || place->offset > segment->bytes ||
        place->bytes > segment->bytes - place->offset)
        give_up("a place that is in no segment");
    populate(segment, place->offset, place->offset + place->bytes);
    return segment->base + place->offset;
}

static void attach(struct worker *worker, const struct worker_call *call, int fd)
{
    const struct engine_facts *facts = &worker->engine->facts;

    if (find_segment(worker, call->place.segment) != NULL)
        give_up("a segment twice");
    if (!mem_try_reserve(&worker->segments, worker->segments_count + 1, &worker->segments_cap,
                         sizeof(*worker->segments)))
        give_up("no memory");
    struct segment *segment = &worker->segments[worker->segments_count++];
    *segment = (struct segment){.id = call->place.segment,
                                .bytes = call->place.bytes,
                                .base = map(fd, call->place.bytes),
                                .seen = mem_alloc(call->place.bytes / PART_BYTES + 1)};
    if (!call->work && segment->bytes >= WORKER_PIN_BYTES_MIN)
        worker_pin_add(worker->pin, segment->base, segment->bytes);
    if (!call->work)
        return;
    if (worker_work_bytes(facts) > segment->bytes)
        give_up("a work segment that is too small");
    worker->tokens = (token_id *)(void *)segment->base;
    worker->logits = (float *)(void *)(segment->base + worker_work_logits(facts));
    worker->vectors = (float *)(void *)(segment->base + worker_work_vectors(facts));
}

static void detach(struct worker *worker, uint64_t id)
{
    struct segment *segment = find_segment(worker, id);

    if (segment == NULL)
        give_up("a segment that is not there");
    worker_pin_remove(worker->pin, segment->base);
    munmap(segment->base, segment->bytes);
    mem_free(segment->seen);
    *segment = worker->segments[--worker->segments_count];
}

/* ---- loading ---- */

static enum err load(struct worker *worker, struct worker_load *load, struct errinfo *info)
{
    load->options.log = worker->log;
    load->options.on_progress = on_progress;
    load->options.arg = worker;
    load->options.on_tick = on_tick;
    load->options.tick_arg = worker;
    return worker->load(&worker->engine, &load->options, info);
}

/* From now on account for lengths only: each sequence as if it had its own cells. */
static void keep_lengths_only(struct engine *engine)
{
    uint32_t slots = engine->seqs.slots_count;

    seqs_fini(&engine->seqs);
    seqs_init(&engine->seqs, slots, UINT32_MAX / slots, true);
}

/* Without a driver that pins, segments are used as they are. That is slower on a GPU only. */
static void start_pinning(struct worker *worker)
{
    struct errinfo info = {0};
    enum err err = worker_pin_create(&worker->pin, worker->control, worker->log, &info);

    atomic_store_explicit(&worker->control->pins, err == ERR_OK, memory_order_relaxed);
    if (err != ERR_OK && worker->engine->facts.device_total > 0)
        LOG_WARN(worker->log, "worker",
                 "memory that the server shares cannot be pinned for this GPU, so restores from "
                 "RAM are several times slower",
                 LOG_STR("reason", info.text));
}

static void serve_load(struct worker *worker, size_t len, int fd)
{
    struct worker_load *what = mem_alloc(sizeof(*what));
    struct worker_reply reply = {.kind = WORKER_REPLY};
    struct errinfo info = {0};

    if (worker_load_decode(worker->in, len, what) != ERR_OK)
        give_up("a message that is not valid");
    worker->control = map(fd, sizeof(*worker->control));
    reply.err = load(worker, what, &info);
    snprintf(reply.text, sizeof(reply.text), "%s", info.text);
    if (reply.err == ERR_OK && what->options.dry) {
        engine_close(&worker->engine);
    } else if (reply.err == ERR_OK) {
        reply.has_facts = true;
        reply.facts = (struct worker_facts){.facts = worker->engine->facts,
                                            .cells = worker->engine->seqs.cells,
                                            .streams = worker->engine->seqs.streams};
        keep_lengths_only(worker->engine);
        start_pinning(worker);
    }
    send_reply(worker, &reply);
    mem_free(what);
}

/* ---- calls ---- */

static void follow(struct worker *worker, seq_id seq, uint32_t length)
{
    struct seqs *seqs = &worker->engine->seqs;

    if (seq < 0 || (uint32_t)seq >= seqs->slots_count)
        give_up("a sequence that cannot be");
    if (!seqs_live(seqs, seq))
        seqs_claim(seqs, seq);
    if (seqs_length(seqs, seq) > length)
        seqs_truncate(seqs, seq, length);
    else
        seqs_append(seqs, seq, length - seqs_length(seqs, seq));
}

static void clear(struct worker *worker, seq_id seq)
{
    worker->engine->ops->seq_clear(worker->engine, seq);
    seqs_release(&worker->engine->seqs, seq);
}

static void copy_logits(struct worker *worker, const struct worker_call *call)
{
    size_t vocab = worker->engine->facts.vocab, count = 0;

    for (size_t i = 0; i < call->items_count; i++)
        count += call->items[i].logits;
    for (size_t i = 0; i < count; i++)
        memcpy(worker->logits + i * vocab, worker->engine->ops->logits(worker->engine, i),
               vocab * sizeof(float));
}

static enum err copy_vectors(struct worker *worker, const struct worker_call *call,
                             struct errinfo *info)
{
    size_t size = worker->engine->facts.embed.size;

    for (size_t i = 0; i < call->items_count; i++) {
        const float *vector = worker->engine->ops->embedding(worker->engine, i);
        if (vector == NULL)
            return err_set(info, ERR_ENGINE, "the library computed no vector");
        memcpy(worker->vectors + i * size, vector, size * sizeof(float));
    }
    return ERR_OK;
}

static enum err run(struct worker *worker, const struct worker_call *call, struct errinfo *info)
{
    struct engine *engine = worker->engine;
    struct engine_item items[SEQS_SLOTS_MAX];
    uint64_t at = 0, most = (uint64_t)engine->facts.chunk + engine->facts.sequences;
    uint64_t outputs = 0;

    for (size_t i = 0; i < call->items_count; i++) {
        const struct worker_item *item = &call->items[i];
        outputs += item->logits;
        if (worker->tokens == NULL || item->count > most - at || outputs > engine->facts.outputs)
            give_up("more tokens than there is room for");
        follow(worker, item->seq, item->length);
        items[i] = (struct engine_item){item->seq, worker->tokens + at, item->count, item->logits};
        at += item->count;
    }
    bool embeds = call->op == WORKER_EMBED;
    enum err err =
        (embeds ? engine->ops->embed : engine->ops->run)(engine, items, call->items_count, info);
    if (err == ERR_OK && embeds)
        err = copy_vectors(worker, call, info);
    else if (err == ERR_OK)
        copy_logits(worker, call);
    return err;
}

static uint64_t export_end(struct worker *worker, const struct worker_call *call,
                           enum state_kind kind)
{
    return worker->engine->ops->export_end(worker->engine, call->seq, kind,
                                           resolve(worker, &call->place), call->place.bytes);
}

static uint64_t import(struct worker *worker, const struct worker_call *call, enum state_kind kind)
{
    return worker->engine->ops->import(worker->engine, call->seq, kind,
                                       resolve(worker, &call->place), call->place.bytes);
}

/* ---- pictures ---- */

static enum err read_picture(struct worker *worker, const struct worker_call *call,
                             struct errinfo *info)
{
    const struct engine_ops *ops = worker->engine->ops;
    struct str file = {resolve(worker, &call->place), call->end};

    if (call->end > call->place.bytes || ops->read_picture == NULL)
        give_up("a picture that cannot be");
    struct hash256 hash = hash256_of(file.ptr, file.len);
    if (worker->picture != NULL && hash256_eq(&hash, &worker->picture_hash))
        return ERR_OK;
    picture_destroy(&worker->picture);
    worker->picture_hash = hash;
    return ops->read_picture(worker->engine, file, &worker->picture, info);
}

/* Writes over the file; returns the bytes. */
static uint64_t describe_picture(struct worker *worker, const struct worker_call *call,
                                 enum err *err, struct errinfo *info)
{
    uint64_t bytes =
        worker_picture_encode(worker->picture, resolve(worker, &call->place), call->place.bytes);
    size_t count;

    picture_tokens(worker->picture, &count);
    if (bytes == 0)
        *err = err_set(info, ERR_LIMIT, "the picture takes %zu tokens, more than the context has",
                       count);
    return bytes;
}

static enum err run_piece(struct worker *worker, const struct worker_call *call,
                          struct errinfo *info)
{
    size_t count;
    const struct picture_piece *pieces = picture_pieces(worker->picture, &count);

    if (call->begin >= count)
        give_up("a piece that a picture does not have");
    follow(worker, call->seq, call->length);
    return worker->engine->ops->run_picture(worker->engine, call->seq, &pieces[call->begin], info);
}

/* Ops about one sequence. Returns the reply's value. */
static uint64_t about_sequence(struct worker *worker, const struct worker_call *call)
{
    struct engine *engine = worker->engine;
    const struct engine_ops *ops = engine->ops;

    follow(worker, call->seq, call->length);
    switch (call->op) {
    case WORKER_SEQ_COPY:
        follow(worker, call->other, call->length);
        return ops->seq_copy(engine, call->seq, call->other);
    case WORKER_SEQ_CUT:
        return ops->seq_cut(engine, call->seq, call->end);
    case WORKER_SEQ_LEAST:
        return ops->seq_least != NULL ? ops->seq_least(engine, call->seq) : call->length;
    case WORKER_SEQ_CLEAR:
        clear(worker, call->seq);
        return 1;
    case WORKER_SEQ_LENGTH:
        return ops->seq_length(engine, call->seq);
    case WORKER_SEQ_SETTLE:
        return ops->seq_settle == NULL || ops->seq_settle(engine, call->seq);
    case WORKER_SNAPSHOT_BYTES:
        return ops->end_bytes(engine, call->seq, STATE_SNAPSHOT);
    case WORKER_WHOLE_BYTES:
        return ops->end_bytes(engine, call->seq, STATE_WHOLE);
    case WORKER_ROWS_CUT:
        return (ops->rows_cut != NULL ? ops->rows_cut : ops->seq_cut)(engine, call->seq, call->end);
    case WORKER_EXPORT_ROWS:
        return ops->export_rows(engine, call->seq, call->begin, call->end,
                                resolve(worker, &call->place), call->place.bytes);
    case WORKER_EXPORT_SNAPSHOT:
        return export_end(worker, call, STATE_SNAPSHOT);
    case WORKER_EXPORT_WHOLE:
        return export_end(worker, call, STATE_WHOLE);
    case WORKER_IMPORT_ROWS:
        return import(worker, call, STATE_ROWS);
    case WORKER_IMPORT_SNAPSHOT:
        return import(worker, call, STATE_SNAPSHOT);
    default:
        return import(worker, call, STATE_WHOLE);
    }
}

static uint64_t serve(struct worker *worker, const struct worker_call *call, int fd, enum err *err,
                      struct errinfo *info)
{
    switch (call->op) {
    case WORKER_ATTACH:
        attach(worker, call, fd);
        return 1;
    case WORKER_DETACH:
        detach(worker, call->place.segment);
        return 1;
    case WORKER_SET_LORA:
        return worker->engine->ops->set_lora != NULL &&
               worker->engine->ops->set_lora(worker->engine, &call->lora);
    case WORKER_RUN:
    case WORKER_EMBED:
        *err = run(worker, call, info);
        return *err == ERR_OK;
    case WORKER_DEVICE_FREE:
        return engine_device_free(worker->engine);
    case WORKER_READ_PICTURE:
        *err = read_picture(worker, call, info);
        return *err == ERR_OK ? describe_picture(worker, call, err, info) : 0;
    case WORKER_RUN_PICTURE:
        *err = read_picture(worker, call, info);
        if (*err == ERR_OK)
            *err = run_piece(worker, call, info);
        return *err == ERR_OK;
    case WORKER_ROWS_CAPACITY:
        return worker->engine->ops->rows_capacity(worker->engine, call->end);
    default:
        return about_sequence(worker, call);
    }
}

/* The others neither use the device nor are part of a request. */
static bool is_work(enum worker_op op)
{
    return op != WORKER_ATTACH && op != WORKER_DETACH && op != WORKER_DEVICE_FREE;
}

static void serve_call(struct worker *worker, size_t len, int fd)
{
    struct worker_reply reply = {.kind = WORKER_REPLY};
    struct worker_call call;
    struct errinfo info = {0};

    if (worker_call_decode(worker->in, len, &call, worker->items) != ERR_OK)
        give_up("a message that is not valid");
    on_tick(worker);
    reply.number = call.number;
    if (is_work(call.op))
        worker_pin_begin_work(worker->pin);
    reply.value = serve(worker, &call, fd, &reply.err, &info);
    if (is_work(call.op))
        worker_pin_end_work(worker->pin);
    snprintf(reply.text, sizeof(reply.text), "%s", info.text);
    send_reply(worker, &reply);
}

/* ---- the process ---- */

/* Ctrl-C and a service manager's SIGTERM are for the parent, which finishes running answers
 * first. */
static void set_up_process(void)
{
    (void)prctl(PR_SET_NAME, "hearth-engine"); /* for `top` */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    /* descriptors that the parent's libraries left open */
    (void)close_range(WORKER_SOCKET + 1, ~0u, 0);
}

int worker_main(int socket,
                enum err (*load_engine)(struct engine **engine,
                                        const struct engine_options *options, struct errinfo *info))
{
    struct worker *worker = mem_alloc(sizeof(*worker));
    struct thread exit_thread = {0};
    size_t len;
    int fd;

    set_up_process();
    worker->socket = socket;
    worker->load = load_engine;
    worker->log = log_create(&(struct log_options){
        .fd = STDERR_FILENO, .level = LOG_LEVEL_DEBUG, .clock = clock_real()});
    if (thread_start(&exit_thread, "worker-exit", exit_with_parent, &worker->socket, NULL) !=
        ERR_OK)
        give_up("no thread can be started");
    while ((len = receive(worker, &fd)) > 0)
        (worker->engine == NULL ? serve_load : serve_call)(worker, len, fd);
    /* The system frees everything; cleaning up the library may hang. */
    _exit(0);
}
