/*
 * methods_query.c: methods of strings that answer a question: where a text is in it and how often,
 * of which characters it is.
 *
 * Positions are characters, as in Python, not bytes.
 */
#include "jinja/methods.h"
#include "jinja/unicode.h"

/* ---- searching ---- */

/* The part of the text that optional start and end arguments (characters, as in a slice) mean;
 * *base is its first character. False in *inside when start lies behind the end of the text, where
 * not even an empty text is found. */
static bool window(struct jinja_run *run, const struct jinja_value *self,
                   const struct jinja_value *bounds, struct str *out, int64_t *base, bool *inside)
{
    struct str text = jinja_text(*self);
    int64_t length, start = 0, end;

    *inside = true;
    *base = 0;
    *out = text;
    if (!jinja_spend(run, text.len))
        return false;
    if ((!given(&bounds[0]) || bounds[0].kind == JINJA_NONE) &&
        (!given(&bounds[1]) || bounds[1].kind == JINJA_NONE))
        return true;
    end = length = jinja_length(self);
    if (given(&bounds[0]) && bounds[0].kind != JINJA_NONE && !jinja_to_int(run, &bounds[0], &start))
        return false;
    if (given(&bounds[1]) && bounds[1].kind != JINJA_NONE && !jinja_to_int(run, &bounds[1], &end))
        return false;
    start = start < 0 ? MAX(start + length, 0) : start;
    end = end < 0 ? MAX(end + length, 0) : MIN(end, length);
    *inside = start <= end;
    if (!*inside) {
        *out = (struct str){"", 0};
        return true;
    }
    size_t from = utf8_offset(text, (size_t)start), to = utf8_offset(text, (size_t)end);
    *out = (struct str){text.ptr + from, to - from};
    *base = start;
    return true;
}

static size_t find_last(struct jinja_run *run, struct str text, struct str needle)
{
    size_t at = SIZE_MAX;

    if (needle.len == 0)
        return text.len;
    for (size_t from = 0; from + needle.len <= text.len;) {
        size_t found = str_find((struct str){text.ptr + from, text.len - from}, needle);
        if (found == SIZE_MAX || !jinja_spend(run, 0))
            break;
        at = from + found;
        from = at + 1;
    }
    return at;
}

static bool find(struct jinja_run *run, const struct jinja_value *self,
                 const struct jinja_value *args, bool last, int64_t *out)
{
    struct str text;
    int64_t base;
    bool inside;

    if (!need_str(run, &args[0]) || !window(run, self, &args[1], &text, &base, &inside))
        return false;
    size_t at =
        last ? find_last(run, text, jinja_text(args[0])) : str_find(text, jinja_text(args[0]));
    *out = -1;
    if (inside && at != SIZE_MAX)
        *out = base + (int64_t)utf8_count((struct str){text.ptr, at});
    return !run->failed;
}

static bool str_find_(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    int64_t at;

    if (!find(run, self, args, false, &at))
        return false;
    *out = jinja_int(at);
    return true;
}

static bool str_rfind(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    int64_t at;

    if (!find(run, self, args, true, &at))
        return false;
    *out = jinja_int(at);
    return true;
}

static bool str_index(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    return str_find_(run, self, args, out) &&
           (out->integer >= 0 || jinja_fail(run, "substring not found"));
}

static bool str_rindex(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value *args, struct jinja_value *out)
{
    return str_rfind(run, self, args, out) &&
           (out->integer >= 0 || jinja_fail(run, "substring not found"));
}

static bool str_count(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    struct str text;
    int64_t base, count = 0;
    bool inside;

    if (!need_str(run, &args[0]) || !window(run, self, &args[1], &text, &base, &inside))
        return false;
    struct str needle = jinja_text(args[0]);
    if (needle.len == 0)
        count = inside ? (int64_t)utf8_count(text) + 1 : 0;
    while (needle.len > 0) {
        size_t found = str_find(text, needle);
        if (found == SIZE_MAX)
            break;
        count++;
        text = (struct str){text.ptr + found + needle.len, text.len - found - needle.len};
        if (!jinja_spend(run, 0))
            return false;
    }
    *out = jinja_int(count);
    return true;
}

/* startswith and endswith also take a tuple of texts. */
static bool affix(struct jinja_run *run, const struct jinja_value *self,
                  const struct jinja_value *args, bool at_end, struct jinja_value *out)
{
    struct str text;
    int64_t base;
    bool inside, result = false;
    const struct jinja_value *items = &args[0];
    size_t count = 1;

    if (!window(run, self, &args[1], &text, &base, &inside))
        return false;
    if (args[0].kind == JINJA_TUPLE) {
        items = args[0].list->items;
        count = args[0].list->count;
    }
    for (size_t i = 0; i < count && !result; i++) {
        if (!need_str(run, &items[i]))
            return false;
        result = inside && (at_end ? str_ends(text, jinja_text(items[i]))
                                   : str_starts(text, jinja_text(items[i])));
    }
    *out = jinja_bool(result);
    return true;
}

static bool str_startswith(struct jinja_run *run, const struct jinja_value *self,
                           const struct jinja_value *args, struct jinja_value *out)
{
    return affix(run, self, args, false, out);
}

static bool str_endswith(struct jinja_run *run, const struct jinja_value *self,
                         const struct jinja_value *args, struct jinja_value *out)
{
    return affix(run, self, args, true, out);
}

/* ---- kinds of characters ---- */

/* Every character has one of the properties, and there is at least one. */
static bool all_chars(struct jinja_run *run, const struct jinja_value *self, unsigned props,
                      struct jinja_value *out)
{
    const char *at = self->text, *end = at + self->len;
    bool result = self->len > 0;

    while (at < end && result)
        result = (jinja_char_props(utf8_next(&at, end)) & props) != 0;
    *out = jinja_bool(result);
    return jinja_spend(run, self->len * 4);
}

#define CHARS_METHOD(name, props)                                                   \
    static bool str_##name(struct jinja_run *run, const struct jinja_value *self,   \
                           const struct jinja_value *args, struct jinja_value *out) \
    {                                                                               \
        (void)args;                                                                 \
        return all_chars(run, self, props, out);                                    \
    }

CHARS_METHOD(isalpha, JINJA_CHAR_ALPHA)
CHARS_METHOD(isalnum, JINJA_CHAR_ALNUM)
CHARS_METHOD(isdecimal, JINJA_CHAR_DECIMAL)
CHARS_METHOD(isdigit, JINJA_CHAR_DIGIT)
CHARS_METHOD(isnumeric, JINJA_CHAR_NUMERIC)

static bool str_isprintable(struct jinja_run *run, const struct jinja_value *self,
                            const struct jinja_value *args, struct jinja_value *out)
{
    (void)args;
    if (!all_chars(run, self, JINJA_CHAR_PRINTABLE, out))
        return false;
    *out = jinja_bool(out->integer || self->len == 0);
    return true;
}

static bool str_isascii(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    (void)args;
    *out = jinja_bool(utf8_is_ascii(jinja_text(*self)));
    return jinja_spend(run, self->len);
}

static bool str_isspace(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    const char *at = self->text, *end = at + self->len;
    bool result = self->len > 0;

    (void)args;
    while (at < end && result)
        result = jinja_char_is_space(utf8_next(&at, end));
    *out = jinja_bool(result);
    return jinja_spend(run, self->len);
}

/* At least one letter of this case and none of another. */
static bool only_case(struct jinja_run *run, const struct jinja_value *self, unsigned wanted,
                      struct jinja_value *out)
{
    const char *at = self->text, *end = at + self->len;
    bool seen = false, other = false;

    while (at < end) {
        unsigned props = jinja_char_props(utf8_next(&at, end)) & JINJA_CHAR_CASED;
        seen = seen || (props & wanted);
        other = other || (props & ~wanted);
    }
    *out = jinja_bool(seen && !other);
    return jinja_spend(run, self->len * 4);
}

static bool str_isupper(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    (void)args;
    return only_case(run, self, JINJA_CHAR_UPPER, out);
}

static bool str_islower(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    (void)args;
    return only_case(run, self, JINJA_CHAR_LOWER, out);
}

static bool str_istitle(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    const char *at = self->text, *end = at + self->len;
    bool in_word = false, seen = false, good = true;

    (void)args;
    while (at < end && good) {
        unsigned props = jinja_char_props(utf8_next(&at, end));
        bool capital = (props & (JINJA_CHAR_UPPER | JINJA_CHAR_TITLE)) != 0;
        bool small = (props & JINJA_CHAR_LOWER) != 0;
        good = capital ? !in_word : !small || in_word;
        seen = seen || capital;
        in_word = capital || small;
    }
    *out = jinja_bool(seen && good);
    return jinja_spend(run, self->len * 4);
}

static bool str_isidentifier(struct jinja_run *run, const struct jinja_value *self,
                             const struct jinja_value *args, struct jinja_value *out)
{
    const char *at = self->text, *end = at + self->len;
    bool good = self->len > 0;

    (void)args;
    for (bool first = true; at < end && good; first = false) {
        uint32_t code = utf8_next(&at, end);
        good = code == '_' ||
               (jinja_char_props(code) & (first ? JINJA_CHAR_ALPHA : JINJA_CHAR_ALNUM)) != 0;
    }
    *out = jinja_bool(good);
    return jinja_spend(run, self->len);
}

/* ---- the table ---- */

static const struct jinja_method rows[] = {
    METHOD("count", str_count, NO_KEYWORDS, 1, 3),
    METHOD("endswith", str_endswith, NO_KEYWORDS, 1, 3),
    METHOD("find", str_find_, NO_KEYWORDS, 1, 3),
    METHOD("index", str_index, NO_KEYWORDS, 1, 3),
    METHOD("isalnum", str_isalnum, NO_KEYWORDS, 0, 0),
    METHOD("isalpha", str_isalpha, NO_KEYWORDS, 0, 0),
    METHOD("isascii", str_isascii, NO_KEYWORDS, 0, 0),
    METHOD("isdecimal", str_isdecimal, NO_KEYWORDS, 0, 0),
    METHOD("isdigit", str_isdigit, NO_KEYWORDS, 0, 0),
    METHOD("isidentifier", str_isidentifier, NO_KEYWORDS, 0, 0),
    METHOD("islower", str_islower, NO_KEYWORDS, 0, 0),
    METHOD("isnumeric", str_isnumeric, NO_KEYWORDS, 0, 0),
    METHOD("isprintable", str_isprintable, NO_KEYWORDS, 0, 0),
    METHOD("isspace", str_isspace, NO_KEYWORDS, 0, 0),
    METHOD("istitle", str_istitle, NO_KEYWORDS, 0, 0),
    METHOD("isupper", str_isupper, NO_KEYWORDS, 0, 0),
    METHOD("rfind", str_rfind, NO_KEYWORDS, 1, 3),
    METHOD("rindex", str_rindex, NO_KEYWORDS, 1, 3),
    METHOD("startswith", str_startswith, NO_KEYWORDS, 1, 3),
};

const struct jinja_methods jinja_methods_query = METHODS(rows);
