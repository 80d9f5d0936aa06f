/*
 * template_impl.h: shared by the template files: template.c renders, template_shape.c turns
 * requests into values, template_marks.c finds boundaries, template_probe.c finds out what a
 * template supports.
 */
#pragma once

#include "base/arena.h"
#include "jinja/jinja.h"
#include "chat/template.h"

struct buf;

/* How a template expects tools, and the absence of tools, to be passed. */
enum chat_tools_style {
    CHAT_TOOLS_NONE,      /* tools is none, as in the reference implementation */
    CHAT_TOOLS_UNDEFINED, /* tools is undefined: the template loops over it without checking */
    CHAT_TOOLS_FUNCTIONS, /* `functions`, a JSON text, and `datetime` must be defined */
    CHAT_TOOLS_STYLE_COUNT
};

/* Formats found in the template's own renderings; their marks point into the arena. */
struct chat_learned {
    struct arena arena;
    struct call_format calls;
    struct reasoning_marks thoughts;
};

struct chat_template {
    struct jinja *jinja;
    struct chat_caps caps;
    enum chat_tools_style tools_style;
    struct output_formats formats;
    enum chat_calls calls;
    struct chat_learned *learned; /* owned; NULL: nothing was */
    bool thought_line;            /* a line break follows the opening of thoughts */
    char *bos, *eos;              /* owned */
    /* Marks that were seen to move from one turn to the next, or whose place is unknown. */
    bool mark_off[MARK_COUNT][ROLE_COUNT];
    /* system text or tools are inside messages, and not always in the same one */
    bool preamble_moves;
    /* the generation prompt is written inside a loop iteration: found by a second render */
    bool generation_twice;
    bool measured; /* the fields above are known */
    bool ready;    /* everything is known: no more probes, which have tighter limits */
};

/* ---- template_shape.c: from JSON to values ---- */

/* Message numbers for strings that belong to no message. */
enum { CHAT_FROM_TOOLS = UINT32_MAX - 1, CHAT_FROM_ELSEWHERE = UINT32_MAX };

/* Strings of the request are numbered (jinja/value.h); those from `first` up to the next source's
 * came from `message`. */
struct chat_source {
    uint32_t first;
    uint32_t message;
};

/* A message as the template sees it. */
struct chat_item {
    const void *object; /* its dict, which identifies a loop iteration */
    uint32_t message;
    enum role role;
};

/* A request in the form that the template expects; everything is in the arena. */
struct chat_shape {
    struct jinja_value vars;
    struct chat_item *items; /* in the order of the conversation */
    size_t item_count;
    struct chat_source *sources;
    size_t source_count;
    uint32_t leading; /* messages at the beginning that are system text */
    /* system text at the beginning of the first item's content, when there was no other place for
     * it */
    struct str folded;
};

/* The first `count` messages of the request. */
enum err chat_shape_make(const struct chat_template *tmpl, const struct chat_request *request,
                         size_t count, struct arena *arena, struct chat_shape *out,
                         struct errinfo *info) NODISCARD;
uint32_t chat_shape_message_of(const struct chat_shape *shape, uint32_t origin);

/* ---- template_value.c: strings, contents and calls to values ----
 *
 * All functions set the shaper's errinfo when they fail.
 */

enum {
    SHAPER_TEXT_BYTES_MAX = 256 << 20
}; /* of joined text; the arena's limit is reached before */

struct named_id;

/* A request being shaped. */
struct shaper {
    const struct chat_template *tmpl;
    const struct chat_request *request;
    struct arena *arena;
    struct chat_shape *shape;
    struct jinja_value list; /* the messages */
    uint32_t next_origin;
    struct str pending;      /* system text held back for the next user message */
    struct jinja_value host; /* the message that further text is appended to, else missing */
    struct str host_text;
    struct jinja_value last; /* the message that was added last */
    enum role next;          /* role of the message after the current one; ROLE_NONE: none */
    struct named_id *ids;    /* newest first; only for templates with caps.ids_named */
    unsigned id_count;
    struct errinfo *info;
};

enum err shaper_fail_memory(struct shaper *s); /* ERR_NOMEM or ERR_LIMIT */

/* The client's text, with its own number. */
struct jinja_value shaper_client_text(struct shaper *s, struct str text);
enum err shaper_convert(struct shaper *s, struct yyjson_val *json,
                        struct jinja_value *out) NODISCARD;
enum err shaper_dict(struct shaper *s, struct jinja_value *out) NODISCARD;
enum err shaper_set(struct shaper *s, struct jinja_value dict, const char *key,
                    struct jinja_value value) NODISCARD;

/* Moves built text to the arena; always frees the buffer. */
enum err shaper_take_text(struct shaper *s, struct buf *buf, struct str *out) NODISCARD;
enum err shaper_join(struct shaper *s, struct str a, struct str between, struct str b,
                     struct str *out) NODISCARD;

/* Content as one text, one line per part; content in the form that the template requires; and
 * content that is already our own text. */
enum err shaper_flat_text(struct shaper *s, const struct message *message,
                          struct str *out) NODISCARD;
enum err shaper_content(struct shaper *s, const struct message *message,
                        struct jinja_value *out) NODISCARD;
enum err shaper_text(struct shaper *s, struct str text, struct jinja_value *out) NODISCARD;

/* Ids and calls in the form that the template requires; and an assistant's content and calls as one
 * text. */
enum err shaper_id(struct shaper *s, struct str id, struct jinja_value *out) NODISCARD;
enum err shaper_calls(struct shaper *s, const struct message *message,
                      struct jinja_value *out) NODISCARD;
enum err shaper_calls_as_text(struct shaper *s, const struct message *message,
                              struct str *out) NODISCARD;

/* The tools as a list for the template. */
enum err shaper_tools(struct shaper *s, struct jinja_value *out) NODISCARD;

/* ---- template_marks.c: from rounds and spans to marks ---- */

struct chat_round {
    const void *object;
    uint32_t item;
    unsigned depth;    /* running iterations with this item */
    unsigned writes;   /* iterations that wrote something; marks are known only if this is 1 */
    size_t open;       /* where the running iteration began */
    size_t begin, end; /* of the last one that wrote */
};

/* Observes a render. */
struct chat_rounds {
    struct chat_round *rounds; /* one per item, sorted by object */
    size_t count;
    const struct buf *text;
};

enum err chat_rounds_init(struct chat_rounds *rounds, const struct chat_shape *shape,
                          const struct buf *text, struct arena *arena) NODISCARD;
void chat_rounds_on_round(void *rounds, const struct jinja_value *item, bool end);

/* A finished render. */
struct chat_render {
    const struct chat_template *tmpl;
    const struct chat_shape *shape;
    const struct jinja_span *spans;
    size_t span_count;
    struct chat_rounds rounds;
    struct str text;
    size_t generation; /* SIZE_MAX: not known */
    bool open;         /* the last message is not finished */
    const struct chat_request *request;
};

/* Where the last message that wrote anything ends; SIZE_MAX if none did. */
size_t chat_marks_end(const struct chat_render *render);
enum err chat_marks_make(const struct chat_render *render, struct arena *arena,
                         struct chat_text *out) NODISCARD;

/* ---- conversations to probe a template with ---- */

/* Initializers of a message that is one text, and of a call. */
#define CHAT_SAID(who, words)                                                                      \
    .role = (who), .form = CONTENT_TEXT, .parts = (struct part[]){{{(words), sizeof(words) - 1}}}, \
    .parts_count = 1
#define CHAT_CALL(id, name, arguments)                      \
    {                                                       \
        {(id), sizeof(id) - 1}, {(name), sizeof(name) - 1}, \
        {                                                   \
            (arguments), sizeof(arguments) - 1              \
        }                                                   \
    }

/* ---- template_probe.c ---- */

/* Fills caps and tools_style. */
enum err chat_probe(struct chat_template *tmpl, struct errinfo *info) NODISCARD;

/* ---- template_learn.c ---- */

/* Fills formats and calls; after the caps are known. And frees what was learned. */
enum err chat_learn(struct chat_template *tmpl, struct str source, struct errinfo *info) NODISCARD;
void chat_forget(struct chat_template *tmpl);

/* ---- template_stable.c ---- */

/* Fills mark_off and generation_twice; after the caps are known. */
enum err chat_stable_measure(struct chat_template *tmpl, struct errinfo *info) NODISCARD;
