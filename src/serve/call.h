/*
 * call.h: one request and its path through the threads.
 *
 *      loop thread   create, queue; on_close: cancel
 *      worker        read, parse, get the model, prepare, submit n generations
 *      pool          (parked until the model is loaded, then back to the queue)
 *      scheduler     sinks: events, text --> client
 *      api-end       ends of generations: remember, count, log; the last one ends the answer and
 *                    releases the call
 *
 *      references    1 for the work (dropped by finish), 1 for on_close (dropped when http will not
 *                    call it any more)
 *      pending       1 for the worker, 1 per submitted generation; the thread that brings it to 0
 *                    finishes the call
 *
 * The fields belong to one thread after the other: to the loop until the call is queued, to the
 * worker until the first generation is submitted; then `answer` and `out` belong to the scheduler's
 * thread. With its last generation, the whole call is passed to the thread that ends calls
 * (`pending` orders that). Fields shared by several threads are listed below with their lock.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dialect/answer.h"
#include "serve/auth.h"
#include "chat/error.h"
#include "chat/gen_request.h"
#include "chat/prepare.h"
#include "output/stop_text.h"
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
    struct stop_text stop;
    bool stop_at_next_call; /* one call was requested and is complete; a further one has begun */
    bool told_now;          /* this token had an event */
    bool thought_now;       /* one of them was reasoning */
    uint32_t unassigned;    /* tokens since the last event: of a thought if one follows */
    bool thought_closed;    /* its budget is used up */
    bool recallable;        /* `tokens` are those of a turn to remember */

    /* For the thread that ends calls. */
    struct list_node ended_link;
    struct gen_result result; /* its tokens are in `tokens`, its texts are gone */
    token_id *tokens;         /* owned; NULL: the turn does not need them */
    bool last;                /* no other generation of the call is running */
};

enum { CALL_AGENT_BYTES = 96 };

/* Of a call for vectors (call_embed.c). */
struct call_vectors {
    float *vectors;  /* of each generation, as the model made it; owned */
    size_t window;   /* generations at a time */
    bool submitting; /* a thread submits; this and the next one: under the call's lock */
    bool stop;       /* submit no more */
};

struct call {
    struct api *api;
    const struct endpoint *endpoint;
    struct http_reply *reply;
    struct buf body;
    struct buf query, capture; /* as sent; only for endpoints with such parameters */
    char request_id[RESPOND_ID_BYTES];
    char who[AUTH_NAME_BYTES], tenant[AUTH_NAME_BYTES];
    char agent[CALL_AGENT_BYTES]; /* the client's User-Agent, truncated */
    bool local;                   /* http_request_is_local */
    bool admin;                   /* the key may change the server */
    /* has a large body or large pictures: runs on a separate thread with others of its kind */
    bool large;
    struct list_node waiting;        /* in one of the api's queues */
    uint64_t arrived_ns, started_ns; /* monotonic: of the first byte; of the first choice */
    uint64_t store_wait_ns; /* what it may still wait to learn what a shared store has for it */
    enum hearth_reason search_failed; /* why it did not; NONE: it was asked, or need not be */

    struct pool_wait wait; /* for the model to load */
    struct model *model;   /* holds a reference until the call is freed */
    struct gen_request request;
    struct lora_set lora; /* its adapters, once it is prepared */
    struct prepared prepared;
    struct token_prompt *more; /* of further prompts; owned */
    struct answer answer;
    struct call_choice *choices;
    size_t choices_count;
    uint64_t first_id;           /* of its generations, which are numbered consecutively */
    size_t ended;                /* generations ended; owned by the scheduler's thread */
    struct gen_usage more_usage; /* of further prompts; likewise */
    struct call_vectors embed;
    struct buf out; /* events to write at the end of a sink call */
    /* nothing more can be written: the client disconnected, or the stream failed */
    bool broken;
    bool shown; /* the head of the stream is no longer held */
    /* the whole answer was written while the client was connected: it may close from then on */
    bool delivered;
    struct api_error refused;    /* the worker's reason for refusing the call */
    enum api_error_kind outcome; /* for the log and the metrics */
    bool answered;
    size_t charged; /* to the memory account, until the answer is written */

    struct lock lock;
    size_t submitted GUARDED_BY(lock);
    bool gone GUARDED_BY(lock); /* the client disconnected */
    /* must end: the client disconnected, or the server is ending */
    bool cancelled GUARDED_BY(lock);
    bool begun GUARDED_BY(lock); /* the head of the stream was sent */

    atomic_int references, pending;
    struct list_node link; /* in the api's list, under its lock */
};

/* On the loop thread; takes the request's body and keeps the reply. Adds the call to the api's
 * list. */
struct call *call_create(struct api *api, const struct endpoint *endpoint,
                         struct http_request *request, struct http_reply *reply,
                         const struct auth_result *auth) NODISCARD;

/* On a worker: reads the body, gets the model, does the endpoint's work. Called again when a model
 * has been loaded. The call may be freed on return. */
void call_run(struct call *call);

/* Puts the call into the queue of the thread or threads that run it, whose it is from then on. False:
 * the queue is full. */
bool call_enqueue(struct call *call) NODISCARD;

/* Refuses the call because the queue is full. The call is freed on return. */
void call_refuse(struct call *call);

/* Drops a pending reference: the last one sends the end of the answer. */
void call_drop(struct call *call);

/* Ends its generations soon. Any thread that knows the call to be alive. */
void call_cancel(struct call *call);

/* The error of a call that ends because the server does. */
void call_set_shutdown(struct api_error *error);
/* Makes it of the error that a cancelled call ended with, if it was the server that cancelled it:
 * "cancelled" says nothing to a client that is still there. */
void call_name_shutdown(struct call *call, struct api_error *error);

/* The value of a parameter of the query, in the request's arena; empty if it is absent. ERR_INVALID,
 * ERR_LIMIT: it cannot be decoded, or is too long. */
enum err call_query(struct call *call, const char *name, struct str *value,
                    struct api_error *error) NODISCARD;

/* Answers with an error in the endpoint's dialect. */
void call_fail(struct call *call, const struct api_error *error);

enum { CALL_BODY_BYTES_MAX = 256 * 1024 * 1024 }; /* of an endpoint's `answer` */

/* From the request to the prompt, for all endpoints with a prompt; and with what. */
enum err call_prepare(struct call *call, struct api_error *error) NODISCARD;

/* Why a prompt of `count` tokens was refused by a preflight (`err`, `info`). What can never fit is a
 * 413 that ends with `what` to do. */
enum err call_refuse_prompt(const struct call *call, const char *what, size_t count, enum err err,
                            const struct errinfo *info, struct api_error *error) NODISCARD;
struct prepare_tools call_tools(struct call *call);

/* The caller for tokenizing its texts: stops when the client disconnects, and is charged to the
 * model's memory account. */
struct tokens_caller call_caller(struct call *call);
/* Charges memory of an answer until the call is freed. Errors as memory_charge. */
enum err call_charge(struct call *call, size_t bytes, struct errinfo *info) NODISCARD;

/* The space of the call's tenant and salt; NULL: the cache is off or unavailable. */
struct hearth_space *call_space(struct call *call);

bool call_is_gone(struct call *call); /* the client disconnected */
/* The client disconnected before the end of its answer was written, or read too little for too
 * long. For the end of a call. */
bool call_is_lost(struct call *call);
/* the generation with that id belongs to this call */
bool call_has_gen(struct call *call, uint64_t gen);

/* Endpoints' work (struct endpoint). */
void call_generate(struct call *call);
/* For dialects whose `parse` fills request.embed: makes a vector of each input, and then `body` has
 * them in answer.vectors. */
void call_embed(struct call *call);

/* ---- between call.c, call_model.c, call_sink.c and call_end.c ---- */

/* Finds the model for the request. READY: call->model. WAITING: the call belongs to the pool and
 * returns to a worker or is ended there; the caller must not touch it any more. REFUSED: see
 * `error`. */
enum pool_answer call_get_model(struct call *call, struct api_error *error) NODISCARD;

/* Fills the answer with what is known; the first call creates it. */
void call_make_answer(struct call *call);

/* Submits a generation of the call, which has one more pending reference until its end. */
enum err call_submit(struct call *call, struct gen *gen, struct errinfo *info) NODISCARD;

/* Adds what another generation took. */
void call_add_usage(struct gen_usage *sum, const struct gen_usage *one);
void call_merge_times(struct gen_times *all, const struct gen_times *one);

/* Fills answer.vectors once all generations have ended well. */
void call_finish_vectors(struct call *call);

/* Sends the answer as one body. */
void call_end_whole(struct call *call);

/* Ends a stream that was begun, with an error or without (NULL). */
bool call_stream_begun(struct call *call);
void call_end_stream(struct call *call, const struct api_error *error);

/* Begins a stream unless it has begun; before its first byte. The head is held until
 * call_show_stream, or until the silence of a keep-alive (I80): a call that fails before gets the
 * status of its error. Any thread. */
void call_begin_stream(struct call *call);
/* The engine has begun to work on the call. For the sinks. */
void call_show_stream(struct call *call);

/* Writes the events in `out`. */
void call_flush(struct call *call);

/* The sink of a choice, for its gen. */
struct gen_sink call_sink(struct call_choice *choice);

/* Aborts unless the call is consistent. Called by the thread that owns its fields; does nothing
 * without HEARTH_DEBUG. */
void call_check(struct call *call);

/* Sends the end of the answer, logs, counts; on the thread that dropped the last pending
 * reference. */
void call_end(struct call *call);

/* Finishes a generation that has ended, then call_drop. On the thread that ends calls. */
void call_end_choice(struct call_choice *choice);

/* The thread that ends calls, so that no engine's thread remembers, records or logs. */
struct call_ends;
enum err call_ends_create(struct call_ends **ends, struct errinfo *info) NODISCARD;
void call_ends_destroy(struct call_ends **ends); /* when no call is left; NULL is a no-op */
/* Never fails and never waits: uses a link inside the choice. */
void call_ends_push(struct call_ends *ends, struct call_choice *choice);
