/* strings.c: the string operations that methods and filters share. */
#include "jinja/strings.h"

#include <string.h>

#include "jinja/unicode.h"

/* ---- upper and lower case ---- */

enum { CODE_SIGMA = 0x3A3, CODE_FINAL_SIGMA = 0x3C2 };

/* A capital sigma at the end of a word has its own lower-case letter. */
static bool is_final_sigma(struct str text, const char *from, const char *behind)
{
    const char *end = text.ptr + text.len;
    unsigned props = 0;

    while (from > text.ptr) {
        props = jinja_char_props(utf8_prev(text.ptr, &from));
        if (!(props & JINJA_CHAR_IGNORABLE))
            break;
        props = 0;
    }
    if (!(props & JINJA_CHAR_CASED))
        return false;
    while (behind < end) {
        props = jinja_char_props(utf8_next(&behind, end));
        if (!(props & JINJA_CHAR_IGNORABLE))
            return !(props & JINJA_CHAR_CASED);
    }
    return true;
}

static enum jinja_case case_of(enum jinja_casing casing, unsigned props, bool first, bool in_word)
{
    switch (casing) {
    case CASING_UPPER:
        return JINJA_CASE_UPPER;
    case CASING_LOWER:
        return JINJA_CASE_LOWER;
    case CASING_TITLE:
        return in_word ? JINJA_CASE_LOWER : JINJA_CASE_TITLE;
    case CASING_CAPITALIZE:
        return first ? JINJA_CASE_TITLE : JINJA_CASE_LOWER;
    case CASING_SWAP:
        break;
    }
    return props & JINJA_CHAR_UPPER ? JINJA_CASE_LOWER : JINJA_CASE_UPPER;
}

bool jinja_str_case(struct jinja_run *run, const struct jinja_value *self, enum jinja_casing casing,
                    struct jinja_value *out)
{
    struct str text = jinja_text(*self);
    const char *at = text.ptr, *end = text.ptr + text.len;
    struct jinja_builder builder = {.run = run};
    uint32_t origin = jinja_origin_of(run, self);
    uint8_t flags = self->flags;
    bool in_word = false;

    if (!jinja_spend(run, text.len * 8)) /* three searches in tables per character */
        return false;
    while (at < end) {
        const char *from = at;
        uint32_t code = utf8_next(&at, end);
        char bytes[JINJA_CASE_BYTES_MAX];
        unsigned props = jinja_char_props(code);
        enum jinja_case to = case_of(casing, props, from == text.ptr, in_word);
        size_t len = code == CODE_SIGMA && to == JINJA_CASE_LOWER && is_final_sigma(text, from, at)
                         ? utf8_encode(CODE_FINAL_SIGMA, bytes)
                         : jinja_char_to_case(code, to, bytes);
        if (!jinja_build(&builder, (struct str){bytes, len}, origin))
            return false;
        in_word = (props & JINJA_CHAR_CASED) != 0;
    }
    return jinja_build_finish_as(&builder, flags, out);
}

/* ---- strip ---- */

/* Looking for a character among `chars` costs their length. */
static bool strips(struct jinja_run *run, uint32_t code, const struct jinja_value *chars)
{
    if (!some(chars))
        return jinja_char_is_space(code);
    if (!jinja_spend(run, chars->len * 2))
        return false;
    const char *at = chars->text, *end = chars->text + chars->len;
    while (at < end)
        if (utf8_next(&at, end) == code)
            return true;
    return false;
}

bool jinja_str_strip(struct jinja_run *run, const struct jinja_value *self,
                     const struct jinja_value *chars, bool left, bool right,
                     struct jinja_value *out)
{
    const char *begin = self->text, *end = self->text + self->len;

    if (some(chars) && chars->kind != JINJA_STR)
        return jinja_fail(run, "strip arg must be None or str");
    while (left && begin < end) {
        const char *next = begin;
        if (!strips(run, utf8_next(&next, end), chars))
            break;
        begin = next;
    }
    while (right && end > begin) {
        const char *before = end;
        if (!strips(run, utf8_prev(begin, &before), chars))
            break;
        end = before;
    }
    return jinja_spend(run, self->len - (size_t)(end - begin)) && !run->failed &&
           jinja_cut(run, self, (size_t)(begin - self->text), (size_t)(end - self->text), out);
}

/* ---- searching backwards ---- */

size_t jinja_str_find_last(struct jinja_run *run, struct str text, struct str needle)
{
    if (needle.len == 0 || needle.len > text.len)
        return needle.len == 0 ? text.len : SIZE_MAX;
    for (size_t end = text.len - needle.len + 1; end > 0;) {
        const char *at = memrchr(text.ptr, needle.ptr[0], end);
        if (at == NULL || !jinja_spend(run, needle.len))
            break;
        end = (size_t)(at - text.ptr);
        if (memcmp(at, needle.ptr, needle.len) == 0)
            return end;
    }
    return SIZE_MAX;
}

/* ---- replace, split, join ---- */

/* An empty text occurs before each character and at the end. */
static bool replace_empty(struct jinja_run *run, const struct jinja_value *self,
                          const struct jinja_value *to, int64_t count,
                          struct jinja_builder *builder)
{
    const char *at = self->text, *end = self->text + self->len;

    for (;;) {
        if (count != 0)
            jinja_build_value(builder, to);
        count -= count != 0;
        if (at == end)
            return true;
        const char *from = at;
        utf8_next(&at, end);
        if (!jinja_spend(run, 0) ||
            !jinja_build_cut(builder, self, (size_t)(from - self->text), (size_t)(at - self->text)))
            return false;
    }
}

bool jinja_str_replace(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value parts[2], int64_t count, struct jinja_value *out)
{
    const struct jinja_value *from = &parts[0], *to = &parts[1];
    struct jinja_builder builder = {.run = run};
    uint8_t flags = self->flags;
    size_t at = 0;

    if (from->kind != JINJA_STR || to->kind != JINJA_STR)
        return jinja_fail(run, "replace() argument must be str");
    if (!jinja_spend(run, self->len))
        return false;
    if (from->len == 0) {
        if (!replace_empty(run, self, to, count, &builder))
            return false;
    } else {
        for (; count != 0; count--) {
            struct str rest = {self->text + at, self->len - at};
            size_t found = str_find(rest, jinja_text(*from));
            if (found == SIZE_MAX)
                break;
            if (!jinja_spend(run, 0) || !jinja_build_cut(&builder, self, at, at + found) ||
                !jinja_build_value(&builder, to))
                return false;
            at += found + from->len;
        }
        if (at == 0) {
            *out = *self;
            return true;
        }
        if (!jinja_build_cut(&builder, self, at, self->len))
            return false;
    }
    return jinja_build_finish_as(&builder, flags, out);
}

static bool add_cut(struct jinja_run *run, struct jinja_value list, const struct jinja_value *self,
                    size_t begin, size_t end)
{
    struct jinja_value piece;

    return jinja_spend(run, 0) && jinja_cut(run, self, begin, end, &piece) &&
           jinja_add(run, list, piece);
}

static bool split_on(struct jinja_run *run, const struct jinja_value *self, struct str separator,
                     int64_t limit, struct jinja_value list)
{
    size_t at = 0;

    for (; limit != 0; limit--) {
        struct str rest = {self->text + at, self->len - at};
        size_t found = str_find(rest, separator);
        if (found == SIZE_MAX)
            break;
        if (!add_cut(run, list, self, at, at + found))
            return false;
        at += found + separator.len;
    }
    return add_cut(run, list, self, at, self->len);
}

static bool reverse_list(struct jinja_list *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        struct jinja_value swap = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = swap;
    }
    return true;
}

static bool rsplit_on(struct jinja_run *run, const struct jinja_value *self, struct str separator,
                      int64_t limit, struct jinja_value list)
{
    size_t end = self->len;

    for (; limit != 0; limit--) {
        size_t at = jinja_str_find_last(run, (struct str){self->text, end}, separator);
        if (at == SIZE_MAX)
            break;
        if (!add_cut(run, list, self, at + separator.len, end))
            return false;
        end = at;
    }
    return !run->failed && add_cut(run, list, self, 0, end) && reverse_list(list.list);
}

static bool split_space(struct jinja_run *run, const struct jinja_value *self, int64_t limit,
                        struct jinja_value list)
{
    const char *text = self->text, *end = text + self->len, *at = jinja_skip_space(text, end, true);

    for (; at < end; limit--) {
        const char *stop = limit == 0 ? end : jinja_skip_space(at, end, false);
        if (!add_cut(run, list, self, (size_t)(at - text), (size_t)(stop - text)))
            return false;
        at = jinja_skip_space(stop, end, true);
    }
    return true;
}

static bool rsplit_space(struct jinja_run *run, const struct jinja_value *self, int64_t limit,
                         struct jinja_value list)
{
    const char *text = self->text, *at = jinja_skip_space_back(text, text + self->len, true);

    for (; at > text; limit--) {
        const char *start = limit == 0 ? text : jinja_skip_space_back(text, at, false);
        if (!add_cut(run, list, self, (size_t)(start - text), (size_t)(at - text)))
            return false;
        at = jinja_skip_space_back(text, start, true);
    }
    return reverse_list(list.list);
}

bool jinja_str_split(struct jinja_run *run, const struct jinja_value *self,
                     const struct jinja_value *separator, int64_t limit, bool from_right,
                     struct jinja_value *out)
{
    struct jinja_value string = *self;

    *out = jinja_new_list(run);
    if (!jinja_spend(run, string.len))
        return false;
    if (!some(separator))
        return (from_right ? rsplit_space : split_space)(run, &string, limit, *out);
    if (separator->kind != JINJA_STR)
        return jinja_fail(run, "must be str or None, not %s", jinja_kind_name(separator->kind));
    if (separator->len == 0)
        return jinja_fail(run, "empty separator");
    return (from_right ? rsplit_on : split_on)(run, &string, jinja_text(*separator), limit, *out);
}

bool jinja_str_lines(struct jinja_run *run, const struct jinja_value *self, bool keep_ends,
                     struct jinja_value *out)
{
    struct jinja_value string = *self;
    const char *text = string.text, *end = text + string.len, *at = text, *line = text;

    *out = jinja_new_list(run);
    if (!jinja_spend(run, string.len))
        return false;
    while (at < end) {
        const char *from = at;
        uint32_t code = utf8_next(&at, end);
        if (!jinja_char_is_newline(code))
            continue;
        if (code == '\r' && at < end && *at == '\n')
            at++;
        if (!add_cut(run, *out, &string, (size_t)(line - text),
                     (size_t)((keep_ends ? at : from) - text)))
            return false;
        line = at;
    }
    return line == end || add_cut(run, *out, &string, (size_t)(line - text), string.len);
}

bool jinja_str_join(struct jinja_run *run, const struct jinja_value *separator,
                    const struct jinja_value *items, bool convert, struct jinja_value *out)
{
    struct jinja_builder builder = {.run = run};
    struct jinja_cursor cursor;
    struct jinja_value item;
    bool escape = !convert && (separator->flags & JINJA_FLAG_MARKUP);

    if (!jinja_cursor_init(run, &cursor, *items))
        return false;
    for (bool first = true; jinja_cursor_more(run, &cursor, &item); first = false) {
        if (!first)
            jinja_build_value(&builder, separator);
        if (escape && !jinja_escape(run, &item, &item))
            return false;
        if (!convert && item.kind != JINJA_STR)
            return jinja_fail(run, "sequence item: expected str instance, %s found",
                              jinja_kind_name(item.kind));
        jinja_build_str(&builder, &item);
    }
    return jinja_build_finish_as(&builder, escape ? JINJA_FLAG_MARKUP : 0, out);
}

bool jinja_str_pad(struct jinja_run *run, const struct jinja_value *self, int64_t width,
                   struct str fill, enum jinja_align align, struct jinja_value *out)
{
    struct jinja_builder builder = {.run = run};
    int64_t length = jinja_length(self);
    uint8_t flags = self->flags;

    if (!jinja_spend(run, self->len)) /* it was counted */
        return false;
    if (width <= length) {
        *out = *self;
        return true;
    }
    int64_t missing = width - length;
    /* If the padding is odd, Python's center puts the extra one left when the width is odd. */
    int64_t left = align == ALIGN_LEFT    ? 0
                   : align == ALIGN_RIGHT ? missing
                                          : missing / 2 + (missing & width & 1);
    for (int64_t i = 0; i < missing && jinja_spend(run, 0); i++) {
        if (i == left)
            jinja_build_value(&builder, self);
        jinja_build(&builder, fill, JINJA_ORIGIN_NONE);
    }
    if (left == missing)
        jinja_build_value(&builder, self);
    return jinja_build_finish_as(&builder, flags, out);
}
