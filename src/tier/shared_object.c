/*
 * shared_object.c: batches of operations. A batch is some parts at once, so that a deadline, a
 * cancellation and reads that come first are noticed between two of them.
 *
 * Pages are read, changed and written without a lock: when two servers do so at the same time, one
 * entry is lost. Its object is not found then, which costs time but is never wrong.
 */
#include "tier/shared_object.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    BATCH_PARTS = 4,
    PAGES_AT_ONCE = 64,
    DELETES_AT_ONCE = 64,
    MAX_TIMEOUTS = 15,     /* for a batch */
    HEAD_BYTES = 64 << 10, /* what most heads fit into */
    HEAD_BYTES_MAX = 80 << 20,
    NOTE_BYTES_MAX = 1 << 20,
};

static enum tier_result result_of(enum kv_result result)
{
    switch (result) {
    case KV_OK:
        return TIER_OK;
    case KV_MISSING:
        return TIER_MISSING;
    case KV_FULL:
        return TIER_FULL;
    case KV_TIMEOUT:
        return TIER_TIMEOUT;
    default:
        return TIER_ERROR;
    }
}

static uint64_t deadline_of(const struct shared_io *io)
{
    return clock_deadline_ns(clock_real(), io->timeout_ns);
}

/* Parts may take long on a slow network, as long as they move. */
static void run_parts(const struct shared_io *io, struct kv_op *ops, size_t count,
                      shared_step_fn goes_on, void *arg)
{
    kv_run_while_moving(io->kv, ops, count, io->timeout_ns,
                        clock_deadline_ns(clock_real(), MAX_TIMEOUTS * io->timeout_ns), goes_on,
                        arg);
}

/* ---- parts ---- */

static void name_part(const struct shared_io *io, const struct shared_head *head, uint32_t part,
                      struct kv_op *op)
{
    shared_part_name(&io->format, kv_prefix(io->kv), head, part, op->name, sizeof(op->name));
}

/* Stores parts [first, first + count). `room`: memory for sealed ones. */
static enum tier_result write_batch(const struct shared_io *io, struct shared_head *head,
                                    uint32_t first, uint32_t count, const char *data, char *room)
{
    struct kv_op *ops = mem_alloc_array(count, sizeof(*ops));
    enum tier_result result = TIER_OK;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes, at = shared_part_at(head, first + i, &bytes);
        char *sealed = room + i * io->part_bytes;
        shared_part_close(&io->format, head, first + i, data + at, sealed);
        ops[i] = (struct kv_op){
            .verb = KV_PUT, .data = io->format.sealed ? sealed : data + at, .bytes = bytes};
        name_part(io, head, first + i, &ops[i]);
    }
    run_parts(io, ops, count, NULL, NULL);
    for (uint32_t i = 0; i < count && result == TIER_OK; i++)
        result = result_of(ops[i].result);
    mem_free(ops);
    return result;
}

static enum tier_result write_parts(const struct shared_io *io, struct shared_head *head,
                                    const void *data, shared_step_fn step, void *arg)
{
    enum tier_result result = TIER_OK;
    char *room = NULL;

    if (io->format.sealed) {
        room = mem_try_alloc(MIN(head->parts, BATCH_PARTS) * io->part_bytes);
        if (room == NULL)
            return TIER_ERROR;
    }
    for (uint32_t i = 0; i < head->parts && result == TIER_OK; i += BATCH_PARTS) {
        if (!step(arg))
            result = TIER_CANCELLED;
        else
            result = write_batch(io, head, i, MIN(head->parts - i, BATCH_PARTS), data, room);
    }
    mem_free(room);
    return result;
}

/* Reads parts [first, first + count) to their places, and verifies them. */
static enum tier_result read_batch(const struct shared_io *io, const struct shared_head *head,
                                   uint32_t first, uint32_t count, char *dst, shared_step_fn step,
                                   void *arg)
{
    struct kv_op *ops = mem_alloc_array(count, sizeof(*ops));
    enum tier_result result = TIER_OK;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes, at = shared_part_at(head, first + i, &bytes);
        ops[i] = (struct kv_op){.verb = KV_GET, .dst = dst + at, .capacity = bytes};
        name_part(io, head, first + i, &ops[i]);
    }
    run_parts(io, ops, count, step, arg);
    for (uint32_t i = 0; i < count && result == TIER_OK; i++) {
        bool other = ops[i].got != ops[i].capacity &&
                     (ops[i].result == KV_OK || (ops[i].result == KV_ERROR && ops[i].got > 0));
        if (other)
            result = TIER_DAMAGED; /* too short, or too long */
        else
            result = result_of(ops[i].result);
        if (result == TIER_OK && !shared_part_open(&io->format, head, first + i, ops[i].dst))
            result = TIER_DAMAGED;
    }
    mem_free(ops);
    return result;
}

enum tier_result shared_read_parts(const struct shared_io *io, const struct shared_head *head,
                                   void *dst, shared_step_fn step, void *arg)
{
    const struct hash128 none = {{0}};
    enum tier_result result = TIER_OK;

    for (uint32_t i = 0; i < head->parts && result == TIER_OK; i += BATCH_PARTS) {
        if (!step(arg))
            result = TIER_CANCELLED;
        else
            result = read_batch(io, head, i, MIN(head->parts - i, BATCH_PARTS), dst, step, arg);
    }
    if (result == TIER_TIMEOUT && !step(arg))
        result = TIER_CANCELLED;
    if (result == TIER_OK && !hash128_eq(&head->meta.digest, &none)) {
        struct hash128 digest = hash128_of(dst, head->meta.bytes);
        result = hash128_eq(&digest, &head->meta.digest) ? TIER_OK : TIER_DAMAGED;
    }
    return result;
}

/* ---- heads ---- */

static struct kv_op head_op(const struct shared_io *io, const struct hash256 *key,
                            enum kv_verb verb)
{
    struct kv_op op = {.verb = verb};

    shared_head_name(&io->format, kv_prefix(io->kv), key, op.name, sizeof(op.name));
    return op;
}

static enum tier_result decode_head(const struct shared_io *io, const struct hash256 *key,
                                    const struct kv_op *op, struct shared_head *head)
{
    if (op->result != KV_OK)
        return result_of(op->result);
    if (!shared_head_decode(&io->format, key, op->dst, op->got, head))
        return TIER_DAMAGED;
    head->seen_ns = clock_mono_ns(clock_real());
    return TIER_OK;
}

/* One that did not fit, and has said how large it is. */
static enum tier_result read_large_head(const struct shared_io *io, const struct hash256 *key,
                                        uint64_t bytes, uint64_t deadline_ns,
                                        struct shared_head *head)
{
    struct kv_op op = head_op(io, key, KV_GET);

    op.dst = mem_try_alloc(bytes);
    op.capacity = bytes;
    if (op.dst == NULL)
        return TIER_ERROR;
    kv_run(io->kv, &op, 1, deadline_ns);
    enum tier_result result = decode_head(io, key, &op, head);
    mem_free(op.dst);
    return result;
}

void shared_read_heads(const struct shared_io *io, const struct hash256 *keys, size_t count,
                       uint64_t deadline_ns, struct shared_head *heads, enum tier_result *results)
{
    struct kv_op ops[SHARED_HEADS_AT_ONCE];
    char *room = mem_alloc_array(count, HEAD_BYTES);

    assert(count <= SHARED_HEADS_AT_ONCE);
    for (size_t i = 0; i < count; i++) {
        ops[i] = head_op(io, &keys[i], KV_GET);
        ops[i].dst = room + i * HEAD_BYTES;
        ops[i].capacity = HEAD_BYTES;
    }
    kv_run(io->kv, ops, count, deadline_ns);
    for (size_t i = 0; i < count; i++) {
        bool large = ops[i].result == KV_ERROR && ops[i].got > HEAD_BYTES;
        results[i] = large && ops[i].got <= HEAD_BYTES_MAX
                         ? read_large_head(io, &keys[i], ops[i].got, deadline_ns, &heads[i])
                         : decode_head(io, &keys[i], &ops[i], &heads[i]);
    }
    mem_free(room);
}

enum tier_result shared_read_head(const struct shared_io *io, const struct hash256 *key,
                                  uint64_t deadline_ns, struct shared_head *head)
{
    enum tier_result result;

    shared_read_heads(io, key, 1, deadline_ns, head, &result);
    return result;
}

/* *existed: another process was first, and its head stays. */
static enum tier_result write_head(const struct shared_io *io, const struct shared_head *head,
                                   bool *existed)
{
    struct kv_op op = head_op(io, &head->meta.key, KV_PUT);
    struct buf bytes;

    op.once = true;
    buf_init(&bytes, HEAD_BYTES_MAX);
    shared_head_encode(&io->format, head, &bytes);
    enum tier_result result = TIER_ERROR;
    if (bytes.err == ERR_OK) {
        op.data = bytes.data;
        op.bytes = bytes.len;
        kv_run(io->kv, &op, 1, deadline_of(io));
        result = result_of(op.result);
        *existed = op.existed;
    }
    buf_fini(&bytes);
    return result;
}

static void delete_parts(const struct shared_io *io, const struct shared_head *head)
{
    struct kv_op *ops = mem_alloc_array(DELETES_AT_ONCE, sizeof(*ops));

    for (uint32_t first = 0; first < head->parts; first += DELETES_AT_ONCE) {
        uint32_t count = MIN(head->parts - first, DELETES_AT_ONCE);
        for (uint32_t i = 0; i < count; i++) {
            ops[i] = (struct kv_op){.verb = KV_DELETE};
            name_part(io, head, first + i, &ops[i]);
        }
        kv_run(io->kv, ops, count, deadline_of(io));
    }
    mem_free(ops);
}

static bool is_same_write(const struct shared_head *a, const struct shared_head *b)
{
    return memcmp(a->id, b->id, sizeof(a->id)) == 0;
}

/* Replaces `head` by the one that is there. It may be the same: a reply was lost, and the write was
 * repeated. */
static enum tier_result take_existing(const struct shared_io *io, struct shared_head *head,
                                      bool *existed)
{
    struct shared_head there;
    enum tier_result result = shared_read_head(io, &head->meta.key, deadline_of(io), &there);

    *existed = result != TIER_OK || !is_same_write(&there, head);
    if (result == TIER_OK && *existed) /* these parts have no head, and S3 has no time to live */
        delete_parts(io, head);
    shared_head_fini(head);
    if (result == TIER_OK)
        *head = there;
    return result;
}

enum tier_result shared_write(const struct shared_io *io, const struct tier_meta *meta,
                              const void *data, shared_step_fn step, void *arg, bool *existed,
                              struct shared_head *head)
{
    struct kv_op op = head_op(io, &meta->key, KV_EXISTS);

    kv_run(io->kv, &op, 1, deadline_of(io));
    *existed = op.result == KV_OK;
    if (op.result == KV_OK)
        return shared_read_head(io, &meta->key, deadline_of(io), head);
    if (op.result != KV_MISSING)
        return result_of(op.result);
    shared_head_init(head, meta, io->part_bytes);
    head->seen_ns = clock_mono_ns(clock_real());
    enum tier_result result = write_parts(io, head, data, step, arg);
    if (result == TIER_OK)
        result = write_head(io, head, existed);
    if (*existed)
        result = take_existing(io, head, existed);
    else if (result != TIER_OK)
        shared_head_fini(head);
    return result;
}

bool shared_erase(const struct shared_io *io, const struct hash256 *key,
                  const struct shared_head *only)
{
    struct kv_op op = head_op(io, key, KV_DELETE);
    struct shared_head head;
    bool known = shared_read_head(io, key, deadline_of(io), &head) == TIER_OK;
    bool other = only != NULL && (!known || !is_same_write(&head, only));

    op.result = KV_MISSING;
    if (!other)
        kv_run(io->kv, &op, 1, deadline_of(io));
    if (known && !other)
        delete_parts(io, &head);
    if (known)
        shared_head_fini(&head);
    return op.result == KV_OK || op.result == KV_MISSING;
}

/* ---- notes ---- */

enum tier_result shared_write_note(const struct shared_io *io, const struct hash256 *key,
                                   const void *data, size_t len)
{
    struct kv_op op = {.verb = KV_PUT};
    struct buf bytes;

    buf_init(&bytes, HEAD_BYTES_MAX);
    shared_note_encode(&io->format, key, data, len, &bytes);
    shared_note_name(&io->format, kv_prefix(io->kv), key, op.name, sizeof(op.name));
    op.data = bytes.data;
    op.bytes = bytes.len;
    op.result = KV_ERROR;
    if (bytes.err == ERR_OK)
        kv_run(io->kv, &op, 1, deadline_of(io));
    buf_fini(&bytes);
    return result_of(op.result);
}

enum tier_result shared_read_note(const struct shared_io *io, const struct hash256 *key,
                                  uint64_t deadline_ns, struct buf *out)
{
    struct kv_op op = {.verb = KV_GET, .capacity = NOTE_BYTES_MAX};

    op.dst = mem_alloc(NOTE_BYTES_MAX);
    shared_note_name(&io->format, kv_prefix(io->kv), key, op.name, sizeof(op.name));
    kv_run(io->kv, &op, 1, deadline_ns);
    enum tier_result result = result_of(op.result);
    if (result == TIER_OK && !shared_note_decode(&io->format, key, op.dst, op.got, out))
        result = TIER_DAMAGED;
    mem_free(op.dst);
    return result;
}

/* ---- pages ---- */

bool shared_read_pages(const struct shared_io *io, const struct hash256 *space,
                       const struct hash256 *places, bool *ask, size_t count, uint64_t deadline_ns,
                       struct tier_page *pages, uint64_t *damaged)
{
    struct kv_op *ops = mem_alloc_array(count + 1, sizeof(*ops));
    char *room = mem_alloc_array(count + 1, SHARED_PAGE_BYTES_MAX);
    size_t asked = 0, answered = 0;

    for (size_t i = 0; i < count; i++) {
        pages[i].count = 0;
        if (!ask[i])
            continue;
        ops[asked] = (struct kv_op){.verb = KV_GET,
                                    .dst = room + asked * SHARED_PAGE_BYTES_MAX,
                                    .capacity = SHARED_PAGE_BYTES_MAX};
        shared_page_name(&io->format, kv_prefix(io->kv), space, &places[i], ops[asked].name,
                         sizeof(ops[asked].name));
        asked++;
    }
    kv_run(io->kv, ops, asked, deadline_ns);
    for (size_t i = 0, k = 0; i < count; i++) {
        if (!ask[i])
            continue;
        const struct kv_op *op = &ops[k++];
        bool large = op->result == KV_ERROR && op->got > SHARED_PAGE_BYTES_MAX;
        ask[i] = op->result == KV_OK || op->result == KV_MISSING || large;
        answered += ask[i];
        *damaged +=
            large || (op->result == KV_OK && !shared_page_decode(&io->format, space, &places[i],
                                                                 op->dst, op->got, &pages[i]));
    }
    mem_free(room);
    mem_free(ops);
    return asked == 0 || answered > 0;
}

static void write_pages(const struct shared_io *io, const struct hash256 *space,
                        const struct hash256 *places, const bool *chosen, size_t count,
                        const struct tier_page *pages)
{
    struct kv_op *ops = mem_alloc_array(count, sizeof(*ops));
    struct buf *bytes = mem_alloc_array(count, sizeof(*bytes));
    size_t written = 0;

    for (size_t i = 0; i < count; i++) {
        if (!chosen[i])
            continue;
        struct kv_op *op = &ops[written];
        struct buf *page = &bytes[written++];
        buf_init(page, SHARED_PAGE_BYTES_MAX);
        shared_page_encode(&io->format, space, &places[i], &pages[i], page);
        *op = (struct kv_op){.verb = KV_PUT, .data = page->data, .bytes = page->len};
        shared_page_name(&io->format, kv_prefix(io->kv), space, &places[i], op->name,
                         sizeof(op->name));
    }
    kv_run(io->kv, ops, written, deadline_of(io));
    while (written > 0)
        buf_fini(&bytes[--written]);
    mem_free(bytes);
    mem_free(ops);
}

/* Adds the object to the pages of places [first, first + count). A page that could not be read is
 * not written: what other machines have put on it would be lost. */
static void publish_some(const struct shared_io *io, const struct tier_meta *meta, size_t first,
                         size_t count)
{
    struct tier_page *pages = mem_alloc_array(count, sizeof(*pages));
    const struct hash256 *places = meta->places + first;
    bool ask[PAGES_AT_ONCE];
    uint64_t damaged = 0; /* they are replaced */

    for (size_t i = 0; i < count; i++)
        ask[i] = true;
    (void)shared_read_pages(io, &meta->space, places, ask, count, deadline_of(io), pages, &damaged);
    for (size_t i = 0; i < count; i++) {
        struct tier_entry entry = {
            .key = meta->key, .kind = meta->kind, .begin = meta->begin, .end = meta->end};
        if (first + i + 1 < meta->places_count)
            entry.child = places[i + 1];
        shared_page_add(&pages[i], &entry);
    }
    write_pages(io, &meta->space, places, ask, count, pages);
    mem_free(pages);
}

void shared_publish(const struct shared_io *io, const struct tier_meta *meta)
{
    /* The last key is that of the last whole block: it has a page only as a parent. */
    size_t count = meta->places_count > 1 ? meta->places_count - 1 : meta->places_count;

    for (size_t first = 0; first < count; first += PAGES_AT_ONCE)
        publish_some(io, meta, first, MIN(count - first, PAGES_AT_ONCE));
}
