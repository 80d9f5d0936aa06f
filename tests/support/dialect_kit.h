/*
 * dialect_kit.h: requests and answers of a dialect, for tests of parsers and composers.
 *
 * In all texts ' stands for ", so that JSON can be read: "{'a':1}". The made answers have the id
 * "ID", were created at 7, and come from the model "m", whose tokens are single bytes: token 65 is
 * "A"; tokens from 256 on have no text.
 */
#pragma once

#include "dialect/answer.h"
#include "chat/error.h"
#include "chat/gen_request.h"
#include "base/buf.h"

/* ---- requests ---- */

struct api_parsed {
    struct gen_request request;
    struct api_error error;
    enum err err;
};

void api_parse(struct api_parsed *parsed, const struct dialect *dialect, const char *body);
void api_parsed_fini(struct api_parsed *parsed);

/* One case of a table: a good body has no `param`. */
struct api_bad {
    const char *body;
    enum api_error_kind kind;
    const char *param, *message; /* a part of it */
};

void api_assert_refused(const struct dialect *dialect, const struct api_bad *bad);

/* The made messages, or tools, are this JSON. */
void api_assert_json(yyjson_val *value, const char *expected);

/* Parses it with the n-th allocation failing, for all n: it fails cleanly, or gives what it gave
 * before. */
void api_assert_parse_survives(const struct dialect *dialect, const char *body);

/* Parses `rounds` random changes of it: no crash; what is refused says why. */
void api_parse_mutations(const struct dialect *dialect, const char *body, unsigned rounds);

/* ---- answers ---- */

struct api_stream {
    struct api_parsed parsed;
    struct answer answer;
    const struct dialect *dialect;
    struct buf out;
    size_t read; /* of out, by api_expect */
};

/* An answer to `body`, with usage 100 = 10 device + 20 ram + 30 ssd + 5 remote + 35 computed,
 * before its first event. */
void api_stream_init(struct api_stream *stream, const struct dialect *dialect, const char *body);
void api_stream_fini(struct api_stream *stream);

/* Adds an event and has it composed, as the server does. For calls, `call` is its number. */
void api_say(struct api_stream *stream, size_t choice, enum output_event_type type,
             const char *text);
/* As api_say, without composing: for whole bodies. */
void api_add(struct api_stream *stream, size_t choice, enum output_event_type type,
             const char *text);
/* A token with its probability and one alternative. */
void api_add_logprob(struct api_stream *stream, size_t choice, int32_t token, float logprob,
                     int32_t other, float other_logprob);
/* Ends a choice; usage and times count `generated` more tokens. */
void api_finish(struct api_stream *stream, size_t choice, enum answer_finish finish,
                uint32_t generated);

/* Composes the body, and the beginning of a stream if `begins`, with the n-th allocation failing, for
 * all n: the buffer reports it, or has `part`. */
void api_assert_body_survives(struct api_stream *stream, bool begins, const char *part);

/* The next event of the stream is this text (without the empty line); it has one `data:` line that
 * is JSON, or [DONE]. */
void api_expect(struct api_stream *stream, const char *expected);
/* As JSON, without comparing; NULL for [DONE]. Freed by the caller with yyjson_doc_free. `name` is
 * the `event:`, or NULL. */
yyjson_doc *api_next(struct api_stream *stream, const char *name);
void api_expect_end(struct api_stream *stream); /* nothing more was written */

/* A value by a path of names and numbers, "choices.0.delta"; fails when it is not there. */
yyjson_val *api_at(yyjson_val *root, const char *path);
uint64_t api_uint_at(yyjson_val *root, const char *path);
const char *api_text_at(yyjson_val *root, const char *path);

/* " for ' in a static buffer, valid until the call after the next three. */
const char *api_quote(const char *text);
