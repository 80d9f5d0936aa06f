/*
 * template_value.h: a request's strings, contents and calls as values, for template_shape.c, which
 * puts them together.
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

/* A request on its way to become a shape. */
struct shaper {
    const struct chat_template *tmpl;
    const struct chat_request *request;
    struct arena *arena;
    struct chat_shape *shape;
    struct jinja_value list; /* the messages */
    uint32_t next_origin;
    struct str pending;      /* system text that waits for a user's message */
    struct jinja_value host; /* the message that more text is added to, else missing */
    struct str host_text;
    struct jinja_value last; /* the message that was added last */
    enum role next;          /* of the message after the one that is shaped; ROLE_NONE: none */
    struct named_id *ids;    /* the last one first; only for templates with caps.ids_named */
    unsigned id_count;
    struct errinfo *info;
};

static inline void append_str(struct buf *buf, struct str text)
{
    buf_append(buf, text.ptr, text.len);
}

enum err shaper_fail_memory(struct shaper *s); /* ERR_NOMEM or ERR_LIMIT */

/* The client's text, with a number of its own. */
struct jinja_value shaper_client_text(struct shaper *s, struct str text);
enum err shaper_convert(struct shaper *s, struct yyjson_val *json,
                        struct jinja_value *out) NODISCARD;
/* A list and a dict that are to be filled. */
enum err shaper_list(struct shaper *s, struct jinja_value *out) NODISCARD;
enum err shaper_dict(struct shaper *s, struct jinja_value *out) NODISCARD;
enum err shaper_set(struct shaper *s, struct jinja_value dict, const char *key,
                    struct jinja_value value) NODISCARD;

/* Moves built text to the arena and frees the buffer, whatever happens. */
enum err shaper_take_text(struct shaper *s, struct buf *buf, struct str *out) NODISCARD;
enum err shaper_join(struct shaper *s, struct str a, struct str between, struct str b,
                     struct str *out) NODISCARD;

/* A content as one text, a line for each part; in the form that the template wants; and one that is
 * a text of ours already. */
enum err shaper_flat_text(struct shaper *s, const struct message *message,
                          struct str *out) NODISCARD;
enum err shaper_content(struct shaper *s, const struct message *message,
                        struct jinja_value *out) NODISCARD;
enum err shaper_text(struct shaper *s, struct str text, struct jinja_value *out) NODISCARD;

/* Ids and calls in the form that the template wants; and what an assistant said and the calls it
 * made in one text. */
enum err shaper_id(struct shaper *s, struct str id, struct jinja_value *out) NODISCARD;
enum err shaper_calls(struct shaper *s, const struct message *message,
                      struct jinja_value *out) NODISCARD;
enum err shaper_spoken_calls(struct shaper *s, const struct message *message,
                             struct str *out) NODISCARD;

/* The tools as a list for the template. */
enum err shaper_tools(struct shaper *s, struct jinja_value *out) NODISCARD;

#endif
