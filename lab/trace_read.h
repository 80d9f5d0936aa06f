/*
 * trace_read.h: traces from files. The format is detected from the content, one per file:
 *
 *      mooncake      JSON lines {"timestamp": ms, "input_length", "output_length", "hash_ids"}; ids
 *                    of 512-token blocks, the last one may be of fewer; one scope
 *      claude-code   one JSON object {"block_size", "tool_tokens", "system_tokens", "requests":
 *                    [{"t": s, "in", "out", "hash_ids"}]}; one session per file, ids mean something
 *                    inside of it only
 *      text          JSON lines {"timestamp": us, "input", "output", "session_id"}; full prompts,
 *                    to be tokenised
 *      dynamo        JSON lines {"schema": "dynamo.request.trace.v1", "event_type", "agent_context",
 *                    "request"} of Dynamo's frontend; only "request_end" events are requests; also as
 *                    its recorder writes them, {"timestamp", "event": {...}}
 *      record        what `hearth serve --record` writes: docs/replay-traces.md
 *
 * A file is read whole. A line that does not parse, or a number that makes no sense, is an error
 * that names file and line: a trace with gaps gives hit rates that cannot be compared.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct file_sys;
struct trace;

/* X(value, name) */
#define READ_FORMAT_TABLE(X)                  \
    X(READ_FORMAT_MOONCAKE, "mooncake")       \
    X(READ_FORMAT_CLAUDE_CODE, "claude-code") \
    X(READ_FORMAT_TEXT, "text")               \
    X(READ_FORMAT_DYNAMO, "dynamo")           \
    X(READ_FORMAT_RECORD, "record")

enum read_format { READ_FORMAT_TABLE(TABLE_VALUE) READ_FORMAT_COUNT };

extern const char *const read_format_names[];

enum { READ_BLOCK_TOKENS_MOONCAKE = 512, READ_BYTES_PER_TOKEN = 4 };

struct read_options {
    const struct file_sys *fs;
    uint32_t block_tokens; /* block size for text; the other formats specify it themselves */
    /* Tokens of a text, in an array that is freed with mem_free. NULL: every READ_BYTES_PER_TOKEN
     * bytes are a token. */
    enum err (*tokenize)(struct str text, int32_t **tokens, size_t *count, struct errinfo *info,
                         void *arg);
    void *arg;
};

/* Adds what is in a file to the trace; *format (may be NULL) is its format. On an error `info`
 * has the message, and the trace must be discarded. */
enum err trace_read(struct trace *trace, const char *path, const struct read_options *options,
                    enum read_format *format, struct errinfo *info) NODISCARD;
/* The same from memory; `name` is for messages and for the scope of ids. */
enum err trace_read_memory(struct trace *trace, const char *name, struct str content,
                           const struct read_options *options, enum read_format *format,
                           struct errinfo *info) NODISCARD;
