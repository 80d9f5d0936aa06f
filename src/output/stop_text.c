/*
 * stop_text.c: see the header. Stop texts are few and short (GEN_STOPS_MAX), and `held` is no
 * longer than a piece and a stop text, so a plain search is enough.
 */
#include "output/stop_text.h"

#include <stdint.h>
#include <string.h>

enum { HELD_BYTES_MAX = 16 << 20 };

void stop_text_init(struct stop_text *stop, const char *const *stops, size_t stops_count)
{
    *stop = (struct stop_text){.stops = stops, .stops_count = stops_count, .found = -1};
    buf_init(&stop->held, HELD_BYTES_MAX);
}

void stop_text_fini(struct stop_text *stop)
{
    buf_fini(&stop->held);
}

/* Where the first stop text begins, or SIZE_MAX. If two begin there, the first listed wins. */
static size_t find_stop(struct stop_text *stop)
{
    size_t first = SIZE_MAX;

    for (size_t i = 0; i < stop->stops_count; i++) {
        size_t at = str_find(buf_text(&stop->held), str_from(stop->stops[i]));
        if (at < first) {
            first = at;
            stop->found = (int)i;
        }
    }
    return first;
}

/* How many bytes at the end of `all` are a proper prefix of `text`. */
static size_t begins_at_end(struct str all, struct str text)
{
    size_t most = text.len > 0 ? text.len - 1 : 0;

    for (size_t len = most < all.len ? most : all.len; len > 0; len--)
        if (memcmp(all.ptr + all.len - len, text.ptr, len) == 0)
            return len;
    return 0;
}

static size_t held_back(const struct stop_text *stop)
{
    size_t most = 0;

    for (size_t i = 0; i < stop->stops_count; i++) {
        size_t len = begins_at_end(buf_text(&stop->held), str_from(stop->stops[i]));
        most = len > most ? len : most;
    }
    return most;
}

/* Drops the bytes that the previous call handed out. */
static void drop_released(struct stop_text *stop)
{
    buf_consume(&stop->held, stop->released);
    stop->released = 0;
}

enum err stop_text_push(struct stop_text *stop, struct str text, struct str *out)
{
    *out = STR_NONE;
    if (stop->found >= 0)
        return ERR_OK;
    drop_released(stop);
    TRY(buf_append(&stop->held, text.ptr, text.len));
    size_t at = find_stop(stop);
    stop->released = at != SIZE_MAX ? at : stop->held.len - held_back(stop);
    *out = (struct str){buf_str(&stop->held), stop->released};
    return ERR_OK;
}

struct str stop_text_flush(struct stop_text *stop)
{
    if (stop->found >= 0)
        return STR_NONE;
    drop_released(stop);
    stop->released = stop->held.len;
    return buf_text(&stop->held);
}
