/*
 * reply.c: answers, between the threads that write them and the loop that sends them.
 *
 *      WAITING --begin--> STREAMING --end--> ENDED         state, as the writers see it
 *       ^ |  '--------------send-------------^  |
 *       | '--abort, last release--> ABORTED     '--nothing more
 *       '---take_back, from STREAMING while it is held
 *
 *      attached   a connection sends for it; until http_reply_detach, on the loop thread
 *      gone       the connection ended before the answer did
 *
 * R1  A reply is freed when it is not attached, has no handle, and is not in the mailbox's list.
 * R2  on_close is called at most once, on the loop thread, without the lock, and only if the answer
 *     had not ended while the lock was held. drop follows it, or is called alone once on_close can
 *     never be called.
 * R3  waiting = bytes in `chunks` + bytes collected and not yet written.
 */
#include "http/reply_impl.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "http/head.h"

enum { ORIGIN_BYTES_MAX = 512 };

enum reply_state { REPLY_WAITING, REPLY_STREAMING, REPLY_ENDED, REPLY_ABORTED };

struct http_mailbox {
    const struct clock *clock;
    struct lock lock;
    unsigned refs GUARDED_BY(lock);
    bool draining GUARDED_BY(lock);
    struct list pending GUARDED_BY(lock);     /* of http_reply.node */
    void (*wake)(void *arg) GUARDED_BY(lock); /* NULL: closed */
    void *wake_arg GUARDED_BY(lock);
};

struct close_call {
    http_close_fn fn, drop;
    void *arg;
};

struct http_reply {
    struct http_mailbox *mailbox;
    struct http_reply_options options; /* owner: the loop's; the rest is constant */
    char origin[ORIGIN_BYTES_MAX];

    /* All GUARDED_BY(mailbox->lock). */
    unsigned handles;
    bool attached, gone;
    bool keep_alive; /* as in the head that was sent */
    enum reply_state state;
    struct list chunks;
    /* allocated with the head of a chunked stream, so that ending it cannot fail */
    struct http_chunk *last;
    size_t waiting; /* R3 */
    struct list_node node;
    struct close_call on_close; /* fn == NULL: none, or already called */
    uint64_t keepalive_ns;
    struct buf keepalive_text;
    bool held; /* what is written stays in `chunks` */
    uint64_t hold_ns;
};

/* ---- the mailbox ---- */

struct http_mailbox *http_mailbox_create(const struct clock *clock, void (*wake)(void *arg),
                                         void *arg)
{
    struct http_mailbox *mailbox = mem_alloc(sizeof(*mailbox));

    mailbox->clock = clock;
    mailbox->refs = 1;
    mailbox->wake = wake;
    mailbox->wake_arg = arg;
    list_init(&mailbox->pending);
    lock_init(&mailbox->lock, "http replies", LOCK_RANK_QUEUE);
    return mailbox;
}

/* Leaves the lock and drops one reference. */
static void leave_and_unref(struct http_mailbox *mailbox) REQUIRES(mailbox->lock)
{
    assert(mailbox->refs > 0);
    bool last = --mailbox->refs == 0;
    lock_leave(&mailbox->lock);
    if (!last)
        return;
    assert(list_empty(&mailbox->pending));
    lock_fini(&mailbox->lock);
    mem_free(mailbox);
}

void http_mailbox_release(struct http_mailbox **mailbox)
{
    if (*mailbox == NULL)
        return;
    lock_enter(&(*mailbox)->lock);
    leave_and_unref(*mailbox);
    *mailbox = NULL;
}

void http_mailbox_drain(struct http_mailbox *mailbox)
{
    lock_enter(&mailbox->lock);
    mailbox->draining = true;
    lock_leave(&mailbox->lock);
}

static void post_locked(struct http_reply *reply) REQUIRES(reply->mailbox->lock)
{
    struct http_mailbox *mailbox = reply->mailbox;

    lock_assert_held(&mailbox->lock);
    if (mailbox->wake == NULL || list_node_linked(&reply->node))
        return;
    bool first = list_empty(&mailbox->pending);
    list_push_back(&mailbox->pending, &reply->node);
    if (first)
        mailbox->wake(mailbox->wake_arg);
}

/* ---- the end of a reply ---- */

static void destroy(struct http_reply *reply)
{
    if (reply->on_close.drop != NULL)
        reply->on_close.drop(reply->on_close.arg);
    http_chunk_free_all(&reply->chunks);
    mem_free(reply->last);
    buf_fini(&reply->keepalive_text);
    mem_free(reply);
}

/* Leaves the lock; frees the reply if it is due (R1). */
static void leave_and_reap(struct http_reply *reply) REQUIRES(reply->mailbox->lock)
{
    struct http_mailbox *mailbox = reply->mailbox;

    lock_assert_held(&mailbox->lock);
    if (reply->attached || reply->handles > 0 || list_node_linked(&reply->node)) {
        lock_leave(&mailbox->lock);
        return;
    }
    leave_and_unref(mailbox);
    destroy(reply);
}

/* The callbacks for a client that is gone, taken so that no other thread calls them (R2). */
static struct close_call take_close_locked(struct http_reply *reply) REQUIRES(reply->mailbox->lock)
{
    struct close_call call = reply->on_close;

    lock_assert_held(&reply->mailbox->lock);
    if (!reply->gone || call.fn == NULL)
        return (struct close_call){0};
    reply->on_close = (struct close_call){0};
    return call;
}

static void run_close(struct close_call call)
{
    if (call.fn != NULL)
        call.fn(call.arg);
    if (call.drop != NULL)
        call.drop(call.arg);
}

/* ---- the loop's side ---- */

/* A longer origin is in no list of allowed origins. */
static struct str copy_origin(char to[ORIGIN_BYTES_MAX], struct str origin)
{
    if (origin.len == 0 || origin.len > ORIGIN_BYTES_MAX)
        return STR_NONE;
    memcpy(to, origin.ptr, origin.len);
    return (struct str){to, origin.len};
}

struct http_reply *http_reply_create(struct http_mailbox *mailbox,
                                     const struct http_reply_options *options)
{
    struct http_reply *reply = mem_alloc(sizeof(*reply));

    reply->mailbox = mailbox;
    reply->options = *options;
    reply->options.cors_origin = copy_origin(reply->origin, options->cors_origin);
    reply->handles = 1;
    reply->attached = true;
    list_init(&reply->chunks);
    buf_init(&reply->keepalive_text, HTTP_KEEPALIVE_BYTES_MAX);
    lock_enter(&mailbox->lock);
    mailbox->refs++;
    lock_leave(&mailbox->lock);
    return reply;
}

/* An update of a reply whose client is gone: only a late on_close can be due. */
static void close_detached(struct http_reply *reply)
{
    struct http_mailbox *mailbox = reply->mailbox;

    lock_enter(&mailbox->lock);
    struct close_call call = take_close_locked(reply);
    lock_leave(&mailbox->lock);
    run_close(call);
    lock_enter(&mailbox->lock);
    reply->handles--; /* taken by http_mailbox_next */
    leave_and_reap(reply);
}

void *http_mailbox_next(struct http_mailbox *mailbox)
{
    for (;;) {
        lock_enter(&mailbox->lock);
        struct list_node *node = list_pop_front(&mailbox->pending);
        struct http_reply *reply = LIST_ENTRY(node, struct http_reply, node);
        bool attached = reply != NULL && reply->attached;
        if (reply != NULL && !attached)
            reply->handles++; /* so that no other thread frees it meanwhile */
        lock_leave(&mailbox->lock);
        if (reply == NULL)
            return NULL;
        if (attached)
            return reply->options.owner; /* only this thread detaches */
        close_detached(reply);
    }
}

void http_mailbox_close(struct http_mailbox *mailbox)
{
    void *owner;

    lock_enter(&mailbox->lock);
    mailbox->wake = NULL; /* from here on nothing is added to the list */
    lock_leave(&mailbox->lock);
    owner = http_mailbox_next(mailbox);
    assert(owner == NULL);
    (void)owner;
}

static void move_all(struct list *from, struct list *to)
{
    struct list_node *node;

    while ((node = list_pop_front(from)) != NULL)
        list_push_back(to, node);
}

void http_reply_collect(struct http_reply *reply, struct list *chunks, struct reply_update *update)
{
    lock_enter(&reply->mailbox->lock);
    bool held = reply->held && reply->state == REPLY_STREAMING;
    if (!held)
        move_all(&reply->chunks, chunks);
    *update = (struct reply_update){
        .ended = reply->state == REPLY_ENDED,
        .aborted = reply->state == REPLY_ABORTED ||
                   (reply->handles == 0 && reply->state == REPLY_STREAMING),
        .abandoned = reply->handles == 0 && reply->state == REPLY_WAITING,
        .keep_alive = reply->keep_alive,
        .to_close = reply->options.version_minor == 0,
        .keepalive_ns = reply->state != REPLY_STREAMING ? 0
                        : held                          ? reply->hold_ns
                                                        : reply->keepalive_ns,
    };
    lock_leave(&reply->mailbox->lock);
}

void http_reply_written(struct http_reply *reply, size_t bytes)
{
    lock_enter(&reply->mailbox->lock);
    assert(bytes <= reply->waiting);
    reply->waiting -= bytes;
    lock_leave(&reply->mailbox->lock);
}

bool http_reply_detach(struct http_reply *reply)
{
    struct http_mailbox *mailbox = reply->mailbox;

    lock_enter(&mailbox->lock);
    bool early = reply->state == REPLY_WAITING || reply->state == REPLY_STREAMING;
    reply->gone = early;
    struct close_call call = take_close_locked(reply);
    lock_leave(&mailbox->lock);
    run_close(call);
    lock_enter(&mailbox->lock);
    reply->attached = false;
    leave_and_reap(reply);
    return early;
}

/* ---- the writers' side ---- */

struct http_reply *http_reply_acquire(struct http_reply *reply)
{
    lock_enter(&reply->mailbox->lock);
    reply->handles++;
    lock_leave(&reply->mailbox->lock);
    return reply;
}

void http_reply_release(struct http_reply **reply)
{
    struct http_reply *old = *reply;

    *reply = NULL;
    if (old == NULL)
        return;
    lock_enter(&old->mailbox->lock);
    assert(old->handles > 0);
    if (--old->handles == 0 && old->attached)
        post_locked(old);
    leave_and_reap(old);
}

static bool is_open_locked(const struct http_reply *reply, enum reply_state state)
{
    lock_assert_held(&reply->mailbox->lock);
    return reply->attached && !reply->gone && reply->state == state;
}

static void link_locked(struct http_reply *reply, struct http_chunk *chunk)
{
    lock_assert_held(&reply->mailbox->lock);
    reply->waiting += chunk->len;
    list_push_back(&reply->chunks, &chunk->node);
}

/* Links `chunk` and wakes the loop, or frees it. `to` is the state afterwards. */
static enum http_result push(struct http_reply *reply, struct http_chunk *chunk,
                             enum reply_state from, enum reply_state to)
{
    bool stream = to == REPLY_STREAMING;
    enum http_result result = HTTP_OK;

    lock_enter(&reply->mailbox->lock);
    if (!is_open_locked(reply, from))
        result = HTTP_GONE;
    else if (chunk == NULL ||
             (stream && reply->waiting + chunk->len > reply->options.stream_bytes_max))
        result = HTTP_FULL;
    if (result == HTTP_OK) {
        reply->state = to;
        link_locked(reply, chunk);
        post_locked(reply);
    }
    lock_leave(&reply->mailbox->lock);
    if (result != HTTP_OK)
        mem_free(chunk);
    return result;
}

static bool keeps_alive(struct http_reply *reply, enum http_length length)
{
    lock_enter(&reply->mailbox->lock);
    reply->keep_alive =
        reply->options.keep_alive && length != HTTP_LENGTH_TO_CLOSE && !reply->mailbox->draining;
    bool keep_alive = reply->keep_alive;
    lock_leave(&reply->mailbox->lock);
    return keep_alive;
}

/* The head followed by `body`; NULL when out of memory. */
static struct http_chunk *make_head(struct http_reply *reply, const struct http_head *head,
                                    enum http_length length, struct str body)
{
    struct http_frame frame = {
        .length = length,
        .bytes = body.len,
        .keep_alive = keeps_alive(reply, length),
        .old_client = reply->options.version_minor == 0,
        .cors_origin = reply->options.cors_origin,
        .cors_checked = reply->options.cors_checked,
        .wall_ns = clock_wall_ns(reply->mailbox->clock),
    };

    if (reply->options.method == HTTP_METHOD_HEAD || http_status_bodiless(head->status))
        body = STR_NONE;
    return http_head_chunk(head, &frame, body);
}

enum http_result http_reply_send(struct http_reply *reply, const struct http_head *head,
                                 struct str body)
{
    if (body.len > reply->options.answer_bytes_max)
        return HTTP_FULL;
    return push(reply, make_head(reply, head, HTTP_LENGTH_KNOWN, body), REPLY_WAITING, REPLY_ENDED);
}

static bool is_chunked(const struct http_reply *reply)
{
    return reply->options.version_minor > 0;
}

static bool prepare_last(struct http_reply *reply)
{
    if (!is_chunked(reply) || reply->options.method == HTTP_METHOD_HEAD)
        return true;
    struct http_chunk *chunk = http_chunk_create(STR("0\r\n\r\n"), STR_NONE, STR_NONE);
    if (chunk == NULL)
        return false;
    lock_enter(&reply->mailbox->lock);
    if (reply->last == NULL) {
        reply->last = chunk;
        chunk = NULL;
    }
    lock_leave(&reply->mailbox->lock);
    mem_free(chunk);
    return true;
}

enum http_result http_reply_begin(struct http_reply *reply, const struct http_head *head)
{
    enum http_length length = is_chunked(reply) ? HTTP_LENGTH_CHUNKED : HTTP_LENGTH_TO_CLOSE;

    assert(!http_status_bodiless(head->status));
    if (!prepare_last(reply))
        return HTTP_FULL;
    return push(reply, make_head(reply, head, length, STR_NONE), REPLY_WAITING, REPLY_STREAMING);
}

/* ---- held streams ---- */

void http_reply_hold(struct http_reply *reply, uint64_t ms)
{
    lock_enter(&reply->mailbox->lock);
    if (ms > 0 && is_open_locked(reply, REPLY_WAITING)) {
        reply->held = true;
        reply->hold_ns = ms * NS_PER_MS;
    }
    lock_leave(&reply->mailbox->lock);
}

static void let_go_locked(struct http_reply *reply) REQUIRES(reply->mailbox->lock)
{
    lock_assert_held(&reply->mailbox->lock);
    if (reply->held)
        post_locked(reply);
    reply->held = false;
}

void http_reply_let_go(struct http_reply *reply)
{
    lock_enter(&reply->mailbox->lock);
    let_go_locked(reply);
    lock_leave(&reply->mailbox->lock);
}

bool http_reply_take_back(struct http_reply *reply)
{
    lock_enter(&reply->mailbox->lock);
    bool held = reply->held && reply->state == REPLY_STREAMING;
    if (held) {
        reply->waiting = 0; /* R3: nothing was collected */
        http_chunk_free_all(&reply->chunks);
        reply->state = REPLY_WAITING;
        reply->held = false;
    }
    lock_leave(&reply->mailbox->lock);
    return held;
}

static enum http_result is_alive(struct http_reply *reply)
{
    lock_enter(&reply->mailbox->lock);
    bool alive = is_open_locked(reply, REPLY_STREAMING);
    lock_leave(&reply->mailbox->lock);
    return alive ? HTTP_OK : HTTP_GONE;
}

enum http_result http_reply_write(struct http_reply *reply, struct str data)
{
    if (data.len == 0 || reply->options.method == HTTP_METHOD_HEAD)
        return is_alive(reply);
    if (data.len > reply->options.stream_bytes_max)
        return HTTP_FULL;
    return push(reply, http_chunk_frame(data, is_chunked(reply)), REPLY_STREAMING, REPLY_STREAMING);
}

size_t http_reply_waiting(struct http_reply *reply)
{
    lock_enter(&reply->mailbox->lock);
    size_t waiting = reply->waiting;
    lock_leave(&reply->mailbox->lock);
    return waiting;
}

enum http_result http_reply_end(struct http_reply *reply)
{
    lock_enter(&reply->mailbox->lock);
    bool alive = is_open_locked(reply, REPLY_STREAMING);
    if (alive) {
        reply->state = REPLY_ENDED;
        if (reply->last != NULL)
            link_locked(reply, reply->last);
        reply->last = NULL;
        post_locked(reply);
    }
    lock_leave(&reply->mailbox->lock);
    return alive ? HTTP_OK : HTTP_GONE;
}

void http_reply_abort(struct http_reply *reply)
{
    lock_enter(&reply->mailbox->lock);
    if (reply->state != REPLY_ENDED) {
        reply->state = REPLY_ABORTED;
        post_locked(reply);
    }
    lock_leave(&reply->mailbox->lock);
}

void http_reply_on_close(struct http_reply *reply, http_close_fn fn, http_close_fn drop, void *arg)
{
    struct close_call call = {0};

    assert(fn != NULL);
    lock_enter(&reply->mailbox->lock);
    assert(reply->on_close.fn == NULL);
    reply->on_close = (struct close_call){fn, drop, arg};
    if (reply->gone && reply->mailbox->wake == NULL)
        call = take_close_locked(reply);
    else if (reply->gone)
        post_locked(reply);
    lock_leave(&reply->mailbox->lock);
    run_close(call);
}

void http_reply_keepalive(struct http_reply *reply, uint64_t interval_ms, struct str text)
{
    assert(text.len <= HTTP_KEEPALIVE_BYTES_MAX);
    lock_enter(&reply->mailbox->lock);
    buf_clear(&reply->keepalive_text);
    bool kept = buf_append(&reply->keepalive_text, text.ptr, text.len) == ERR_OK;
    reply->keepalive_ns = kept && text.len > 0 ? interval_ms * NS_PER_MS : 0;
    post_locked(reply);
    lock_leave(&reply->mailbox->lock);
}

/* The chunk is made under the lock: a text that is replaced meanwhile must not be sent after the
 * events that replaced it. */
void http_reply_send_keepalive(struct http_reply *reply)
{
    struct http_chunk *chunk = NULL;

    lock_enter(&reply->mailbox->lock);
    if (reply->held)
        let_go_locked(reply);
    else if (reply->keepalive_ns > 0 && reply->waiting == 0 &&
             is_open_locked(reply, REPLY_STREAMING) && reply->options.method != HTTP_METHOD_HEAD)
        chunk = http_chunk_frame(buf_text(&reply->keepalive_text), is_chunked(reply));
    if (chunk != NULL) {
        link_locked(reply, chunk);
        post_locked(reply);
    }
    lock_leave(&reply->mailbox->lock);
}
