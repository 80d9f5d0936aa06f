/*
 * neutral.c: the table of rules, and the text rules: functions that find the next match to
 * replace. See neutral.h.
 *
 * Each text rule searches for a rare marker first (a header's name, "cch=", a colon between digits), so
 * that a system prompt of a hundred kilobytes costs a few scans, and no copy when nothing matches.
 */
#include "chat/neutral.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"

enum {
    TEXT_BYTES_MAX = 256 << 20,
    DAY_S = 24 * 60 * 60,
    CCH_DIGITS_MAX = 64,
    /* from the name of a month to the end of its year, or between date and time */
    DATE_BYTES_MAX = 20,
};

struct neutral {
    bool on[NEUTRAL_COUNT];
    atomic_uint_fast64_t counts[NEUTRAL_COUNT]; /* relaxed: statistics only */
};

/* The range to replace, and its replacement. */
struct match {
    size_t begin, end;
    struct str with;
};

/* The next match at or after `from`. */
typedef bool find_fn(struct str text, size_t from, struct match *match);

static size_t count_digits(struct str text, size_t at)
{
    size_t n = 0;

    while (at + n < text.len && str_is_digit(text.ptr[at + n]))
        n++;
    return n;
}

/* ---- billing-header: the whole line, with its end ---- */

/* Where the header ends whose value is at `at`. Gateways that send Claude Code's requests on in
 * another dialect put the next text directly after the value, " NAME=VALUE; NAME=VALUE;". */
static size_t billing_end(struct str text, size_t at)
{
    size_t end = at, line_end = str_find_from(text, at, STR("\n"));
    struct str rest = str_skip(text, at), pair;

    if (line_end != SIZE_MAX)
        rest.len = line_end++ - at;
    while (str_next(&rest, ';', &pair)) {
        pair = str_trim(pair);
        if (str_find(pair, STR("=")) == SIZE_MAX || str_find(pair, STR(" ")) != SIZE_MAX)
            return end > at && pair.len > 0 ? end : line_end;
        end = (size_t)(pair.ptr + pair.len - text.ptr) + 1;
    }
    return line_end;
}

static bool find_billing(struct str text, size_t from, struct match *match)
{
    static const struct str name = {"x-anthropic-billing-header:", 27};

    for (size_t at = from; (at = str_find_from(text, at, name)) != SIZE_MAX; at += name.len) {
        size_t begin = at;
        while (begin > from && (text.ptr[begin - 1] == ' ' || text.ptr[begin - 1] == '\t'))
            begin--;
        if (begin > 0 && text.ptr[begin - 1] != '\n')
            continue; /* text that merely mentions the header */
        size_t end = billing_end(text, at + name.len);
        *match = (struct match){begin, end == SIZE_MAX ? text.len : end, STR("")};
        return true;
    }
    return false;
}

/* ---- cch: the value only ---- */

static bool find_cch(struct str text, size_t from, struct match *match)
{
    for (size_t at = from; (at = str_find_from(text, at, STR("cch="))) != SIZE_MAX;) {
        bool word = at > 0 && (str_is_letter(text.ptr[at - 1]) || str_is_digit(text.ptr[at - 1]));
        size_t begin = at += 4;
        while (at < text.len && str_hex(text.ptr[at]) >= 0)
            at++;
        bool ends = at == text.len || !(str_is_letter(text.ptr[at]) || str_is_digit(text.ptr[at]));
        /* "0" is the placeholder itself. */
        bool done = at == begin + 1 && text.ptr[begin] == '0';
        *match = (struct match){begin, at, STR("0")};
        if (!word && ends && !done && at > begin && at - begin <= CCH_DIGITS_MAX)
            return true;
    }
    return false;
}

/* ---- clock: a time of day after a date ---- */

/* A name, or its first letters: Nov, Sept. */
static bool is_month(struct str word)
{
    static const char *const names[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};

    for (size_t i = 0; i < COUNT_OF(names) && word.len >= 3; i++)
        if (str_starts(str_from(names[i]), word))
            return true;
    return false;
}

static size_t count_letters(struct str text, size_t at)
{
    size_t n = 0;

    while (at + n < text.len && str_is_letter(text.ptr[at + n]))
        n++;
    return n;
}

/* What may be between a month and the number after it: nothing but a day, such as " 15, " or
 * " 15th ". */
static bool is_day(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool ordinal = i > 0 && str_is_digit(text.ptr[i - 1]) && count_letters(text, i) == 2;
        if (ordinal)
            i++;
        else if (!str_is_digit(text.ptr[i]) && strchr(" ,.-", text.ptr[i]) == NULL)
            return false;
    }
    return true;
}

/* Is there a month within the last bytes before `end`, and only a day between? */
static bool has_month(struct str text, size_t end)
{
    size_t at = end > DATE_BYTES_MAX ? end - DATE_BYTES_MAX : 0;

    text.len = end;
    while (at > 0 && at < end && str_is_letter(text.ptr[at - 1]))
        at++;
    for (size_t len; at < end; at += len + 1) {
        len = count_letters(text, at);
        if (is_month((struct str){text.ptr + at, len}) && is_day(str_skip(text, at + len)))
            return true;
    }
    return false;
}

/* The number of digits, one to `max`, that the text has just before `end`. */
static size_t digits_before(struct str text, size_t end, size_t max)
{
    size_t n = 0;

    while (n < end && str_is_digit(text.ptr[end - n - 1]))
        n++;
    return n <= max ? n : 0;
}

/* 2026-11-15, 2026/11/15, 15.11.2026, 11/15/2026; not the end of 192.168.10.20 */
static bool is_numeric_date(struct str text, size_t end)
{
    size_t digits[3], at = end;
    char between = '\0';

    for (int part = 2; part >= 0; part--) {
        digits[part] = digits_before(text, at, 4);
        if (digits[part] == 0)
            return false;
        at -= digits[part];
        if (at == 0 && part > 0)
            return false;
        if (part == 2)
            between = text.ptr[at - 1];
        if (part > 0 && (text.ptr[--at] != between || strchr("-/.", between) == NULL))
            return false;
    }
    size_t year = MAX(digits[0], digits[2]), day = MIN(digits[0], digits[2]);
    return (year == 4 || year == 2) && day <= 2 && digits[1] <= 2 && year + day + digits[1] >= 6 &&
           (at == 0 || text.ptr[at - 1] != between);
}

/* Does a date end at `end`? November 15, 2026; 15 Nov 2026; Nov 15 (of `date`, whose year comes
 * last) */
static bool is_date(struct str text, size_t end)
{
    size_t n = digits_before(text, end, 4);

    return is_numeric_date(text, end) || ((n == 4 || n == 1 || n == 2) && has_month(text, end - n));
}

/* Where the separator between date and time begins: "T", " ", ", ", " at ", ", at " */
static size_t date_end(struct str text, size_t time)
{
    static const struct str separators[] = {
        {", at ", 5}, {" at ", 4}, {", ", 2}, {" ", 1}, {"T", 1}};

    for (size_t i = 0; i < COUNT_OF(separators); i++) {
        struct str s = separators[i];
        if (time >= s.len && memcmp(text.ptr + time - s.len, s.ptr, s.len) == 0)
            return time - s.len;
    }
    return SIZE_MAX;
}

static size_t skip_zone(struct str text, size_t at)
{
    static const struct str names[] = {{" AM", 3}, {" PM", 3}, {" am", 3}, {" pm", 3},  {"AM", 2},
                                       {"PM", 2},  {"am", 2},  {"pm", 2},  {" UTC", 4}, {" GMT", 4},
                                       {"UTC", 3}, {"GMT", 3}, {"Z", 1}};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_starts(str_skip(text, at), names[i]) &&
            count_letters(text, at + names[i].len) == 0) {
            at += names[i].len;
            break;
        }
    size_t sign = at + (at < text.len && text.ptr[at] == ' ');
    if (sign < text.len && (text.ptr[sign] == '+' || text.ptr[sign] == '-')) {
        size_t n = count_digits(text, sign + 1);
        bool colon = n == 2 && sign + 3 < text.len && text.ptr[sign + 3] == ':' &&
                     count_digits(text, sign + 4) == 2;
        if (n == 4 || colon)
            at = sign + (colon ? 6 : 5);
    }
    return at;
}

/* The end of a time that begins at `at` (10:33, 10:33:12, 10:33:12.345Z, 9:05 PM); SIZE_MAX if
 * there is none. */
static size_t time_end(struct str text, size_t at)
{
    size_t hours = count_digits(text, at);

    if (hours == 0 || hours > 2)
        return SIZE_MAX;
    at += hours;
    for (int part = 0; part < 2; part++) {
        if (at >= text.len || text.ptr[at] != ':' || count_digits(text, at + 1) != 2)
            return part == 0 ? SIZE_MAX : skip_zone(text, at);
        at += 3;
    }
    if (at < text.len && text.ptr[at] == '.' && count_digits(text, at + 1) > 0)
        at += 1 + count_digits(text, at + 1);
    return skip_zone(text, at);
}

static bool find_clock(struct str text, size_t from, struct match *match)
{
    for (size_t colon = from; (colon = str_find_from(text, colon, STR(":"))) != SIZE_MAX; colon++) {
        size_t hours = digits_before(text, colon, 2);
        size_t begin = hours > 0 ? date_end(text, colon - hours) : SIZE_MAX;
        size_t end = hours > 0 ? time_end(text, colon - hours) : SIZE_MAX;
        if (begin == SIZE_MAX || end == SIZE_MAX || begin < from || !is_date(text, begin))
            continue;
        *match = (struct match){begin, end, STR("")};
        return true;
    }
    return false;
}

/* ---- the rules ---- */

static const struct {
    const char *name;
    bool on;
    const char *description;
} rules[] = {
#define X(value, name, on, description) {name, on, description},
    NEUTRAL_TABLE(X)
#undef X
};

static find_fn *const finders[NEUTRAL_COUNT] = {
    [NEUTRAL_BILLING] = find_billing,
    [NEUTRAL_CCH] = find_cch,
    [NEUTRAL_CLOCK] = find_clock,
};

struct neutral *neutral_create(void)
{
    struct neutral *neutral = mem_alloc(sizeof(*neutral));

    for (size_t i = 0; i < NEUTRAL_COUNT; i++)
        neutral->on[i] = rules[i].on;
    return neutral;
}

void neutral_destroy(struct neutral **neutral)
{
    mem_free(*neutral);
    *neutral = NULL;
}

enum err neutral_switch(struct neutral *neutral, struct str name, bool on)
{
    for (size_t i = 0; i < NEUTRAL_COUNT; i++)
        if (str_eq(name, str_from(rules[i].name))) {
            neutral->on[i] = on;
            return ERR_OK;
        }
    return ERR_NOT_FOUND;
}

struct neutral_info neutral_info(const struct neutral *neutral, enum neutral_rule rule)
{
    assert((unsigned)rule < NEUTRAL_COUNT);
    return (struct neutral_info){
        .name = rules[rule].name,
        .description = rules[rule].description,
        .on = neutral->on[rule],
        .count = atomic_load_explicit(&neutral->counts[rule], memory_order_relaxed),
    };
}

bool neutral_is_on(const struct neutral *neutral, enum neutral_rule rule)
{
    return neutral->on[rule];
}

void neutral_count(struct neutral *neutral, struct neutral_tally *tally, enum neutral_rule rule,
                   uint32_t changes)
{
    tally->counts[rule] += changes;
    atomic_fetch_add_explicit(&neutral->counts[rule], changes, memory_order_relaxed);
}

/* Applies one rule whose first match is already known. */
static enum err replace(struct arena *arena, find_fn *find, struct match match, struct str *text,
                        uint32_t *replaced)
{
    size_t from = 0;
    struct buf buf;

    buf_init(&buf, TEXT_BYTES_MAX);
    *replaced = 0;
    do {
        buf_append(&buf, text->ptr + from, match.begin - from);
        buf_append(&buf, match.with.ptr, match.with.len);
        from = match.end;
        ++*replaced;
    } while (find(*text, from, &match));
    buf_append(&buf, text->ptr + from, text->len - from);
    return buf_move(&buf, arena, text);
}

enum err neutral_text(struct neutral *neutral, struct arena *arena, struct str text,
                      struct neutral_tally *tally, struct str *out)
{
    struct match match;
    uint32_t replaced;

    for (int rule = 0; rule < NEUTRAL_COUNT; rule++) {
        if (!neutral->on[rule] || finders[rule] == NULL || !finders[rule](text, 0, &match))
            continue;
        TRY(replace(arena, finders[rule], match, &text, &replaced));
        neutral_count(neutral, tally, (enum neutral_rule)rule, replaced);
    }
    *out = text;
    return ERR_OK;
}

size_t neutral_find_transient(struct str text)
{
    static const struct str tags[] = {
        {"<system-reminder>", 17}, {"<environment_details>", 21}, {"<total_tokens>", 14},
        {"<system_warning>", 16},  {"<environment_context>", 21}, {"<env>", 5},
        {"<additional_data>", 17},
    };
    size_t first = SIZE_MAX;

    for (size_t i = 0; i < COUNT_OF(tags); i++) {
        size_t at = str_find(text, tags[i]);
        if (at < first) {
            first = at;
            text.len = MIN(text.len, at + tags[i].len); /* an earlier one ends before that */
        }
    }
    while (first != SIZE_MAX && first > 0 && str_is_space(text.ptr[first - 1]))
        first--;
    return first;
}

int64_t neutral_now(const struct neutral *neutral, int64_t now_s)
{
    if (!neutral->on[NEUTRAL_TEMPLATE_CLOCK])
        return now_s;
    return now_s - (now_s % DAY_S + DAY_S) % DAY_S;
}

void neutral_write_tally(const struct neutral_tally *tally, struct buf *out)
{
    const char *separator = "";

    for (size_t i = 0; i < NEUTRAL_COUNT; i++) {
        if (tally->counts[i] == 0)
            continue;
        buf_appendf(out, "%s%s", separator, rules[i].name);
        if (tally->counts[i] > 1)
            buf_appendf(out, " %u", tally->counts[i]);
        separator = ", ";
    }
}
