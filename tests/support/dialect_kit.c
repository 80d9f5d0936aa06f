#include "support/dialect_kit.h"

#include <stdio.h>
#include <string.h>

#include "base/json_alc.h"
#include "dialect/json_read.h"
#include "base/json_write.h"
#include "base/clock.h"
#include "base/mem.h"
#include "support/test.h"

enum { ARENA_BYTES = 1 << 20, QUOTES = 4, QUOTE_BYTES = 16384 };

const char *api_quote(const char *text)
{
    static char room[QUOTES][QUOTE_BYTES];
    static unsigned next;
    char *out = room[next++ % QUOTES];
    size_t len = strlen(text);

    assert_true(len < QUOTE_BYTES);
    for (size_t i = 0; i <= len; i++)
        out[i] = text[i] == '\'' ? '"' : text[i];
    return out;
}

/* ---- requests ---- */

static void parse_text(struct api_parsed *parsed, const struct dialect *dialect, struct str text)
{
    memset(parsed, 0, sizeof(*parsed));
    gen_request_init(&parsed->request, ARENA_BYTES, NULL);
    parsed->err = json_read_body(text, &parsed->request.body, &parsed->error);
    if (parsed->err == ERR_OK)
        parsed->err = dialect->parse(&parsed->request, yyjson_doc_get_root(parsed->request.body),
                                     &parsed->error);
}

void api_parse(struct api_parsed *parsed, const struct dialect *dialect, const char *body)
{
    parse_text(parsed, dialect, str_from(api_quote(body)));
}

void api_parsed_fini(struct api_parsed *parsed)
{
    gen_request_fini(&parsed->request);
}

void api_assert_refused(const struct dialect *dialect, const struct api_bad *bad)
{
    struct api_parsed parsed;

    api_parse(&parsed, dialect, bad->body);
    if (parsed.err == ERR_OK)
        fail_msg("%s was taken", bad->body);
    assert_err(parsed.err, ERR_INVALID);
    if (strcmp(parsed.error.param, bad->param) != 0 || parsed.error.kind != bad->kind ||
        strstr(parsed.error.message, bad->message) == NULL)
        fail_msg("%s: '%s': '%s', kind %d", bad->body, parsed.error.param, parsed.error.message,
                 (int)parsed.error.kind);
    api_parsed_fini(&parsed);
}

void api_assert_json(yyjson_val *value, const char *expected)
{
    struct buf out;

    buf_init(&out, 1 << 20);
    struct json json = json_to(&out);
    json_value(&json, value);
    assert_string_equal(buf_str(&out), api_quote(expected));
    buf_fini(&out);
}

void api_assert_parse_survives(const struct dialect *dialect, const char *body)
{
    struct fault fault = {0};
    unsigned failures = 0;

    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct api_parsed parsed;
        api_parse(&parsed, dialect, body);
        if (parsed.err != ERR_OK) {
            assert_err(parsed.err, ERR_NOMEM);
            failures++;
        }
        api_parsed_fini(&parsed);
    }
    mem_set_fault(NULL);
    assert_true(failures > 2);
}

/* One byte is replaced by one that means something to JSON, removed, or doubled; or a piece goes to
 * another place. */
static size_t mutate(char *text, size_t len, uint64_t *seed)
{
    static const char bytes[] = "{}[]\",:0-9.e\\ntfu ";
    size_t at = test_random_below(seed, len), to = test_random_below(seed, len);
    size_t piece = MIN(len - MAX(at, to), test_random_below(seed, 20));

    switch (test_random_below(seed, 4)) {
    case 0:
        text[at] = bytes[test_random_below(seed, sizeof(bytes) - 1)];
        return len;
    case 1:
        memmove(text + at, text + at + 1, len - at - 1);
        return MAX(len - 1, (size_t)1);
    case 2:
        memmove(text + to, text + at, piece);
        return len;
    default:
        text[at] = (char)test_random_below(seed, 128);
        return len;
    }
}

void api_parse_mutations(const struct dialect *dialect, const char *body, unsigned rounds)
{
    uint64_t seed = test_seed();
    char text[QUOTE_BYTES];

    for (unsigned i = 0; i < rounds; i++) {
        size_t len = strlen(body);
        memcpy(text, api_quote(body), len + 1);
        for (uint64_t n = 1 + test_random_below(&seed, 3); n > 0; n--)
            len = mutate(text, len, &seed);
        struct api_parsed parsed;
        parse_text(&parsed, dialect, (struct str){text, len});
        if (parsed.err == ERR_OK)
            assert_true(parsed.request.choices >= 1);
        else
            assert_true(parsed.err == ERR_INVALID && parsed.error.message[0] != '\0');
        api_parsed_fini(&parsed);
    }
}

/* ---- answers ---- */

static size_t byte_token(void *arg, token_id token, char *out, size_t size)
{
    (void)arg;
    if (token > 255 || size == 0)
        return 0;
    out[0] = (char)token;
    return 1;
}

void api_stream_init(struct api_stream *stream, const struct dialect *dialect, const char *body)
{
    memset(stream, 0, sizeof(*stream));
    stream->dialect = dialect;
    api_parse(&stream->parsed, dialect, body);
    if (stream->parsed.err != ERR_OK)
        fail_msg("%s: %s", body, stream->parsed.error.message);
    answer_init(&stream->answer, &stream->parsed.request);
    struct answer *answer = &stream->answer;
    snprintf(answer->id, sizeof(answer->id), "ID");
    answer->created_s = 7;
    answer->model = "m";
    answer->token_bytes = byte_token;
    answer->usage = (struct gen_usage){.prompt = 100,
                                       .device = 10,
                                       .ram = 20,
                                       .ssd = 30,
                                       .remote = 5,
                                       .computed = 35,
                                       .match = HEARTH_MATCH_PREFIX,
                                       .reason = HEARTH_REASON_DIVERGED,
                                       .first_difference = 66};
    buf_init(&stream->out, 1 << 20);
}

void api_stream_fini(struct api_stream *stream)
{
    buf_fini(&stream->out);
    answer_fini(&stream->answer);
    api_parsed_fini(&stream->parsed);
}

static struct output_event make_event(const struct api_stream *stream, size_t choice,
                                      enum output_event_type type, const char *text)
{
    size_t calls = stream->answer.choices[choice].calls_count;
    bool inside = type == OUTPUT_CALL_ARGUMENTS || type == OUTPUT_CALL_END;

    return (struct output_event){type, (unsigned)(inside ? calls - 1 : calls), str_from(text)};
}

/* Ids of calls are random: tests want them to be C0, C1, ... */
static void name_call(struct answer_choice *choice)
{
    struct answer_call *call = &choice->calls[choice->calls_count - 1];

    snprintf(call->id, sizeof(call->id), "C%zu", choice->calls_count - 1);
}

void api_add(struct api_stream *stream, size_t choice, enum output_event_type type,
             const char *text)
{
    struct output_event event = make_event(stream, choice, type, text);

    assert_ok(answer_add(&stream->answer, choice, &event));
    if (type == OUTPUT_CALL_BEGIN)
        name_call(&stream->answer.choices[choice]);
}

void api_say(struct api_stream *stream, size_t choice, enum output_event_type type,
             const char *text)
{
    struct output_event event = make_event(stream, choice, type, text);

    api_add(stream, choice, type, text);
    stream->dialect->event(&stream->answer, choice, &event, &stream->out);
}

void api_add_logprob(struct api_stream *stream, size_t choice, int32_t token, float logprob,
                     int32_t other, float other_logprob)
{
    struct sample_pick pick = {.token = token,
                               .logprob = logprob,
                               .top = {{token, logprob}, {other, other_logprob}},
                               .top_count = 2};

    assert_ok(answer_add_logprob(&stream->answer, choice, &pick));
}

void api_finish(struct api_stream *stream, size_t choice, enum answer_finish finish,
                uint32_t generated)
{
    struct answer *answer = &stream->answer;

    answer->choices[choice].finish = finish;
    answer->choices[choice].generated = generated;
    answer->usage.generated += generated;
    answer->times = (struct gen_times){.submitted = 1 * NS_PER_S,
                                       .admitted = 1 * NS_PER_S,
                                       .looked_up = 1 * NS_PER_S,
                                       .restored = 2 * NS_PER_S,
                                       .first_token = 3 * NS_PER_S,
                                       .ended = 5 * NS_PER_S};
}

/* The text of the next event, without the empty line behind it, in out. */
static void take_event(struct api_stream *stream, char *out, size_t size)
{
    const char *begin = buf_str(&stream->out) + stream->read;
    const char *end = strstr(begin, "\n\n");

    assert_ok(stream->out.err);
    if (end == NULL)
        fail_msg("no whole event in '%s'", begin);
    assert_true((size_t)(end - begin) < size);
    memcpy(out, begin, (size_t)(end - begin));
    out[end - begin] = '\0';
    stream->read += (size_t)(end - begin) + 2;
}

/* What stands behind `data: `; NULL for [DONE]. */
static yyjson_doc *read_data(const char *event, const char *name)
{
    char head[200];

    snprintf(head, sizeof(head), "event: %s\n", name != NULL ? name : "");
    if (name != NULL && strncmp(event, head, strlen(head)) != 0)
        fail_msg("'%s' is not a %s", event, name);
    const char *data = name != NULL ? event + strlen(head) : event;
    assert_memory_equal(data, "data: ", 6);
    assert_null(strchr(data, '\n'));
    if (strcmp(data + 6, "[DONE]") == 0)
        return NULL;
    yyjson_doc *doc = yyjson_read(data + 6, strlen(data + 6), 0);
    if (doc == NULL)
        fail_msg("no JSON: %s", data);
    return doc;
}

void api_assert_body_survives(struct api_stream *stream, bool begins, const char *part)
{
    struct fault fault = {0};
    unsigned failures = 0;

    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        buf_fini(&stream->out);
        buf_init(&stream->out, 1 << 20);
        stream->dialect->body(&stream->answer, &stream->out);
        if (begins)
            stream->dialect->begin(&stream->answer, &stream->out);
        if (stream->out.err != ERR_OK) {
            assert_err(stream->out.err, ERR_NOMEM);
            failures++;
        } else {
            assert_non_null(strstr(buf_str(&stream->out), api_quote(part)));
        }
    }
    mem_set_fault(NULL);
    assert_ok(stream->out.err);
    assert_true(failures > 1);
}

void api_expect(struct api_stream *stream, const char *expected)
{
    static char event[1 << 16];

    take_event(stream, event, sizeof(event));
    assert_string_equal(event, api_quote(expected));
    yyjson_doc_free(read_data(event, NULL));
}

yyjson_doc *api_next(struct api_stream *stream, const char *name)
{
    static char event[1 << 16];

    take_event(stream, event, sizeof(event));
    return read_data(event, name);
}

void api_expect_end(struct api_stream *stream)
{
    assert_string_equal(buf_str(&stream->out) + stream->read, "");
}

yyjson_val *api_at(yyjson_val *root, const char *path)
{
    struct str rest = str_from(path), piece;
    uint64_t index;

    while (str_next(&rest, '.', &piece)) {
        if (str_to_u64(piece, &index))
            root = yyjson_arr_get(root, (size_t)index);
        else
            root = yyjson_obj_getn(root, piece.ptr, piece.len);
        if (root == NULL)
            fail_msg("no '%.*s' of '%s'", STR_ARG(piece), path);
    }
    return root;
}

uint64_t api_uint_at(yyjson_val *root, const char *path)
{
    yyjson_val *value = api_at(root, path);

    assert_true(yyjson_is_uint(value));
    return yyjson_get_uint(value);
}

const char *api_text_at(yyjson_val *root, const char *path)
{
    yyjson_val *value = api_at(root, path);

    assert_true(yyjson_is_str(value));
    return yyjson_get_str(value);
}
