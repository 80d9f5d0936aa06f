/*
 * feed.c: see the header.
 *
 *      reader      used by the list, until it disconnects or the feed ends, and by a pump. Its
 *                  references are one for all users together and one for on_close, until http drops
 *                  that. The last user releases the reply: a reply that has ended drops on_close
 *                  only when it is no longer held
 */
#include "admin/feed.h"

#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/json_write.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"

enum { PIECE_BYTES_MAX = 64 * 1024 }; /* written by one pump to one reader */

struct event {
    enum feed_kind kind;
    size_t len;
    char *json; /* owned; NULL: out of memory */
};

struct reader {
    struct list_node link;
    struct http_reply *reply;
    uint64_t next;    /* owned by the pump: number of the next event */
    atomic_bool gone; /* relaxed: a flag that is only ever set */
    atomic_int users, references;
};

struct feed {
    struct lock lock;
    struct event ring[FEED_EVENTS] GUARDED_BY(lock); /* event n is at n % FEED_EVENTS */
    uint64_t count GUARDED_BY(lock);                 /* so far; numbers start with 1 */
    struct list readers GUARDED_BY(lock);
    bool ended GUARDED_BY(lock);
};

/* Of the events; in the order of enum feed_kind. */
static const char *const kind_names[] = {"cache", "request", "model", "memory", "log", "lost"};

/* ---- life ---- */

struct feed *feed_create(void)
{
    struct feed *feed = mem_alloc(sizeof(*feed));

    lock_init(&feed->lock, "feed", LOCK_RANK_MONITOR);
    list_init(&feed->readers);
    return feed;
}

static void release(struct reader *reader)
{
    if (atomic_fetch_sub_explicit(&reader->references, 1, memory_order_acq_rel) == 1)
        mem_free(reader);
}

static void leave(struct reader *reader)
{
    if (atomic_fetch_sub_explicit(&reader->users, 1, memory_order_acq_rel) > 1)
        return;
    http_reply_release(&reader->reply);
    release(reader);
}

void feed_destroy(struct feed **out)
{
    struct feed *feed = *out;

    if (!feed)
        return;
    feed_end(feed);
    for (size_t i = 0; i < FEED_EVENTS; i++)
        mem_free(feed->ring[i].json);
    lock_fini(&feed->lock);
    mem_free(feed);
    *out = NULL;
}

/* ---- publishing ---- */

void feed_publish(struct feed *feed, enum feed_kind kind, struct str json)
{
    struct event event = {.kind = kind, .len = json.len}, old;

    if (json.len > FEED_EVENT_BYTES_MAX)
        return;
    event.json = mem_try_alloc(json.len + 1);
    if (event.json)
        memcpy(event.json, json.ptr, json.len);
    lock_enter(&feed->lock);
    feed->count++;
    old = feed->ring[feed->count % FEED_EVENTS];
    feed->ring[feed->count % FEED_EVENTS] = event;
    lock_leave(&feed->lock);
    mem_free(old.json);
}

/* ---- readers ---- */

static void on_close(void *arg)
{
    struct reader *reader = arg;

    atomic_store_explicit(&reader->gone, true, memory_order_relaxed);
}

static void on_drop(void *arg)
{
    release(arg);
}

bool feed_subscribe(struct feed *feed, struct http_reply *reply, uint64_t after)
{
    struct reader *reader = mem_alloc(sizeof(*reader));

    reader->reply = http_reply_acquire(reply);
    atomic_init(&reader->gone, false);
    atomic_init(&reader->users, 1);
    atomic_init(&reader->references, 2);
    lock_enter(&feed->lock);
    bool taken = !feed->ended && feed->readers.count < FEED_READERS_MAX;
    /* `after` may come from another run and be too large: then start with new events */
    reader->next = MIN(after, feed->count) + 1;
    if (taken)
        list_push_back(&feed->readers, &reader->link);
    else
        atomic_store_explicit(&reader->references, 1, memory_order_relaxed);
    lock_leave(&feed->lock);
    if (taken)
        http_reply_on_close(reply, on_close, on_drop, reader);
    else
        leave(reader);
    return taken;
}

size_t feed_readers(struct feed *feed)
{
    size_t count;

    lock_enter(&feed->lock);
    count = feed->readers.count;
    lock_leave(&feed->lock);
    return count;
}

/* ---- the pump ---- */

static void append(struct buf *out, uint64_t number, const struct event *event)
{
    buf_appendf(out, "id: %llu\n", (unsigned long long)number);
    struct json json = sse_open(out, kind_names[event->kind]);
    json_raw(&json, (struct str){event->json, event->len});
    sse_close(&json);
}

static void append_lost(struct buf *out, uint64_t lost)
{
    struct json json = sse_open(out, kind_names[FEED_LOST]);

    json_open(&json, '{');
    json_key_uint(&json, "lost", lost);
    json_close(&json, '}');
    sse_close(&json);
}

/* Copies the next events for a reader; returns the number after them. */
static uint64_t collect(struct feed *feed, const struct reader *reader, struct buf *out)
{
    uint64_t next = reader->next, oldest, lost = 0;

    lock_enter(&feed->lock);
    oldest = feed->count > FEED_EVENTS ? feed->count - FEED_EVENTS + 1 : 1;
    if (next < oldest) {
        lost = oldest - next;
        next = oldest;
    }
    if (lost > 0)
        append_lost(out, lost);
    while (next <= feed->count && out->len < PIECE_BYTES_MAX) {
        const struct event *event = &feed->ring[next % FEED_EVENTS];

        if (event->json)
            append(out, next, event);
        next++;
    }
    lock_leave(&feed->lock);
    return next;
}

/* A full stream gets the same events again later: none were accepted. */
static void serve(struct feed *feed, struct reader *reader)
{
    struct buf out;

    if (http_reply_waiting(reader->reply) > FEED_WAITING_BYTES_MAX)
        return;
    buf_init(&out, PIECE_BYTES_MAX + 2 * FEED_EVENT_BYTES_MAX);
    uint64_t next = collect(feed, reader, &out);
    if (out.err == ERR_OK && out.len > 0) {
        enum http_result result = http_reply_write(reader->reply, buf_text(&out));

        if (result == HTTP_OK)
            reader->next = next;
        else if (result == HTTP_GONE)
            atomic_store_explicit(&reader->gone, true, memory_order_relaxed);
    }
    buf_fini(&out);
}

/* Removes disconnected readers (all: every reader) from the list and puts the rest into `readers`;
 * each gets one more user. */
static size_t take_readers(struct feed *feed, struct reader *readers[FEED_READERS_MAX], bool all)
{
    size_t count = 0;

    lock_enter(&feed->lock);
    feed->ended |= all;
    LIST_FOREACH_SAFE (struct reader, reader, &feed->readers, link) {
        readers[count++] = reader;
        if (all || atomic_load_explicit(&reader->gone, memory_order_relaxed))
            list_remove(&feed->readers, &reader->link); /* takes over the list's use */
        else
            atomic_fetch_add_explicit(&reader->users, 1, memory_order_relaxed);
    }
    lock_leave(&feed->lock);
    return count;
}

void feed_pump(struct feed *feed)
{
    struct reader *readers[FEED_READERS_MAX];
    size_t count = take_readers(feed, readers, false);

    for (size_t i = 0; i < count; i++) {
        if (!atomic_load_explicit(&readers[i]->gone, memory_order_relaxed))
            serve(feed, readers[i]);
        leave(readers[i]);
    }
}

void feed_end(struct feed *feed)
{
    struct reader *readers[FEED_READERS_MAX];
    size_t count = take_readers(feed, readers, true);

    for (size_t i = 0; i < count; i++) {
        (void)http_reply_end(readers[i]->reply);
        leave(readers[i]);
    }
}
