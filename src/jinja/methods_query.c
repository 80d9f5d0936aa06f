/*
 * methods_query.c: methods of strings that answer a question: where and how often a text occurs,
 * and which kinds of characters a string has.
 *
 * Positions are characters, as in Python, not bytes.
 */
#include "jinja/methods.h"
#include "jinja/unicode.h"

/* ---- searching ---- */

/* The part of the text selected by the optional start and end arguments (characters, as in a
 * slice); *base is its first character. *inside is false if start is after the end of the text,
 * where not even an empty text is found. */
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

/* find and index, from the left or the right. */
enum { FIND_LAST = 1, FIND_OR_FAIL = 2 };

BUILTIN(str_find_)
{
    struct str text;
    int64_t base;
    bool inside;

    if (!need_str(run, &args[0]) || !window(run, self, &args[1], &text, &base, &inside))
        return false;
    size_t at = how & FIND_LAST ? find_last(run, text, jinja_text(args[0]))
                                : str_find(text, jinja_text(args[0]));
    bool found = inside && at != SIZE_MAX;
    if (!found && (how & FIND_OR_FAIL))
        return jinja_fail(run, "substring not found");
    *out = jinja_int(found ? base + (int64_t)utf8_count((struct str){text.ptr, at}) : -1);
    return !run->failed;
}

BUILTIN(str_count)
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

/* startswith and endswith also accept a tuple of texts. */
BUILTIN(str_affix)
{
    bool at_end = how != 0;
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

/* ---- kinds of characters ---- */

/* True if every character has one of the properties, and there is at least one. An empty text is
 * printable. */
BUILTIN(str_chars)
{
    const char *at = self->text, *end = at + self->len;
    bool result = self->len > 0 || how == JINJA_CHAR_PRINTABLE;

    while (at < end && result)
        result = (jinja_char_props(utf8_next(&at, end)) & (unsigned)how) != 0;
    *out = jinja_bool(result);
    return jinja_spend(run, self->len * 4);
}

BUILTIN(str_isascii)
{
    *out = jinja_bool(utf8_is_ascii(jinja_text(*self)));
    return jinja_spend(run, self->len);
}

BUILTIN(str_isspace)
{
    const char *at = self->text, *end = at + self->len;
    bool result = self->len > 0;

    while (at < end && result)
        result = jinja_char_is_space(utf8_next(&at, end));
    *out = jinja_bool(result);
    return jinja_spend(run, self->len);
}

/* True if there is at least one letter of this case and none of another. */
BUILTIN(str_only_case)
{
    const char *at = self->text, *end = at + self->len;
    bool seen = false, other = false;

    while (at < end) {
        unsigned props = jinja_char_props(utf8_next(&at, end)) & JINJA_CHAR_CASED;
        seen = seen || (props & (unsigned)how);
        other = other || (props & ~(unsigned)how);
    }
    *out = jinja_bool(seen && !other);
    return jinja_spend(run, self->len * 4);
}

BUILTIN(str_istitle)
{
    const char *at = self->text, *end = at + self->len;
    bool in_word = false, seen = false, good = true;

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

BUILTIN(str_isidentifier)
{
    const char *at = self->text, *end = at + self->len;
    bool good = self->len > 0;

    for (bool first = true; at < end && good; first = false) {
        uint32_t code = utf8_next(&at, end);
        good = code == '_' ||
               (jinja_char_props(code) & (first ? JINJA_CHAR_ALPHA : JINJA_CHAR_ALNUM)) != 0;
    }
    *out = jinja_bool(good);
    return jinja_spend(run, self->len * 4);
}

/* ---- the table ---- */

static const struct jinja_builtin rows[] = {
    ROW("count", str_count, "", 1, 3),
    ROW("endswith", str_affix, "", 1, 3, true),
    ROW("find", str_find_, "", 1, 3, 0),
    ROW("index", str_find_, "", 1, 3, FIND_OR_FAIL),
    ROW("isalnum", str_chars, "", 0, 0, JINJA_CHAR_ALNUM),
    ROW("isalpha", str_chars, "", 0, 0, JINJA_CHAR_ALPHA),
    ROW("isascii", str_isascii, "", 0, 0),
    ROW("isdecimal", str_chars, "", 0, 0, JINJA_CHAR_DECIMAL),
    ROW("isdigit", str_chars, "", 0, 0, JINJA_CHAR_DIGIT),
    ROW("isidentifier", str_isidentifier, "", 0, 0),
    ROW("islower", str_only_case, "", 0, 0, JINJA_CHAR_LOWER),
    ROW("isnumeric", str_chars, "", 0, 0, JINJA_CHAR_NUMERIC),
    ROW("isprintable", str_chars, "", 0, 0, JINJA_CHAR_PRINTABLE),
    ROW("isspace", str_isspace, "", 0, 0),
    ROW("istitle", str_istitle, "", 0, 0),
    ROW("isupper", str_only_case, "", 0, 0, JINJA_CHAR_UPPER),
    ROW("rfind", str_find_, "", 1, 3, FIND_LAST),
    ROW("rindex", str_find_, "", 1, 3, FIND_LAST | FIND_OR_FAIL),
    ROW("startswith", str_affix, "", 1, 3, false),
};

const struct jinja_methods jinja_methods_query = METHODS(rows);
