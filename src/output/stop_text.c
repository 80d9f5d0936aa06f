/*
 * stop_text.c: see the header. Stop texts are few and short (GEN_STOPS_MAX), and `held` is no
 * longer than a token and a stop text, so a plain search is enough.
 */
#include "output/stop_text.h"

#include <string.h>

enum { HELD_BYTES_MAX = 1 << 20 };

void text_init(struct text *text, const struct engine *engine, bool control,
               const char *const *stops, size_t stops_count)
{
    *text = (struct text){.stops = stops, .stops_count = stops_count, .stop = -1};
    detok_init(&text->detok, engine, control);
    buf_init(&text->held, HELD_BYTES_MAX);
}

void text_fini(struct text *text)
{
    buf_fini(&text->held);
}

static struct str held(const struct text *text)
{
    return (struct str){buf_str(&text->held), text->held.len};
}

/* Where the first stop text begins, or SIZE_MAX. If two begin there, the first listed wins. */
static size_t find_stop(struct text *text)
{
    size_t first = SIZE_MAX;

    for (size_t i = 0; i < text->stops_count; i++) {
        size_t at = str_find(held(text), str_from(text->stops[i]));
        if (at < first) {
            first = at;
            text->stop = (int)i;
        }
    }
    return first;
}

/* How many bytes at the end of `all` are a proper prefix of `stop`. */
static size_t begins_at_end(struct str all, struct str stop)
{
    size_t most = stop.len > 0 ? stop.len - 1 : 0;

    for (size_t len = most < all.len ? most : all.len; len > 0; len--)
        if (memcmp(all.ptr + all.len - len, stop.ptr, len) == 0)
            return len;
    return 0;
}

static size_t held_back(const struct text *text)
{
    size_t most = 0;

    for (size_t i = 0; i < text->stops_count; i++) {
        size_t len = begins_at_end(held(text), str_from(text->stops[i]));
        most = len > most ? len : most;
    }
    return most;
}

/* Drops the bytes that the previous call handed out; false after a stop text. */
static bool begin(struct text *text, struct str *out)
{
    *out = STR_NONE;
    if (text->stop >= 0)
        return false;
    buf_consume(&text->held, text->released);
    text->released = 0;
    return true;
}

static struct str release(struct text *text)
{
    size_t stop = find_stop(text);

    if (stop != SIZE_MAX)
        buf_truncate(&text->held, stop);
    text->released = stop != SIZE_MAX ? stop : text->held.len - held_back(text);
    return (struct str){buf_str(&text->held), text->released};
}

enum err text_push(struct text *text, token_id token, struct str *out)
{
    if (!begin(text, out))
        return ERR_OK;
    TRY(detok_push(&text->detok, token, &text->held));
    *out = release(text);
    return ERR_OK;
}

enum err text_push_bytes(struct text *text, const char *bytes, size_t len, struct str *out)
{
    if (!begin(text, out))
        return ERR_OK;
    TRY(detok_push_bytes(&text->detok, bytes, len, &text->held));
    *out = release(text);
    return ERR_OK;
}

enum err text_finish(struct text *text, struct str *out)
{
    if (!begin(text, out))
        return ERR_OK;
    TRY(detok_finish(&text->detok, &text->held));
    text->released = text->held.len;
    *out = held(text);
    return ERR_OK;
}
