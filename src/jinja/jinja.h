/*
 * jinja.h: chat templates: Jinja2 as Hugging Face sets it up, compiled once per model and rendered
 * for each request.
 *
 *      source --jinja_compile--> struct jinja (immutable)
 *             --jinja_render(variables, limits)--> sink(text, origin)...
 *
 * The dialect is that of an ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, loop
 * controls, `generation` blocks that only pass their body through, a tojson that is
 * json.dumps(ensure_ascii=False), raise_exception and strftime_now. Output is byte for byte
 * Python's. Refused, although Python accepts it: integers beyond 64 bits and complex numbers,
 * list.pop and list.clear (newer versions of Jinja also refuse them), the methods casefold, encode,
 * format_map and translate of strings, pprint of more than a line, autoescape blocks other than
 * `false`, and other templates (include, import, extends), because there are none.
 *
 * A template comes inside a model file and is untrusted code: compile and render are bounded by the
 * limits in steps, depth, memory and output, and touch nothing but their arguments.
 *
 * Threads: a compiled template may be rendered by any number of threads at a time, each with its
 * own arena.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "jinja/value.h"

struct arena;
struct buf;
struct jinja;

/* What went wrong, for users; valid after a call that did not return ERR_OK. */
struct jinja_error {
    enum err code;
    /* the template called raise_exception: the message is its author's, meant for the client */
    bool raised;
    unsigned line;   /* from 1; 0 = no place in the template is to blame */
    unsigned column; /* from 1, in bytes */
    char message[512];
    char source[160]; /* that line of the template, truncated to the field */
};

/* A piece of output that came from one input string, or was computed from it. */
struct jinja_span {
    size_t begin;
    size_t end;
    uint32_t origin;
};

/* Gets the output piece by piece, on the rendering thread; `origin` as in value.h, never mixed. The
 * text is borrowed for the call. An error ends the render, which returns it. */
typedef enum err (*jinja_sink_fn)(void *arg, struct str text, uint32_t origin);

struct jinja_limits {
    /* nodes evaluated, and text processed per JINJA_STEP_BYTES: bounds the time */
    uint64_t steps;
    size_t output_bytes; /* of the whole output, and of any single string */
    unsigned depth;      /* nested evaluations, about 500 bytes of stack each */
    unsigned range;      /* items of a range() */
};

/* Generous for any real conversation; a hostile one takes a second or two. */
extern const struct jinja_limits jinja_limits_default;

struct jinja_options {
    struct jinja_limits limits;
    int64_t now_s;     /* for strftime_now: local wall time, as seconds since 1970 */
    bool *time_of_day; /* set when strftime_now writes more than a date; may be NULL */
    /* Called when a `for` begins and ends a round with an item, on the rendering thread, if output
     * goes straight to the sink: the output passed to the sink between the two calls is that of the
     * round. May be NULL. */
    void (*on_round)(void *arg, const struct jinja_value *item, bool end);
    void *arg;
};

/* Compiles a template of at most JINJA_SOURCE_BYTES_MAX bytes. ERR_INVALID: not a template;
 * ERR_UNSUPPORTED: it uses a feature that this engine lacks; ERR_LIMIT: too large or nested too
 * deep. */
enum { JINJA_SOURCE_BYTES_MAX = 1 << 20 };
enum err jinja_compile(struct str source, struct jinja **out, struct jinja_error *error) NODISCARD;
void jinja_destroy(struct jinja **tmpl);

/* Renders with `vars`, a dict with string keys. All temporary memory comes from `arena`, which the
 * caller resets afterwards; the arena's limit also applies. ERR_INVALID: the template failed or
 * refused (error->raised); ERR_LIMIT, ERR_NOMEM; or what the sink returned. Output before an error
 * has already gone to the sink. */
enum err jinja_render(const struct jinja *tmpl, struct jinja_value vars,
                      const struct jinja_options *options, struct arena *arena, jinja_sink_fn fn,
                      void *arg, struct jinja_error *error) NODISCARD;

/* A sink that keeps the text and the origins of its pieces. Origin 0 leaves no span; neighbours of
 * the same origin are merged. */
struct jinja_output {
    struct buf *text;
    struct jinja_span *spans;
    size_t span_count;
    size_t span_cap;
};

void jinja_output_init(struct jinja_output *output, struct buf *text);
void jinja_output_fini(struct jinja_output *output); /* frees the spans, not the text */
enum err jinja_output_sink(void *output, struct str text, uint32_t origin);
