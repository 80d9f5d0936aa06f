/*
 * soak_flight.c: see soak_flight.h. Requests ask for `Connection: close`, so that an answer is
 * whole when the connection ends, and reading it never waits.
 */
#include "support/soak_flight.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/attr.h"
#include "base/clock.h"
#include "support/test.h"

enum { FLIGHTS_MAX = 2048, TEXT_BYTES_MAX = 8 << 20 };

bool soak_flight_send(struct soak_flight *flight, const struct serve_proc *proc,
                      const struct soak_talk *talk, const struct soak_ask *ask)
{
    *flight = (struct soak_flight){.ask = *ask, .sent_ns = clock_mono_ns(clock_real())};
    if (!http_client_try_connect(&flight->client, proc->port))
        return false;
    struct buf body = soak_body(talk, ask);
    flight->open =
        http_client_try_request(&flight->client, "POST", scenario_path(ask->dialect),
                                soak_headers[talk->tenant], (struct str){body.data, body.len});
    buf_fini(&body);
    if (!flight->open)
        http_client_close(&flight->client);
    return flight->open;
}

void soak_flight_leave(struct soak_flight *flight, bool reset)
{
    if (reset)
        http_client_reset(&flight->client);
    else
        http_client_close(&flight->client);
    flight->open = flight->ended = false;
}

/* Comments that keep a connection open are no tokens, and neither is the first chunk. */
static void note_event(struct soak_flight *flight, size_t before)
{
    uint64_t now = clock_mono_ns(clock_real());
    const struct buf *in = &flight->client.in;

    static const char *const tokens[] = {"\"delta\":{\"content", "\"delta\":{\"reasoning"};
    bool token = false;

    for (size_t i = 0; i < COUNT_OF(tokens); i++)
        token |= memmem(in->data + before, in->len - before, tokens[i], strlen(tokens[i])) != NULL;
    if (!token)
        return;
    if (flight->heard_ns == 0)
        flight->first_ns = now - flight->sent_ns;
    else
        flight->pause_ns = MAX(flight->pause_ns, now - flight->heard_ns);
    flight->heard_ns = now;
}

void soak_flights_poll(struct soak_flight *const *flights, size_t count, int timeout_ms)
{
    static struct pollfd fds[FLIGHTS_MAX];
    static struct soak_flight *at[FLIGHTS_MAX];
    nfds_t waiting = 0;

    assert_true(count <= FLIGHTS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!flights[i]->open || flights[i]->ended)
            continue;
        at[waiting] = flights[i];
        fds[waiting++] = (struct pollfd){.fd = flights[i]->client.fd, .events = POLLIN};
    }
    if (poll(fds, waiting, timeout_ms) <= 0)
        return;
    for (nfds_t i = 0; i < waiting; i++)
        if (fds[i].revents != 0) {
            size_t before = at[i]->client.in.len;
            at[i]->ended = !http_client_read(&at[i]->client);
            note_event(at[i], before);
        }
}

/* ---- reading ---- */

static void blame(struct soak_answer *answer, const char *what, const char *detail)
{
    if (answer->fault[0] == '\0')
        snprintf(answer->fault, sizeof(answer->fault), "%s%.200s", what,
                 detail != NULL ? detail : "");
}

static uint32_t number(struct soak_answer *answer, yyjson_doc *doc, const char *pointer)
{
    yyjson_val *value = yyjson_doc_ptr_get(doc, pointer);

    if (!yyjson_is_uint(value))
        blame(answer, "there is no number at ", pointer);
    return (uint32_t)yyjson_get_uint(value);
}

/* Keeps I99. */
static void read_usage(struct soak_answer *answer, yyjson_doc *doc, enum scenario_dialect dialect)
{
    const struct scenario_fields *fields = scenario_fields(dialect);

    answer->device = number(answer, doc, "/x_cache/device");
    answer->ram = number(answer, doc, "/x_cache/ram");
    answer->ssd = number(answer, doc, "/x_cache/ssd");
    answer->remote = number(answer, doc, "/x_cache/remote");
    answer->computed = number(answer, doc, "/x_cache/computed");
    answer->ids = yyjson_val_write(yyjson_doc_ptr_get(doc, "/prompt_token_ids"), 0, NULL);
    answer->prompt_ms = yyjson_get_num(yyjson_doc_ptr_get(doc, "/timings/prompt_ms"));
    answer->generated = number(answer, doc, fields->generated);
    uint32_t reused = answer->device + answer->ram + answer->ssd + answer->remote;
    uint32_t cached = number(answer, doc, fields->cached);
    answer->prompt = fields->prompt != NULL ? number(answer, doc, fields->prompt)
                                            : number(answer, doc, fields->rest) + cached +
                                                  number(answer, doc, fields->created);
    if (cached != reused || answer->prompt != reused + answer->computed)
        blame(answer, "usage does not add up", NULL);
}

static void read_json(struct soak_answer *answer, const struct http_answer *http,
                      enum scenario_dialect dialect)
{
    yyjson_doc *doc = yyjson_read(buf_str(&http->body), http->body.len, 0);
    yyjson_val *text = yyjson_doc_ptr_get(doc, scenario_fields(dialect)->text);

    if (doc == NULL)
        blame(answer, "no JSON: ", buf_str(&http->body));
    else if (!yyjson_is_str(text))
        blame(answer, "no text: ", buf_str(&http->body));
    else
        buf_append_str(&answer->text, yyjson_get_str(text));
    if (doc != NULL)
        read_usage(answer, doc, dialect);
    yyjson_doc_free(doc);
}

/* True: it was the one with the usage. */
static bool read_event(struct soak_answer *answer, const struct buf *data)
{
    yyjson_doc *doc = yyjson_read(buf_str(data), data->len, 0);
    const char *text = yyjson_get_str(yyjson_doc_ptr_get(doc, "/choices/0/delta/content"));
    bool last = yyjson_is_obj(yyjson_doc_ptr_get(doc, "/usage"));

    if (doc == NULL || yyjson_doc_ptr_get(doc, "/error") != NULL)
        blame(answer, "in the stream: ", buf_str(data));
    if (text != NULL)
        buf_append_str(&answer->text, text);
    if (last)
        read_usage(answer, doc, SCENARIO_CHAT);
    yyjson_doc_free(doc);
    return last;
}

static void read_stream(struct soak_answer *answer, const struct http_answer *http)
{
    struct str rest = {buf_str(&http->body), http->body.len}, name;
    bool usage = false, done = false;
    struct buf data;

    buf_init(&data, TEXT_BYTES_MAX);
    while (http_sse_next(&rest, &name, &data, NULL)) {
        done = strcmp(buf_str(&data), "[DONE]") == 0;
        if (!done)
            usage |= read_event(answer, &data);
        buf_clear(&data);
    }
    buf_fini(&data);
    if (!usage || !done || rest.len > 0)
        blame(answer, "the stream has no proper end", NULL);
}

static void read_error(struct soak_answer *answer, const struct http_answer *http)
{
    yyjson_doc *doc = yyjson_read(buf_str(&http->body), http->body.len, 0);
    const char *text = yyjson_get_str(yyjson_doc_ptr_get(doc, "/error/message"));

    blame(answer, "", text != NULL ? text : buf_str(&http->body));
    yyjson_doc_free(doc);
}

void soak_flight_take(struct soak_flight *flight, struct soak_answer *answer)
{
    struct http_answer http = {0};

    assert_true(flight->ended);
    *answer = (struct soak_answer){0};
    buf_init(&answer->text, TEXT_BYTES_MAX);
    bool head = http_client_answer(&flight->client, false, &http, NULL);
    answer->status = head ? http.status : 0;
    if (!head || !http.complete)
        blame(answer, "the connection broke off", NULL);
    else if (http.status != 200)
        read_error(answer, &http);
    else if (flight->ask.stream)
        read_stream(answer, &http);
    else
        read_json(answer, &http, flight->ask.dialect);
    answer->whole = answer->status == 200 && answer->fault[0] == '\0';
    http_answer_fini(&http);
    http_client_close(&flight->client);
    flight->open = flight->ended = false;
}

void soak_answer_fini(struct soak_answer *answer)
{
    buf_fini(&answer->text);
    free(answer->ids);
}
