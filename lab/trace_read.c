/*
 * trace_read.c: one JSON value per line (or one per file) to requests. yyjson parses; the result is
 * checked field by field.
 */
#include "lab/trace_read.h"

#include <fcntl.h>
#include <string.h>
#include <yyjson.h>

#include "base/json_alc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "lab/trace.h"

enum {
    FILE_BYTES_MAX = 1 << 30,
    TEXT_BLOCK_TOKENS = 64,
    RECORD_HEX = 16,
    RECORD_VERSION = 1,
    AGENTS_DEPTH_MAX = 8
};

struct reader {
    struct trace *trace;
    const struct read_options *options;
    const char *name;
    size_t line; /* counted from 1; 0 = the file as a whole */
    uint64_t scope;
    uint64_t *keys; /* of one request */
    size_t keys_cap;
    struct errinfo *info;
};

static enum err fail(struct reader *reader, enum err code, const char *what)
{
    if (reader->line == 0)
        return err_set(reader->info, code, "%s: %s", reader->name, what);
    return err_set(reader->info, code, "%s:%zu: %s", reader->name, reader->line, what);
}

/* ---- fields ---- */

static bool get_uint(yyjson_val *object, const char *key, uint64_t max, uint32_t *out)
{
    yyjson_val *value = yyjson_obj_get(object, key);

    if (!yyjson_is_uint(value) || yyjson_get_uint(value) > max)
        return false;
    *out = (uint32_t)yyjson_get_uint(value);
    return true;
}

/* A time in units of `ns`; never negative, and at most some centuries. */
static bool get_time(yyjson_val *object, const char *key, double ns, uint64_t *out)
{
    double value = yyjson_get_num(yyjson_obj_get(object, key)) * ns;

    if (!yyjson_is_num(yyjson_obj_get(object, key)) || !(value >= 0 && value < 0x1p62))
        return false;
    *out = (uint64_t)value;
    return true;
}

/* Room for the keys of one request. */
static enum err reserve_keys(struct reader *reader, size_t count)
{
    return mem_try_reserve(&reader->keys, count, &reader->keys_cap, sizeof(*reader->keys))
               ? ERR_OK
               : fail(reader, ERR_NOMEM, err_sentence(ERR_NOMEM));
}

/* Blocks from an array of numbers that are unique in `scope`. */
static enum err read_ids(struct reader *reader, yyjson_val *array, uint64_t scope, uint32_t *blocks)
{
    size_t i, count;
    yyjson_val *value;

    if (!yyjson_is_arr(array) || yyjson_arr_size(array) > TRACE_TOKENS_MAX)
        return fail(reader, ERR_INVALID, "hash_ids is no list of numbers");
    TRY(reserve_keys(reader, yyjson_arr_size(array)));
    yyjson_arr_foreach(array, i, count, value)
    {
        if (!yyjson_is_uint(value))
            return fail(reader, ERR_INVALID, "hash_ids is no list of numbers");
        reader->keys[i] = trace_key(scope, yyjson_get_uint(value));
    }
    *blocks = (uint32_t)yyjson_arr_size(array);
    return ERR_OK;
}

/* More blocks than tokens would count hits that do not exist. */
static enum err add(struct reader *reader, struct trace_request *request)
{
    uint64_t block = reader->trace->block_tokens;

    if (request->tokens == 0 || request->blocks > (request->tokens + block - 1) / block)
        return fail(reader, ERR_INVALID,
                    "the number of blocks does not fit the length of the prompt");
    enum err err = trace_add(reader->trace, request, reader->keys);
    return err == ERR_OK ? ERR_OK : fail(reader, err, err_sentence(err));
}

/* The session of a line. */
static uint32_t session_of(struct reader *reader, yyjson_val *object)
{
    struct str name = json_get_text(yyjson_obj_get(object, "session_id"));

    if (name.ptr == NULL)
        return TRACE_NO_SESSION;
    return trace_session(reader->trace, map_hash(name.ptr, name.len, reader->scope));
}

/* ---- formats ---- */

static enum err read_mooncake(struct reader *reader, yyjson_val *object)
{
    struct trace_request request = {0};

    if (!get_time(object, "timestamp", (double)NS_PER_MS, &request.at_ns) ||
        !get_uint(object, "input_length", TRACE_TOKENS_MAX, &request.tokens) ||
        !get_uint(object, "output_length", TRACE_TOKENS_MAX, &request.generated))
        return fail(reader, ERR_INVALID,
                    "timestamp, input_length or output_length is no number, or too large");
    TRY(read_ids(reader, yyjson_obj_get(object, "hash_ids"), reader->scope, &request.blocks));
    return add(reader, &request);
}

/* Hashes are of all tokens up to the end of a block, and mean the same in all files of a run. Other
 * events (the ends of tools) say nothing that a replay needs. */
static enum err read_dynamo(struct reader *reader, yyjson_val *object)
{
    yyjson_val *ended = yyjson_obj_get(object, "request");
    yyjson_val *prompt = yyjson_obj_get(ended, "replay");
    struct trace_request request = {
        .session = session_of(reader, yyjson_obj_get(object, "agent_context"))};
    uint32_t block;

    if (!yyjson_equals_str(yyjson_obj_get(object, "event_type"), "request_end"))
        return ERR_OK;
    if (!get_time(ended, "request_received_ms", (double)NS_PER_MS, &request.at_ns) &&
        !get_time(object, "event_time_unix_ms", (double)NS_PER_MS, &request.at_ns))
        return fail(reader, ERR_INVALID, "a request without a time");
    if (!get_uint(prompt, "trace_block_size", TRACE_TOKENS_MAX, &block) ||
        !get_uint(prompt, "input_length", TRACE_TOKENS_MAX, &request.tokens) ||
        !get_uint(ended, "output_tokens", TRACE_TOKENS_MAX, &request.generated))
        return fail(reader, ERR_INVALID,
                    "output_tokens, or trace_block_size or input_length of replay, is no number");
    TRY(trace_set_block(reader->trace, block, reader->info));
    TRY(read_ids(reader, yyjson_obj_get(prompt, "input_sequence_hashes"), 0, &request.blocks));
    request.blocks = MIN(request.blocks, request.tokens / block); /* the last may be partial */
    return request.blocks == 0 ? ERR_OK : add(reader, &request);
}

/* What the requests of one list have in common. */
struct claude_list {
    uint64_t begin_ns; /* their times count from there */
    uint32_t anchor;
    unsigned depth;
};

static enum hearth_ending ending_of(yyjson_val *stop)
{
    return yyjson_equals_str(stop, "tool_use")   ? HEARTH_ENDING_CALL
           : yyjson_equals_str(stop, "end_turn") ? HEARTH_ENDING_TEXT
                                                 : HEARTH_ENDING_UNKNOWN;
}

static enum err read_claude_request(struct reader *reader, yyjson_val *object,
                                    const struct claude_list *list)
{
    struct trace_request request = {.session = trace_session(reader->trace, reader->scope),
                                    .ending = ending_of(yyjson_obj_get(object, "stop")),
                                    .anchor = list->anchor};

    if (!get_time(object, "t", (double)NS_PER_S, &request.at_ns) ||
        !get_uint(object, "in", TRACE_TOKENS_MAX, &request.tokens) ||
        !get_uint(object, "out", TRACE_TOKENS_MAX, &request.generated))
        return fail(reader, ERR_INVALID, "t, in or out of a request is no number, or too large");
    request.at_ns += list->begin_ns;
    TRY(read_ids(reader, yyjson_obj_get(object, "hash_ids"), reader->scope, &request.blocks));
    /* The last id may be of a partial block; its padding belongs to no prompt. */
    request.blocks = MIN(request.blocks, request.tokens / reader->trace->block_tokens);
    return request.blocks == 0 ? ERR_OK : add(reader, &request);
}

/* The requests of a session, or of an agent that it started, which has its own system prompt and
 * counts time from its start. */
static enum err read_claude_list(struct reader *reader, yyjson_val *object, struct claude_list list)
{
    uint32_t tools = 0, system = 0;
    size_t i, count;
    yyjson_val *request, *requests = yyjson_obj_get(object, "requests");

    if (!yyjson_is_arr(requests) || list.depth > AGENTS_DEPTH_MAX)
        return fail(reader, ERR_INVALID, "requests is no list, or agents start agents without end");
    get_uint(object, "tool_tokens", TRACE_TOKENS_MAX, &tools);
    get_uint(object, "system_tokens", TRACE_TOKENS_MAX, &system);
    list.anchor = tools + system;
    yyjson_arr_foreach(requests, i, count, request)
    {
        struct claude_list agent = {.depth = list.depth + 1};
        if (yyjson_obj_get(request, "requests") == NULL) {
            TRY(read_claude_request(reader, request, &list));
            continue;
        }
        if (!get_time(request, "t", (double)NS_PER_S, &agent.begin_ns))
            return fail(reader, ERR_INVALID, "t of an agent is no number");
        agent.begin_ns += list.begin_ns;
        TRY(read_claude_list(reader, request, agent));
    }
    return ERR_OK;
}

static enum err read_claude_code(struct reader *reader, yyjson_val *object)
{
    uint32_t block;

    if (!get_uint(object, "block_size", TRACE_TOKENS_MAX, &block))
        return fail(reader, ERR_INVALID, "block_size is missing");
    TRY(trace_set_block(reader->trace, block, reader->info));
    return read_claude_list(reader, object, (struct claude_list){0});
}

static enum err cut_bytes(struct str text, int32_t **tokens, size_t *count)
{
    *count = text.len / READ_BYTES_PER_TOKEN;
    *tokens = mem_try_alloc_array(*count, sizeof(**tokens));
    if (*tokens == NULL)
        return ERR_NOMEM;
    if (*count > 0)
        memcpy(*tokens, text.ptr, *count * sizeof(**tokens));
    return ERR_OK;
}

/* Whole blocks only: trace_add chains them. */
static enum err add_tokens(struct reader *reader, struct trace_request *request,
                           const int32_t *tokens, size_t count)
{
    uint32_t block = reader->trace->block_tokens;

    if (count > TRACE_TOKENS_MAX)
        return fail(reader, ERR_LIMIT, "the prompt is too long");
    request->tokens = (uint32_t)count;
    request->blocks = request->tokens / block;
    if (request->blocks == 0)
        return ERR_OK; /* shorter than any stored block */
    TRY(reserve_keys(reader, request->blocks));
    for (uint32_t i = 0; i < request->blocks; i++)
        reader->keys[i] = map_hash(tokens + (size_t)i * block, block * sizeof(*tokens), 0);
    return add(reader, request);
}

static enum err read_text(struct reader *reader, yyjson_val *object)
{
    const struct read_options *options = reader->options;
    struct trace_request request = {.session = session_of(reader, object)};
    yyjson_val *input = yyjson_obj_get(object, "input");
    struct str text = json_get_text(input);
    struct str output = json_get_text(yyjson_obj_get(object, "output"));
    int32_t *tokens = NULL;
    size_t count = 0;

    if (!yyjson_is_str(input) || !get_time(object, "timestamp", (double)NS_PER_US, &request.at_ns))
        return fail(reader, ERR_INVALID, "input is no text, or timestamp no number");
    request.generated = (uint32_t)MIN(output.len / READ_BYTES_PER_TOKEN, TRACE_TOKENS_MAX);
    enum err err = options->tokenize
                       ? options->tokenize(text, &tokens, &count, reader->info, options->arg)
                       : cut_bytes(text, &tokens, &count);
    if (err == ERR_OK)
        err = add_tokens(reader, &request, tokens, count);
    else if (err == ERR_NOMEM)
        fail(reader, err, err_sentence(err));
    mem_free(tokens);
    return err;
}

/* ---- our own ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum err read_hashes(struct reader *reader, yyjson_val *value, uint32_t *blocks)
{
    struct str text = json_get_text(value);
    size_t count = text.len / RECORD_HEX;

    if (text.ptr == NULL || text.len % RECORD_HEX != 0 || count > TRACE_TOKENS_MAX)
        return fail(reader, ERR_INVALID, "blocks is no text of 16 hexadecimal digits per block");
    TRY(reserve_keys(reader, count));
    for (size_t i = 0; i < count * RECORD_HEX; i++) {
        int digit = hex_digit(text.ptr[i]);
        if (digit < 0)
            return fail(reader, ERR_INVALID, "blocks has something else than hexadecimal digits");
        uint64_t *key = &reader->keys[i / RECORD_HEX];
        *key = (i % RECORD_HEX == 0 ? 0 : *key << 4) | (uint64_t)digit;
    }
    *blocks = (uint32_t)count;
    return ERR_OK;
}

/* The recorded hit, if the line has it: all of the prompt's parts, or none. */
static enum err read_outcome(struct reader *reader, yyjson_val *object, uint32_t tokens)
{
    struct trace_recorded *recorded = &reader->trace->recorded;
    static const char *const parts[] = {"device", "ram", "ssd", "remote", "computed"};
    uint32_t part = 0, sum = 0;
    bool known = true;

    if (yyjson_obj_get(object, "computed") == NULL)
        return ERR_OK;
    for (size_t i = 0; i < COUNT_OF(parts); i++, sum += part)
        known = known && get_uint(object, parts[i], TRACE_TOKENS_MAX, &part);
    if (!known || sum != tokens)
        return fail(reader, ERR_INVALID,
                    "device, ram, ssd, remote and computed do not add up to the prompt");
    recorded->requests++;
    recorded->tokens += tokens;
    recorded->tokens_hit += tokens - part; /* the last one: computed */
    return ERR_OK;
}

static enum err read_record(struct reader *reader, yyjson_val *object)
{
    struct trace_request request = {.session = session_of(reader, object)};
    uint32_t lost;

    if (get_uint(object, "lost", UINT32_MAX, &lost)) {
        reader->trace->recorded.lost += lost;
        return ERR_OK;
    }
    if (!get_time(object, "t_us", (double)NS_PER_US, &request.at_ns) ||
        !get_uint(object, "in", TRACE_TOKENS_MAX, &request.tokens) ||
        !get_uint(object, "out", TRACE_TOKENS_MAX, &request.generated))
        return fail(reader, ERR_INVALID, "t_us, in or out is no number, or too large");
    get_uint(object, "anchor", TRACE_TOKENS_MAX, &request.anchor);
    TRY(read_hashes(reader, yyjson_obj_get(object, "blocks"), &request.blocks));
    if (request.blocks == 0)
        return ERR_OK;
    TRY(read_outcome(reader, object, request.tokens));
    return add(reader, &request);
}

/* The first line describes the others. */
static enum err read_record_head(struct reader *reader, yyjson_val *object)
{
    uint32_t version, block;

    if (!get_uint(object, "hearth_record", UINT32_MAX, &version) || version != RECORD_VERSION)
        return fail(reader, ERR_UNSUPPORTED,
                    "is a record of a version that this program does not know");
    if (!get_uint(object, "block_tokens", TRACE_TOKENS_MAX, &block))
        return fail(reader, ERR_INVALID, "block_tokens is missing");
    return trace_set_block(reader->trace, block, reader->info);
}

/* ---- files ---- */

/* The lines before the first request. */
static enum err begin_mooncake(struct reader *reader, yyjson_val *first)
{
    (void)first;
    return trace_set_block(reader->trace, READ_BLOCK_TOKENS_MOONCAKE, reader->info);
}

static enum err begin_text(struct reader *reader, yyjson_val *first)
{
    uint32_t block = reader->options->block_tokens;

    (void)first;
    return trace_set_block(reader->trace, block ? block : TEXT_BLOCK_TOKENS, reader->info);
}

/* In the order in which formats are recognised: by a key of the first line. */
static const struct format {
    const char *key;
    enum read_format format;
    enum err (*begin)(struct reader *reader, yyjson_val *first); /* NULL: nothing to do */
    enum err (*read)(struct reader *reader, yyjson_val *object);
} formats[] = {
    {"hearth_record", READ_FORMAT_RECORD, read_record_head, read_record},
    {"event_type", READ_FORMAT_DYNAMO, NULL, read_dynamo},
    {"requests", READ_FORMAT_CLAUDE_CODE, NULL, read_claude_code},
    {"hash_ids", READ_FORMAT_MOONCAKE, begin_mooncake, read_mooncake},
    {"input", READ_FORMAT_TEXT, begin_text, read_text},
};

/* What Dynamo's recorder has put around an event: {"timestamp": ms, "event": {...}}. */
static yyjson_val *unwrap(yyjson_val *value)
{
    yyjson_val *event = yyjson_obj_get(value, "event");

    return yyjson_obj_get(event, "event_type") != NULL ? event : value;
}

/* `format` NULL: this is the first line, which says it. */
static enum err read_value(struct reader *reader, yyjson_val *value, const struct format **format)
{
    bool first = *format == NULL;

    value = unwrap(value);
    for (size_t i = 0; i < COUNT_OF(formats) && *format == NULL; i++)
        if (yyjson_obj_get(value, formats[i].key) != NULL)
            *format = &formats[i];
    if (*format == NULL)
        return fail(reader, ERR_INVALID,
                    "is no trace: neither mooncake, claude-code, text, dynamo nor record");
    if (first && (*format)->begin != NULL)
        TRY((*format)->begin(reader, value));
    /* The first line of a record only describes the others. */
    return first && (*format)->format == READ_FORMAT_RECORD ? ERR_OK
                                                            : (*format)->read(reader, value);
}

static enum err read_line(struct reader *reader, struct str line, const struct format **format)
{
    yyjson_doc *doc = yyjson_read(line.ptr, line.len, 0);
    enum err err = doc != NULL ? read_value(reader, yyjson_doc_get_root(doc), format)
                               : fail(reader, ERR_INVALID, "is not JSON");

    yyjson_doc_free(doc);
    return err;
}

enum err trace_read_memory(struct trace *trace, const char *name, struct str content,
                           const struct read_options *options, enum read_format *format,
                           struct errinfo *info)
{
    struct reader reader = {.trace = trace,
                            .options = options,
                            .name = name,
                            .scope = map_hash(name, strlen(name), 0),
                            .info = info};
    const struct format *found = NULL;
    struct str line;
    enum err err = ERR_OK;

    while (err == ERR_OK && str_next(&content, '\n', &line)) {
        reader.line++;
        line = str_trim(line);
        if (line.len > 0)
            err = read_line(&reader, line, &found);
    }
    if (err == ERR_OK && found == NULL)
        err = err_set(info, ERR_INVALID, "%s: is empty", name);
    mem_free(reader.keys);
    if (format != NULL)
        *format = found != NULL ? found->format : READ_FORMAT_COUNT;
    return err;
}

enum err trace_read(struct trace *trace, const char *path, const struct read_options *options,
                    enum read_format *format, struct errinfo *info)
{
    char *data;
    size_t len;

    TRY(file_read_all(options->fs, AT_FDCWD, path, FILE_BYTES_MAX, &data, &len, info));
    enum err err = trace_read_memory(trace, path, (struct str){data, len}, options, format, info);
    mem_free(data);
    return err;
}

const char *const read_format_names[] = {READ_FORMAT_TABLE(TABLE_NAME) NULL};
