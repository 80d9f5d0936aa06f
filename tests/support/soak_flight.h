/*
 * soak_flight.h: many requests at a time from one thread: each is sent, its bytes are collected
 * while it runs, and the answer is read when the server has closed.
 *
 *      soak_flight_send -> soak_flights_poll ... ended -> soak_flight_take -> struct soak_answer
 *                                 '-> soak_flight_leave: the client goes
 *
 * An answer that is wrong in itself (framing, an event missing, usage that does not add up, I99)
 * says so in `fault`; nothing here ends the test, since a soak counts.
 *
 * Threads: all functions belong to the test's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/serve_proc.h"
#include "support/soak_talk.h"

struct soak_flight {
    struct http_client client;
    bool open, ended;
    struct soak_ask ask;
    uint64_t sent_ns;
    /* Of a stream: when a token came last; until the first, and the longest pause after it. */
    uint64_t heard_ns, first_ns, pause_ns;
};

struct soak_answer {
    int status;      /* 0: the connection broke off before there was one */
    bool whole;      /* status 200, complete, and nothing wrong with it */
    char fault[256]; /* what is wrong, or the error that the server told; "" = nothing */
    struct buf text;
    uint32_t prompt, device, ram, ssd, remote, computed, generated;
    double prompt_ms; /* spent on computing the prompt */
    char *ids;        /* of soak_ask.ids: a JSON array; or NULL */
};

/* False: the server took no connection. */
bool soak_flight_send(struct soak_flight *flight, const struct serve_proc *proc,
                      const struct soak_talk *talk, const struct soak_ask *ask);
void soak_flight_leave(struct soak_flight *flight, bool reset);

/* Waits up to `timeout_ms` for bytes of any, and takes them. */
void soak_flights_poll(struct soak_flight *const *flights, size_t count, int timeout_ms);

/* Of a flight that has ended, which is closed. The caller finishes the answer. */
void soak_flight_take(struct soak_flight *flight, struct soak_answer *answer);
void soak_answer_fini(struct soak_answer *answer);
