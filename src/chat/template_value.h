/*
 * template_value.h: converts a request's strings, contents and calls to values; template_shape.c
 * assembles them.
 *
 * All functions set the shaper's errinfo when they fail.
 */
#ifndef HEARTH_CHAT_TEMPLATE_VALUE_H
#define HEARTH_CHAT_TEMPLATE_VALUE_H

#include "base/buf.h"
#include "chat/template_impl.h"

enum {
    SHAPER_TEXT_BYTES_MAX = 256 << 20
}; /* of joined text; the arena's limit is reached before */

struct named_id;

struct yyjson_val;

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

static inline void append_str(struct buf *buf, struct str text)
{
    buf_append(buf, text.ptr, text.len);
}

enum err shaper_fail_memory(struct shaper *s); /* ERR_NOMEM or ERR_LIMIT */

/* The client's text, with its own number. */
struct jinja_value shaper_client_text(struct shaper *s, struct str text);
enum err shaper_convert(struct shaper *s, struct yyjson_val *json,
                        struct jinja_value *out) NODISCARD;
/* A new list and a new dict. */
enum err shaper_list(struct shaper *s, struct jinja_value *out) NODISCARD;
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
enum err shaper_spoken_calls(struct shaper *s, const struct message *message,
                             struct str *out) NODISCARD;

/* The tools as a list for the template. */
enum err shaper_tools(struct shaper *s, struct jinja_value *out) NODISCARD;

#endif
