/* worker_link.c: see the header. */
#include "engine/worker_link.h"

#include <assert.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

/* A copy gives no sign of life until it ends. No memory that a model can use is slower than this. */
enum { COPY_BYTES_PER_MS = 64 << 10 };

void worker_link_init(struct worker_link *link)
{
    lock_init(&link->lock, "engine turns", LOCK_RANK_ENGINE);
    cond_init(&link->turned);
}

void worker_link_fini(struct worker_link *link)
{
    cond_fini(&link->turned);
    lock_fini(&link->lock);
    worker_process_stop(&link->process);
    worker_memory_free(link->staging, link->memory);
    mem_free(link->attached);
}

/* ---- turns ---- */

void worker_link_begin(struct worker_link *link)
{
    lock_enter(&link->lock);
    uint64_t own = link->turns++;
    while (link->turn != own)
        cond_wait(&link->turned, &link->lock);
    lock_leave(&link->lock);
}

void worker_link_end(struct worker_link *link)
{
    lock_enter(&link->lock);
    link->turn++;
    cond_broadcast(&link->turned);
    lock_leave(&link->lock);
}

/* ---- messages ---- */

static uint32_t silence_ms(const struct worker_link *link, const struct worker_call *call)
{
    uint64_t copied = call->op != WORKER_ATTACH ? call->place.bytes : 0;

    return (uint32_t)MIN((uint64_t)link->hang_ms + call->silent_ms + copied / COPY_BYTES_PER_MS,
                         INT32_MAX);
}

/* `fd` goes to the child as well, unless it is FILE_NO. */
static enum err send_call(struct worker_link *link, struct worker_call *call, int fd,
                          struct worker_reply *reply, struct errinfo *info)
{
    struct worker_wait wait = {.what = worker_op_name(call->op),
                               .silence_ms = silence_ms(link, call),
                               .on_sent = link->on_sent,
                               .sent_arg = link->arg};

    if (link->process == NULL)
        return err_set(info, ERR_ENGINE, "the process of model %s could not be restarted",
                       link->name);
    call->number = ++link->number;
    size_t len = worker_call_encode(call, link->message);
    assert(len > 0); /* all fields were set by this process */
    return worker_process_call(link->process, link->message, len, fd, call->number, &wait, reply,
                               info);
}

static uint64_t ask(struct worker_link *link, struct worker_call *call)
{
    struct worker_reply reply;

    if (send_call(link, call, FILE_NO, &reply, NULL) != ERR_OK || reply.err != ERR_OK)
        return 0;
    return reply.value;
}

/* ---- segments ---- */

static bool is_attached(const struct worker_link *link, uint64_t id)
{
    for (size_t i = 0; i < link->attached_count; i++)
        if (link->attached[i] == id)
            return true;
    return false;
}

bool worker_link_attach(struct worker_link *link, const struct worker_segment *segment, bool work)
{
    struct worker_call call = {.op = WORKER_ATTACH,
                               .seq = SEQ_NONE,
                               .other = SEQ_NONE,
                               .work = work,
                               .place = {segment->id, 0, segment->bytes}};
    struct worker_reply reply;

    if (!mem_try_reserve(&link->attached, link->attached_count + 1, &link->attached_cap,
                         sizeof(*link->attached)))
        return false;
    if (send_call(link, &call, segment->fd, &reply, NULL) != ERR_OK || reply.err != ERR_OK)
        return false;
    link->attached[link->attached_count++] = segment->id;
    return true;
}

void worker_link_attach_early(struct worker_link *link)
{
    struct worker_segment segment;
    bool attached = true;

    while (attached &&
           worker_memory_next(link->memory, link->early, WORKER_PIN_BYTES_MIN, &segment)) {
        attached = is_attached(link, segment.id) || worker_link_attach(link, &segment, false);
        if (attached)
            link->early = segment.id;
        file_close(file_sys_real(), &segment.fd);
    }
}

void worker_link_detach_freed(struct worker_link *link)
{
    uint64_t freed = worker_memory_freed(link->memory);
    size_t kept = 0;

    if (freed == link->freed)
        return;
    link->freed = freed;
    for (size_t i = 0; i < link->attached_count; i++) {
        uint64_t id = link->attached[i];
        if (worker_memory_has(link->memory, id))
            link->attached[kept++] = id;
        else
            ask(link,
                &(struct worker_call){
                    .op = WORKER_DETACH, .seq = SEQ_NONE, .other = SEQ_NONE, .place = {id, 0, 0}});
    }
    link->attached_count = kept;
}

/* Where the child finds `bytes` bytes at `ptr`; false when they are not in shared memory. */
static bool show(struct worker_link *link, const void *ptr, uint64_t bytes,
                 struct worker_place *place)
{
    struct worker_segment segment;

    worker_link_detach_freed(link);
    if (!worker_memory_find(link->memory, ptr, bytes, &segment) ||
        (!is_attached(link, segment.id) && !worker_link_attach(link, &segment, false)))
        return false;
    *place = (struct worker_place){segment.id, segment.offset, bytes};
    return true;
}

/* For memory that is not shared: the staging memory to copy through, or NULL. */
static void *stage(struct worker_link *link, uint64_t bytes, struct worker_place *place)
{
    if (bytes > link->staging_bytes_max)
        return NULL;
    if (bytes > link->staging_bytes) {
        worker_memory_free(link->staging, link->memory);
        link->staging = worker_memory_alloc(bytes, link->memory);
        link->staging_bytes = link->staging != NULL ? bytes : 0;
    }
    bool shown = link->staging != NULL && show(link, link->staging, bytes, place);
    return shown ? link->staging : NULL;
}

/* ---- calls ---- */

enum err worker_link_call(struct worker_link *link, struct worker_call *call, const void *memory,
                          uint64_t bytes, struct worker_reply *reply, struct errinfo *info)
{
    worker_link_begin(link);
    enum err err = memory == NULL || show(link, memory, bytes, &call->place)
                       ? send_call(link, call, FILE_NO, reply, info)
                       : err_set(info, ERR_ENGINE, "the process of the model died");
    worker_link_end(link);
    return err;
}

uint64_t worker_link_ask(struct worker_link *link, struct worker_call *call)
{
    worker_link_begin(link);
    uint64_t value = ask(link, call);
    worker_link_end(link);
    return value;
}

uint64_t worker_link_export(struct worker_link *link, struct worker_call *call, void *dst,
                            uint64_t capacity)
{
    uint64_t bytes = 0;

    worker_link_begin(link);
    bool shared = show(link, dst, capacity, &call->place);
    const void *staging = shared ? NULL : stage(link, capacity, &call->place);
    if (shared || staging != NULL)
        bytes = ask(link, call);
    if (bytes > capacity)
        bytes = 0;
    if (!shared && bytes > 0)
        memcpy(dst, staging, bytes);
    worker_link_end(link);
    return bytes;
}

uint64_t worker_link_import(struct worker_link *link, struct worker_call *call, const void *data,
                            uint64_t bytes)
{
    worker_link_begin(link);
    bool shared = show(link, data, bytes, &call->place);
    void *staging = shared ? NULL : stage(link, bytes, &call->place);
    if (staging != NULL)
        memcpy(staging, data, bytes);
    uint64_t value = shared || staging != NULL ? ask(link, call) : 0;
    worker_link_end(link);
    return value;
}
