/*
 * call.h: one request on its way through the threads.
 *
 *      loop thread      create, queue ------------------------------------------ on_close: cancel
 *      worker                        read, parse, get the model, prepare, submit n generations
 *      pool                                        (park until it is loaded, then back to the
 *                                                  queue)
 *      scheduler                                                  sinks: events, text --> client
 *      api-end                                                    ends of generations: remember,
 *                                                                 count, log; the last one ends
 *                                                                 the answer and releases the call
 *
 *      references   1 for the work (dropped by finish), 1 for on_close (dropped when http says that
 *                   it cannot come any more)
 *      pending      1 for the worker, 1 for each submitted generation; who brings it to 0 finishes
 *
 * The fields belong to one thread after the other: to the loop until the call is queued, to the
 * worker until the first generation is submitted; then `answer` and `out` to the scheduler's
 * thread. With its last generation, all of the call is handed to the thread that ends calls
 * (`pending` orders that). What several threads touch at a time is named below, with its lock.
 */
#ifndef HEARTH_SERVE_CALL_H
#define HEARTH_SERVE_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dialect/answer.h"
#include "serve/auth.h"
#include "chat/error.h"
#include "chat/gen_request.h"
#include "chat/prepare.h"
#include "serve/respond.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/lock.h"
#include "http/reply.h"
#include "http/request.h"
#include "models/pool.h"

struct api;
struct call;
struct endpoint;

/* One of the n answers of a call. */
struct call_choice {
    struct call *call;
    size_t index;
    struct gen gen;
    struct output *output;
    struct buf raw; /* what was generated, markup and all: for replay_remember */
    bool enough;    /* one call was asked for and is there; the next one has begun */
    bool reasons;   /* the last event was a thought's */
    bool calls_cut; /* a call was open when the text ended */

    /* Handed to the thread that ends calls. */
    struct list_node ended_link;
    struct gen_result result; /* its tokens are `tokens`, its texts are gone */
    token_id *tokens;         /* owned; NULL: the turn is not remembered */
    bool last;                /* no other generation of the call runs */
};

struct call {
    struct api *api;
    const struct endpoint *endpoint;
    struct http_reply *reply;
    struct buf body;
    struct buf query, capture; /* as they were sent; of endpoints that have some */
    char request_id[RESPOND_ID_BYTES];
    char who[AUTH_NAME_BYTES], tenant[AUTH_NAME_BYTES];
    bool large; /* its body is: it has a thread of its own with others of its kind */
    uint64_t arrived_ns, started_ns; /* monotonic: its first byte; its first choice */

    struct pool_wait wait; /* for the model */
    struct model *model;   /* counted, until the call is gone */
    struct gen_request request;
    struct prepared prepared;
    struct answer answer;
    struct call_choice *choices;
    size_t choices_count;
    uint64_t first_id; /* of its generations, which are numbered one after the other */
    size_t ended;      /* generations; of the scheduler's thread */
    struct buf out;    /* events that wait for the end of a sink */
    bool broken;       /* nothing more can be written: the client is gone, or the stream is */
    struct api_error refused;    /* the worker's: what it was refused for */
    enum api_error_kind outcome; /* for the log and the metrics */
    bool answered;

    struct lock lock;
    size_t submitted GUARDED_BY(lock);
    bool gone GUARDED_BY(lock);      /* the client is */
    bool cancelled GUARDED_BY(lock); /* it is to end: the client is gone, or the server wants it */
    bool begun GUARDED_BY(lock);     /* the head of the stream was sent */

    atomic_int references, pending;
    struct list_node link; /* of the api's list, under its lock */
};

/* On the loop thread; takes the request's body, and keeps the reply. It is in the api's list from
 * now on. */
struct call *call_create(struct api *api, const struct endpoint *endpoint,
                         struct http_request *request, struct http_reply *reply,
                         const struct auth_result *auth) NODISCARD;

/* On a worker: reads the body, gets the model, does the endpoint's work; again when a model that it
 * waited for is there. The call may be gone when it returns. */
void call_run(struct call *call);

/* The queue of the thread, or threads, that it runs on. */
struct queue *call_queue(const struct call *call);

/* Instead of the queue, which is full. The call is gone when it returns. */
void call_refuse(struct call *call);

/* Drops what is pending: the last one sends the end of the answer. */
void call_drop(struct call *call);

/* Ends its generations soon. Any thread that knows it to be alive. */
void call_cancel(struct call *call);

/* Answers with an error in the endpoint's dialect. */
void call_fail(struct call *call, const struct api_error *error);
void call_respond(struct call *call, const struct buf *body);

/* From the request to the prompt, as all endpoints with a prompt need it. False: `error` says what
 * is wrong. */
bool call_prepare(struct call *call, struct api_error *error) NODISCARD;

/* For whom its texts are tokenized: it ends when the client leaves, and is charged to the account
 * of the model's memory. */
struct tokens_caller call_caller(struct call *call);

/* The space of the call's tenant and salt; NULL: the cache is off, or it cannot be had. */
struct hearth_space *call_space(struct call *call);

bool call_is_gone(struct call *call); /* the client is */
/* The client left, or took too little for too long. For the end of a call. */
bool call_is_lost(struct call *call);
/* the generation of that id is one of its own */
bool call_has_gen(struct call *call, uint64_t gen);

/* Endpoints' work (struct endpoint). */
void call_generate(struct call *call);

/* ---- between call.c, call_model.c, call_sink.c and call_end.c ---- */

/* The model that the request means. READY: call->model. WAITING: the call is the pool's; it comes
 * back to a worker, or is ended there; the caller must not touch it any more. REFUSED: `error` says
 * why. */
enum pool_answer call_get_model(struct call *call, struct api_error *error) NODISCARD;

/* The answer, with what is known of it; the first call makes it. */
void call_make_answer(struct call *call);

/* Ends a stream that was begun, with an error or without (NULL). */
bool call_stream_begun(struct call *call);
void call_end_stream(struct call *call, const struct api_error *error);

/* Sends the head of a stream unless it was sent; before the first byte of it. Any thread. */
void call_begin_stream(struct call *call);

/* Writes what is in `out`: events of a stream. */
void call_flush(struct call *call);

/* The sink of a choice, for its gen. */
struct gen_sink call_sink(struct call_choice *choice);

/* Aborts unless the call is as it must be. By the thread that owns its fields; does nothing without
 * HEARTH_DEBUG. */
void call_check(struct call *call);

/* Sends the end of the answer, logs, counts; on the thread that dropped what was pending last. */
void call_end(struct call *call);

/* What is left to do for a generation that has ended, then call_drop. On the thread that ends
 * calls. */
void call_end_choice(struct call_choice *choice);

/* The thread that ends calls, so that no engine's thread remembers, records or logs. */
struct call_ends;
enum err call_ends_create(struct call_ends **ends, struct errinfo *info) NODISCARD;
void call_ends_destroy(struct call_ends **ends); /* when no call is left; NULL is a no-op */
/* Never fails and never waits: a link inside the choice is its place. */
void call_ends_push(struct call_ends *ends, struct call_choice *choice);

#endif
