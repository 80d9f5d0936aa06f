/*
 * top_view.c: the picture of `hearth top`, line by line.
 *
 * A line is built from pieces, each with a style; what does not fit is cut, whole characters at a
 * time, so that a narrow terminal shows the beginning of every line and never a broken one.
 */
#include "cli/top_view.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/units.h"
#include "cli/remote.h"

enum {
    PIECE_BYTES = 512,
    BAR_CELLS = 30,
    SMALL_BAR_CELLS = 16,
    RECENT_MAX = 8,
    REASONS_MAX = 16,
    CLIENT_LEFT = 499 /* status of a request whose client disconnected */
};

enum style { STYLE_PLAIN, STYLE_HEAD, STYLE_GOOD, STYLE_SLOW, STYLE_BAD, STYLE_DIM };

static const char *const styles[] = {
    [STYLE_PLAIN] = "",        [STYLE_HEAD] = "\x1b[1m", [STYLE_GOOD] = "\x1b[32m",
    [STYLE_SLOW] = "\x1b[33m", [STYLE_BAD] = "\x1b[31m", [STYLE_DIM] = "\x1b[2m"};

struct pen {
    const struct top_view *view;
    struct buf *out;
    int column, row;
};

/* ---- pieces and lines ---- */

/* How many bytes of the text fit, and how many columns those take: a character is one column. */
static size_t fitting(const struct pen *pen, const char *text, int *columns)
{
    int room = pen->view->columns > 0 ? pen->view->columns - pen->column : INT32_MAX;
    size_t at = 0;

    *columns = 0;
    while (text[at] != '\0') {
        bool starts = ((unsigned char)text[at] & 0xc0) != 0x80;
        if (starts && *columns == room)
            break;
        *columns += starts;
        at++;
    }
    return at;
}

PRINTF(3, 4)
static void put(struct pen *pen, enum style style, const char *fmt, ...)
{
    char text[PIECE_BYTES];
    va_list args;
    int columns;

    if (pen->view->rows > 0 && pen->row >= pen->view->rows)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fields_clean(text);
    size_t len = fitting(pen, text, &columns);
    bool styled = pen->view->color && style != STYLE_PLAIN && len > 0;
    buf_append_str(pen->out, styled ? styles[style] : "");
    buf_append(pen->out, text, len);
    buf_append_str(pen->out, styled ? "\x1b[0m" : "");
    pen->column += columns;
}

/* The last line has no newline: the terminal would scroll. */
static void end_line(struct pen *pen)
{
    const struct top_view *view = pen->view;

    if (view->rows > 0 && pen->row >= view->rows)
        return;
    if (view->screen)
        buf_append_str(pen->out, "\x1b[K");
    pen->row++;
    pen->column = 0;
    if (view->rows == 0 || pen->row < view->rows)
        buf_append_str(pen->out, view->screen ? "\r\n" : "\n");
}

static void put_bar(struct pen *pen, enum style style, double part, int cells)
{
    int full = (int)(fmin(fmax(part, 0), 1) * cells + 0.5);
    char bar[BAR_CELLS + 1];

    memset(bar, '#', (size_t)full);
    memset(bar + full, '.', (size_t)(cells - full));
    bar[cells] = '\0';
    put(pen, STYLE_PLAIN, "[");
    put(pen, style, "%.*s", full, bar);
    put(pen, STYLE_DIM, "%s", bar + full);
    put(pen, STYLE_PLAIN, "]");
}

static enum style style_of_part(double part)
{
    return part >= 0.8 ? STYLE_GOOD : part >= 0.4 ? STYLE_SLOW : STYLE_BAD;
}

/* ---- the head: how much was reused ---- */

static void draw_title(struct pen *pen)
{
    char up[FIELDS_TEXT_BYTES];
    yyjson_val *stats = pen->view->stats;

    put(pen, STYLE_HEAD, "hearth %s", fields_text(stats, "version", ""));
    put(pen, STYLE_PLAIN, " at %s", pen->view->url);
    if (stats != NULL)
        put(pen, STYLE_PLAIN, ", up %s", fields_time(stats, "uptime_s", up));
    end_line(pen);
    if (pen->view->trouble != NULL)
        put(pen, STYLE_BAD, "%s", pen->view->trouble);
    end_line(pen);
}

static void draw_efficiency(struct pen *pen)
{
    yyjson_val *session = fields_get(pen->view->stats, "session");
    double efficiency = fields_number(session, "efficiency", 0);
    char prompt[FIELDS_TEXT_BYTES], requests[FIELDS_TEXT_BYTES], saved[FIELDS_TEXT_BYTES];
    char twice[FIELDS_TEXT_BYTES];

    put(pen, STYLE_HEAD, "reused    ");
    put_bar(pen, style_of_part(efficiency), efficiency, BAR_CELLS);
    put(pen, STYLE_PLAIN, " %5.1f %% of %s tokens in %s requests, %s saved, %s computed twice",
        100 * efficiency, fields_count(session, "prompt_tokens", prompt),
        fields_count(session, "requests", requests), fields_time(session, "saved_s", saved),
        fields_count(session, "computed_twice", twice));
    end_line(pen);
}

/* Where the tokens of all prompts came from. */
static void draw_flow(struct pen *pen)
{
    static const struct {
        const char *name;
        enum style style;
    } parts[] = {{"device", STYLE_GOOD},
                 {"ram", STYLE_GOOD},
                 {"ssd", STYLE_SLOW},
                 {"remote", STYLE_SLOW},
                 {"computed", STYLE_BAD}};
    yyjson_val *session = fields_get(pen->view->stats, "session");
    yyjson_val *tokens = fields_get(session, "tokens");
    double all = fields_number(session, "prompt_tokens", 0);
    char text[FIELDS_TEXT_BYTES];

    put(pen, STYLE_HEAD, "came from ");
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        double part = all > 0 ? fields_number(tokens, parts[i].name, 0) / all : 0;
        put(pen, part > 0 ? parts[i].style : STYLE_DIM, "%s%s %s (%.0f %%)", i > 0 ? "  " : "",
            parts[i].name, fields_count(tokens, parts[i].name, text), 100 * part);
    }
    end_line(pen);
}

static void draw_rates(struct pen *pen)
{
    static const char *const spans[] = {"1m", "5m", "15m"};
    yyjson_val *rates = fields_get(pen->view->stats, "rates");

    put(pen, STYLE_HEAD, "rates    ");
    for (size_t i = 0; i < COUNT_OF(spans); i++) {
        yyjson_val *rate = fields_get(rates, spans[i]);
        put(pen, STYLE_PLAIN, " %s %.2f req/s, %.0f tok/s, %.0f %% hits%s", spans[i],
            fields_number(rate, "requests_per_s", 0), fields_number(rate, "prompt_tokens_per_s", 0),
            100 * fields_number(rate, "hit_rate", 0), i + 1 < COUNT_OF(spans) ? " |" : "");
    }
    end_line(pen);
}

/* ---- gauges ---- */

static void draw_tier(struct pen *pen, yyjson_val *tier)
{
    double used = fields_number(tier, "used", 0), cap = fields_number(tier, "cap", 0);
    double objects = fields_number(tier, "objects", 0);
    const char *state = fields_text(tier, "state", "ok");
    char used_text[UNITS_TEXT_BYTES], cap_text[UNITS_TEXT_BYTES];

    if (strcmp(state, "off") == 0)
        return; /* not attached */
    put(pen, STYLE_HEAD, "%-9s ", fields_text(tier, "tier", "?"));
    put_bar(pen, STYLE_GOOD, cap > 0 ? used / cap : 0, BAR_CELLS);
    put(pen, STYLE_PLAIN, " %s of %s, %.0f object%s, %.0f hits, %.0f stored, %.0f evicted",
        units_format_size(fields_uint(tier, "used"), used_text),
        units_format_size(fields_uint(tier, "cap"), cap_text), objects, objects == 1 ? "" : "s",
        fields_number(tier, "hits", 0), fields_number(tier, "stores", 0),
        fields_number(tier, "evictions", 0));
    if (strcmp(state, "ok") != 0)
        put(pen, STYLE_BAD, " %s", state);
    end_line(pen);
}

static void draw_tiers(struct pen *pen)
{
    yyjson_val *tier;

    FIELDS_FOREACH (tier, fields_get(pen->view->stats, "tiers"))
        draw_tier(pen, tier);
}

/* Reasons that occurred, the most frequent first. */
static void draw_misses(struct pen *pen)
{
    struct {
        const char *name;
        double tokens;
    } reasons[REASONS_MAX];
    char text[FIELDS_TEXT_BYTES];
    yyjson_obj_iter iter;
    yyjson_val *key;
    size_t count = 0;

    yyjson_obj_iter_init(fields_get(pen->view->stats, "miss"), &iter);
    while ((key = yyjson_obj_iter_next(&iter)) != NULL && count < REASONS_MAX) {
        double tokens = yyjson_get_num(yyjson_obj_iter_get_val(key));
        size_t at = count;
        if (tokens <= 0)
            continue;
        for (; at > 0 && reasons[at - 1].tokens < tokens; at--)
            reasons[at] = reasons[at - 1];
        reasons[at].name = yyjson_get_str(key);
        reasons[at].tokens = tokens;
        count++;
    }
    put(pen, STYLE_HEAD, "misses   ");
    for (size_t i = 0; i < count; i++)
        put(pen, STYLE_PLAIN, "%s %s %.0f%s", i > 0 ? "," : "",
            fields_reason(reasons[i].name, text), reasons[i].tokens,
            i + 1 == count ? " tokens" : "");
    if (count == 0)
        put(pen, STYLE_DIM, " none");
    end_line(pen);
}

/* ---- requests ---- */

static void put_id(struct pen *pen, yyjson_val *id)
{
    if (yyjson_is_str(id))
        put(pen, STYLE_PLAIN, "%-22s", yyjson_get_str(id));
    else
        put(pen, STYLE_PLAIN, "%-8.0f", yyjson_get_num(id));
}

/* The bar is the prompt: the reused part, and what has been computed so far. */
static void draw_request(struct pen *pen, yyjson_val *request)
{
    double prompt = fields_number(request, "prompt_tokens", 0);
    double done =
        fields_number(request, "cached_tokens", 0) + fields_number(request, "computed_tokens", 0);
    char eta[FIELDS_TEXT_BYTES], age[FIELDS_TEXT_BYTES];

    put(pen, STYLE_PLAIN, "  ");
    put_id(pen, fields_get(request, "id"));
    put(pen, STYLE_PLAIN, " %-14.14s %-9.9s ", fields_text(request, "model", "-"),
        fields_text(request, "phase", "-"));
    put_bar(pen, STYLE_GOOD, prompt > 0 ? done / prompt : 0, SMALL_BAR_CELLS);
    put(pen, STYLE_PLAIN, " %3.0f %% of %.0f, +%.0f at %.1f tok/s",
        prompt > 0 ? 100 * fmin(done / prompt, 1) : 0, prompt,
        fields_number(request, "generated_tokens", 0), fields_number(request, "tokens_per_s", 0));
    if (yyjson_is_num(fields_get(request, "eta_s")))
        put(pen, STYLE_PLAIN, ", %s left", fields_time(request, "eta_s", eta));
    put(pen, STYLE_DIM, ", %s old", fields_time(request, "age_s", age));
    end_line(pen);
}

static void draw_requests(struct pen *pen)
{
    yyjson_val *list = fields_get(pen->view->requests, "requests"), *request;

    put(pen, STYLE_HEAD, "%zu running", yyjson_arr_size(list));
    end_line(pen);
    FIELDS_FOREACH (request, list)
        draw_request(pen, request);
}

/* As in the log: "diverged at 27540 (user[3])". */
static void put_reason(struct pen *pen, yyjson_val *request, double prompt)
{
    const char *reason = fields_text(request, "reason", "none"),
               *message = fields_text(request, "message", NULL);
    double at = fields_number(request, "first_difference", prompt);
    char text[FIELDS_TEXT_BYTES];

    if (yyjson_get_bool(fields_get(request, "new_conversation"))) {
        put(pen, STYLE_PLAIN, ", new conversation");
        return;
    }
    bool is_new = strcmp(reason, "short") == 0 && at < prompt;
    put(pen, STYLE_PLAIN, ", %s", is_new ? "new from token" : fields_reason(reason, text));
    if (strcmp(reason, "none") == 0 || strcmp(reason, "cold") == 0 || at >= prompt)
        return;
    put(pen, STYLE_PLAIN, is_new ? " %.0f" : " at %.0f", at);
    if (message != NULL)
        put(pen, STYLE_PLAIN, " (%s)", message);
}

static void draw_ended(struct pen *pen, yyjson_val *request)
{
    static const char *const tiers[] = {"device", "ram", "ssd", "remote"};
    char ttft[FIELDS_TEXT_BYTES];
    double prompt = fields_number(request, "prompt_tokens", 0), reused = 0;
    double status = fields_number(request, "status", 200);

    for (size_t i = 0; i < COUNT_OF(tiers); i++)
        reused += fields_number(fields_get(request, "tokens"), tiers[i], 0);
    put(pen, STYLE_PLAIN, "  ");
    put_id(pen, fields_get(request, "id"));
    put(pen, STYLE_PLAIN, " %-14.14s ", fields_text(request, "model", "-"));
    put(pen, style_of_part(prompt > 0 ? reused / prompt : 0), "%.0f of %.0f reused", reused,
        prompt);
    put_reason(pen, request, prompt);
    if (fields_number(request, "ttft_s", 0) > 0)
        put(pen, STYLE_PLAIN, ", first token after %s", fields_time(request, "ttft_s", ttft));
    if (status == CLIENT_LEFT)
        put(pen, STYLE_DIM, ", client disconnected");
    else if (status != 200)
        put(pen, STYLE_BAD, ", error %.0f", status);
    end_line(pen);
}

/* The newest first: the server lists them in the order in which they ended; `when` tells which
 * end is the newest. */
static void draw_recent(struct pen *pen)
{
    yyjson_val *list = fields_get(pen->view->requests, "recent");
    size_t count = yyjson_arr_size(list);

    if (count == 0)
        return;
    double first = fields_number(yyjson_arr_get_first(list), "when", 0);
    bool newest_first = first >= fields_number(yyjson_arr_get_last(list), "when", 0);
    put(pen, STYLE_HEAD, "ended");
    end_line(pen);
    for (size_t i = 0; i < MIN(count, (size_t)RECENT_MAX); i++)
        draw_ended(pen, yyjson_arr_get(list, newest_first ? i : count - 1 - i));
}

void top_view_draw(const struct top_view *view, struct buf *out)
{
    struct pen pen = {.view = view, .out = out};

    buf_append_str(out, view->screen ? "\x1b[H" : "");
    draw_title(&pen);
    if (view->stats != NULL) {
        draw_efficiency(&pen);
        draw_flow(&pen);
        draw_rates(&pen);
        end_line(&pen);
        draw_tiers(&pen);
        draw_misses(&pen);
        end_line(&pen);
    }
    if (view->requests != NULL) {
        draw_requests(&pen);
        draw_recent(&pen);
    }
    buf_append_str(out, view->screen ? "\x1b[J" : "");
}
