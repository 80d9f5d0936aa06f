/*
 * jinja_methods.c: the methods of strings, lists, tuples, dicts, ranges and numbers, and of the engine's own objects.
 *
 * The sandbox is immutable: what would change a list or dict exists but cannot be called.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "prompt/jinja_object.h"
#include "prompt/jinja_strings.h"
#include "prompt/jinja_unicode.h"

static bool given(const struct jinja_value *value)
{
    return value->kind != JINJA_MISSING;
}

static bool need_str(struct jinja_run *run, const struct jinja_value *value)
{
    return value->kind == JINJA_STR ||
           jinja_fail(run, "expected str, not %s", jinja_kind_name((enum jinja_kind)value->kind));
}

static bool opt_int(struct jinja_run *run, const struct jinja_value *value, int64_t otherwise,
                    int64_t *out)
{
    *out = otherwise;
    return !given(value) || jinja_to_int(run, value, out);
}

/* ---- case and white space ------------------------------------------------------------------------------------- */

#define CASE_METHOD(name, casing)                                                   \
    static bool str_##name(struct jinja_run *run, const struct jinja_value *self,   \
                           const struct jinja_value *args, struct jinja_value *out) \
    {                                                                               \
        (void)args;                                                                 \
        return jinja_str_case(run, self, casing, out);                              \
    }

CASE_METHOD(upper, CASING_UPPER)
CASE_METHOD(lower, CASING_LOWER)
CASE_METHOD(title, CASING_TITLE)
CASE_METHOD(capitalize, CASING_CAPITALIZE)
CASE_METHOD(swapcase, CASING_SWAP)

static bool str_strip(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    return jinja_str_strip(run, self, &args[0], true, true, out);
}

static bool str_lstrip(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value *args, struct jinja_value *out)
{
    return jinja_str_strip(run, self, &args[0], true, false, out);
}

static bool str_rstrip(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value *args, struct jinja_value *out)
{
    return jinja_str_strip(run, self, &args[0], false, true, out);
}

/* ---- cutting and joining -------------------------------------------------------------------------------------- */

static bool str_split(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    int64_t limit;

    return opt_int(run, &args[1], -1, &limit) &&
           jinja_str_split(run, self, &args[0], limit, false, out);
}

static bool str_rsplit(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value *args, struct jinja_value *out)
{
    int64_t limit;

    return opt_int(run, &args[1], -1, &limit) &&
           jinja_str_split(run, self, &args[0], limit, true, out);
}

static bool str_splitlines(struct jinja_run *run, const struct jinja_value *self,
                           const struct jinja_value *args, struct jinja_value *out)
{
    return jinja_str_lines(run, self, jinja_value_true(&args[0]), out);
}

static bool str_replace(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    int64_t count;

    return opt_int(run, &args[2], -1, &count) && jinja_str_replace(run, self, args, count, out);
}

static bool str_join(struct jinja_run *run, const struct jinja_value *self,
                     const struct jinja_value *args, struct jinja_value *out)
{
    return jinja_str_join(run, self, &args[0], false, out);
}

static bool partition(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *separator, bool from_right, struct jinja_value *out)
{
    struct jinja_value string = *self, parts[3], list;
    size_t at = SIZE_MAX, len = separator->len;

    if (!need_str(run, separator) || !jinja_spend(run, self->len))
        return false;
    if (len == 0)
        return jinja_fail(run, "empty separator");
    for (size_t from = 0; from_right && from + len <= string.len;) {
        struct str rest = {string.text + from, string.len - from};
        size_t found = str_find(rest, jinja_text(*separator));
        if (found == SIZE_MAX || !jinja_spend(run, 0))
            break;
        at = from + found;
        from = at + 1;
    }
    if (!from_right)
        at = str_find(jinja_text(string), jinja_text(*separator));
    bool missing = at == SIZE_MAX;
    size_t begin = missing ? (from_right ? 0 : string.len) : at;
    size_t end = missing ? begin : at + len;
    if (!jinja_cut(run, &string, 0, begin, &parts[0]) ||
        !jinja_cut(run, &string, begin, end, &parts[1]) ||
        !jinja_cut(run, &string, end, string.len, &parts[2]) || !jinja_new_list(run, &list))
        return false;
    for (int i = 0; i < 3; i++)
        if (!jinja_add(run, list, parts[i]))
            return false;
    *out = list;
    out->kind = JINJA_TUPLE;
    return !run->failed;
}

static bool str_partition(struct jinja_run *run, const struct jinja_value *self,
                          const struct jinja_value *args, struct jinja_value *out)
{
    return partition(run, self, &args[0], false, out);
}

static bool str_rpartition(struct jinja_run *run, const struct jinja_value *self,
                           const struct jinja_value *args, struct jinja_value *out)
{
    return partition(run, self, &args[0], true, out);
}

static bool str_removeprefix(struct jinja_run *run, const struct jinja_value *self,
                             const struct jinja_value *args, struct jinja_value *out)
{
    if (!need_str(run, &args[0]))
        return false;
    bool starts = str_starts(jinja_text(*self), jinja_text(args[0]));
    return jinja_cut(run, self, starts ? args[0].len : 0, self->len, out);
}

static bool str_removesuffix(struct jinja_run *run, const struct jinja_value *self,
                             const struct jinja_value *args, struct jinja_value *out)
{
    if (!need_str(run, &args[0]))
        return false;
    bool ends = str_ends(jinja_text(*self), jinja_text(args[0]));
    return jinja_cut(run, self, 0, self->len - (ends ? args[0].len : 0), out);
}

/* ---- searching ------------------------------------------------------------------------------------------------ */

/* The part of the text that optional start and end arguments (characters, as in a slice) mean; *base is its first character.
 * False in *inside when start lies behind the end of the text, where not even an empty text is found. */
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
    size_t from = jinja_utf8_offset(text, (size_t)start), to = jinja_utf8_offset(text, (size_t)end);
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
        *out = base + (int64_t)jinja_utf8_count((struct str){text.ptr, at});
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
        count = inside ? (int64_t)jinja_utf8_count(text) + 1 : 0;
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

/* ---- kinds of characters -------------------------------------------------------------------------------------- */

/* Every character has one of the properties, and there is at least one. */
static bool all_chars(struct jinja_run *run, const struct jinja_value *self, unsigned props,
                      struct jinja_value *out)
{
    const char *at = self->text, *end = at + self->len;
    bool result = self->len > 0;

    while (at < end && result)
        result = (jinja_char_props(jinja_utf8_next(&at, end)) & props) != 0;
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
    *out = jinja_bool(jinja_text_is_ascii(jinja_text(*self)));
    return jinja_spend(run, self->len);
}

static bool str_isspace(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    const char *at = self->text, *end = at + self->len;
    bool result = self->len > 0;

    (void)args;
    while (at < end && result)
        result = jinja_char_is_space(jinja_utf8_next(&at, end));
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
        unsigned props = jinja_char_props(jinja_utf8_next(&at, end)) & JINJA_CHAR_CASED;
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
        unsigned props = jinja_char_props(jinja_utf8_next(&at, end));
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
        uint32_t code = jinja_utf8_next(&at, end);
        good = code == '_' ||
               (jinja_char_props(code) & (first ? JINJA_CHAR_ALPHA : JINJA_CHAR_ALNUM)) != 0;
    }
    *out = jinja_bool(good);
    return jinja_spend(run, self->len);
}

/* ---- padding -------------------------------------------------------------------------------------------------- */

static bool pad(struct jinja_run *run, const struct jinja_value *self,
                const struct jinja_value *args, enum jinja_align align, struct jinja_value *out)
{
    struct str fill = STR(" ");
    int64_t width;

    if (!jinja_to_int(run, &args[0], &width))
        return false;
    if (given(&args[1])) {
        if (args[1].kind != JINJA_STR || jinja_length(&args[1]) != 1)
            return jinja_fail(run, "The fill character must be exactly one character long");
        fill = jinja_text(args[1]);
    }
    return jinja_str_pad(run, self, width, fill, align, out);
}

static bool str_center(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value *args, struct jinja_value *out)
{
    return pad(run, self, args, ALIGN_CENTER, out);
}

static bool str_ljust(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    return pad(run, self, args, ALIGN_LEFT, out);
}

static bool str_rjust(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    return pad(run, self, args, ALIGN_RIGHT, out);
}

static bool str_zfill(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    bool sign = self->len > 0 && (self->text[0] == '-' || self->text[0] == '+');
    struct jinja_value parts[2];
    int64_t width;

    if (!jinja_to_int(run, &args[0], &width) || !jinja_cut(run, self, 0, sign, &parts[0]) ||
        !jinja_cut(run, self, sign, self->len, &parts[1]) ||
        !jinja_str_pad(run, &parts[1], width - sign, STR("0"), ALIGN_RIGHT, &parts[1]))
        return false;
    uint8_t flags = self->flags;
    if (!jinja_concat(run, parts, 2, out))
        return false;
    out->flags = flags;
    return true;
}

static bool str_expandtabs(struct jinja_run *run, const struct jinja_value *self,
                           const struct jinja_value *args, struct jinja_value *out)
{
    const char *at = self->text, *end = at + self->len;
    struct jinja_builder builder = {0};
    uint32_t origin = jinja_origin_of(run, self);
    int64_t size, column = 0;

    if (!opt_int(run, &args[0], 8, &size))
        return false;
    while (at < end) {
        const char *from = at;
        uint32_t code = jinja_utf8_next(&at, end);
        if (code == '\t') {
            int64_t blanks = size > 0 ? size - column % size : 0;
            column += blanks;
            if (!jinja_build_repeat(run, &builder, ' ', (size_t)blanks))
                return false;
            continue;
        }
        column = code == '\n' || code == '\r' ? 0 : column + 1;
        if (!jinja_build(run, &builder, (struct str){from, (size_t)(at - from)}, origin))
            return false;
    }
    return jinja_spend(run, self->len) && jinja_build_finish(run, &builder, out);
}

static bool str_format(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_args *args, struct jinja_value *out)
{
    return jinja_format_braces(run, self, args, out);
}

/* ---- lists, tuples, ranges ------------------------------------------------------------------------------------ */

static bool seq_count(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    struct jinja_cursor cursor;
    struct jinja_value item;
    int64_t count = 0;

    if (!jinja_cursor_init(run, &cursor, *self))
        return false;
    for (;;) {
        if (!jinja_spend(run, 0) || !jinja_cursor_next(run, &cursor, &item))
            return false;
        if (item.kind == JINJA_MISSING)
            break;
        count += jinja_value_equal(&item, &args[0]);
    }
    *out = jinja_int(count);
    return true;
}

static bool seq_index(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    int64_t length = jinja_length(self), start, end;

    if (!opt_int(run, &args[1], 0, &start) || !opt_int(run, &args[2], length, &end))
        return false;
    start = start < 0 ? MAX(start + length, 0) : start;
    end = end < 0 ? MAX(end + length, 0) : MIN(end, length);
    for (int64_t i = start; i < end; i++) {
        struct jinja_value index = jinja_int(i), item;
        if (!jinja_spend(run, 0) || !jinja_get_item(run, self, &index, &item))
            return false;
        if (jinja_value_equal(&item, &args[0])) {
            *out = jinja_int(i);
            return true;
        }
    }
    return jinja_fail(run, "the value is not in the sequence");
}

static bool copy_self(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    (void)args;
    *out = *self; /* nothing can change it */
    return true;
}

/* ---- dicts ---------------------------------------------------------------------------------------------------- */

static bool dict_get(struct jinja_run *run, const struct jinja_value *self,
                     const struct jinja_value *args, struct jinja_value *out)
{
    if (!jinja_value_hashable(&args[0]))
        return jinja_fail(run, "unhashable type: '%s'",
                          jinja_kind_name((enum jinja_kind)args[0].kind));
    const struct jinja_value *value = jinja_dict_get(self->dict, args[0]);
    *out = value ? *value : given(&args[1]) ? args[1] : jinja_none();
    return true;
}

static bool view(const struct jinja_value *self, size_t which, struct jinja_value *out)
{
    *out = (struct jinja_value){.kind = JINJA_VIEW, .len = which, .dict = self->dict};
    return true;
}

static bool dict_keys(struct jinja_run *run, const struct jinja_value *self,
                      const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    (void)args;
    return view(self, JINJA_VIEW_KEYS, out);
}

static bool dict_values(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    (void)args;
    return view(self, JINJA_VIEW_VALUES, out);
}

static bool dict_items(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    (void)args;
    return view(self, JINJA_VIEW_ITEMS, out);
}

/* ---- numbers -------------------------------------------------------------------------------------------------- */

static bool float_is_integer(struct jinja_run *run, const struct jinja_value *self,
                             const struct jinja_value *args, struct jinja_value *out)
{
    (void)run;
    (void)args;
    *out = jinja_bool(isfinite(self->number) && self->number == floor(self->number));
    return true;
}

static bool int_bit_length(struct jinja_run *run, const struct jinja_value *self,
                           const struct jinja_value *args, struct jinja_value *out)
{
    uint64_t size = self->integer < 0 ? 0 - (uint64_t)self->integer : (uint64_t)self->integer;

    (void)run;
    (void)args;
    *out = jinja_int(size == 0 ? 0 : 64 - __builtin_clzll(size));
    return true;
}

/* ---- the engine's objects ------------------------------------------------------------------------------------- */

static bool cycler_next(struct jinja_run *run, const struct jinja_value *self,
                        const struct jinja_value *args, struct jinja_value *out)
{
    struct jinja_cycler *cycler = self->object;

    (void)run;
    (void)args;
    *out = cycler->items.items[cycler->pos];
    cycler->pos = (cycler->pos + 1) % cycler->items.count;
    return true;
}

static bool cycler_reset(struct jinja_run *run, const struct jinja_value *self,
                         const struct jinja_value *args, struct jinja_value *out)
{
    struct jinja_cycler *cycler = self->object;

    (void)run;
    (void)args;
    cycler->pos = 0;
    *out = jinja_none();
    return true;
}

static bool loop_cycle(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_args *args, struct jinja_value *out)
{
    return jinja_loop_cycle(run, self->object, args, out);
}

static bool loop_changed(struct jinja_run *run, const struct jinja_value *self,
                         const struct jinja_args *args, struct jinja_value *out)
{
    return jinja_loop_changed(run, self->object, args, out);
}

/* ---- tables --------------------------------------------------------------------------------------------------- */

#define METHOD(name, fn, params, min, max)   \
    {                                        \
        {                                    \
            name, fn, NULL, params, min, max \
        }                                    \
    }
#define NO_KEYWORDS "" /* positional only: no name fits */

static const struct jinja_method str_methods[] = {
    METHOD("capitalize", str_capitalize, NO_KEYWORDS, 0, 0),
    METHOD("center", str_center, NO_KEYWORDS, 1, 2),
    METHOD("count", str_count, NO_KEYWORDS, 1, 3),
    METHOD("endswith", str_endswith, NO_KEYWORDS, 1, 3),
    METHOD("expandtabs", str_expandtabs, "tabsize", 0, 1),
    METHOD("find", str_find_, NO_KEYWORDS, 1, 3),
    {{"format", NULL, str_format, NULL, 0, 0}},
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
    METHOD("join", str_join, NO_KEYWORDS, 1, 1),
    METHOD("ljust", str_ljust, NO_KEYWORDS, 1, 2),
    METHOD("lower", str_lower, NO_KEYWORDS, 0, 0),
    METHOD("lstrip", str_lstrip, NO_KEYWORDS, 0, 1),
    METHOD("partition", str_partition, NO_KEYWORDS, 1, 1),
    METHOD("removeprefix", str_removeprefix, NO_KEYWORDS, 1, 1),
    METHOD("removesuffix", str_removesuffix, NO_KEYWORDS, 1, 1),
    METHOD("replace", str_replace, NO_KEYWORDS, 2, 3),
    METHOD("rfind", str_rfind, NO_KEYWORDS, 1, 3),
    METHOD("rindex", str_rindex, NO_KEYWORDS, 1, 3),
    METHOD("rjust", str_rjust, NO_KEYWORDS, 1, 2),
    METHOD("rpartition", str_rpartition, NO_KEYWORDS, 1, 1),
    METHOD("rsplit", str_rsplit, "sep maxsplit", 0, 2),
    METHOD("rstrip", str_rstrip, NO_KEYWORDS, 0, 1),
    METHOD("split", str_split, "sep maxsplit", 0, 2),
    METHOD("splitlines", str_splitlines, "keepends", 0, 1),
    METHOD("startswith", str_startswith, NO_KEYWORDS, 1, 3),
    METHOD("strip", str_strip, NO_KEYWORDS, 0, 1),
    METHOD("swapcase", str_swapcase, NO_KEYWORDS, 0, 0),
    METHOD("title", str_title, NO_KEYWORDS, 0, 0),
    METHOD("upper", str_upper, NO_KEYWORDS, 0, 0),
    METHOD("zfill", str_zfill, NO_KEYWORDS, 1, 1),
};

static const struct jinja_method list_methods[] = {
    METHOD("copy", copy_self, NO_KEYWORDS, 0, 0),
    METHOD("count", seq_count, NO_KEYWORDS, 1, 1),
    METHOD("index", seq_index, NO_KEYWORDS, 1, 3),
};

static const struct jinja_method tuple_methods[] = {
    METHOD("count", seq_count, NO_KEYWORDS, 1, 1),
    METHOD("index", seq_index, NO_KEYWORDS, 1, 3),
};

static const struct jinja_method dict_methods[] = {
    METHOD("copy", copy_self, NO_KEYWORDS, 0, 0),     METHOD("get", dict_get, NO_KEYWORDS, 1, 2),
    METHOD("items", dict_items, NO_KEYWORDS, 0, 0),   METHOD("keys", dict_keys, NO_KEYWORDS, 0, 0),
    METHOD("values", dict_values, NO_KEYWORDS, 0, 0),
};

static const struct jinja_method float_methods[] = {
    METHOD("is_integer", float_is_integer, NO_KEYWORDS, 0, 0),
};

static const struct jinja_method int_methods[] = {
    METHOD("bit_length", int_bit_length, NO_KEYWORDS, 0, 0),
};

static const struct jinja_method cycler_methods[] = {
    METHOD("next", cycler_next, NO_KEYWORDS, 0, 0),
    METHOD("reset", cycler_reset, NO_KEYWORDS, 0, 0),
};

static const struct jinja_method loop_methods[] = {
    {{"changed", NULL, loop_changed, NULL, 0, 0}},
    {{"cycle", NULL, loop_cycle, NULL, 0, 0}},
};

#define ROW(kind, table) [kind] = {table, COUNT_OF(table)}

static const struct {
    const struct jinja_method *methods;
    size_t count;
} tables[JINJA_KIND_COUNT] = {
    ROW(JINJA_STR, str_methods),       ROW(JINJA_LIST, list_methods),
    ROW(JINJA_TUPLE, tuple_methods),   ROW(JINJA_RANGE, tuple_methods),
    ROW(JINJA_DICT, dict_methods),     ROW(JINJA_FLOAT, float_methods),
    ROW(JINJA_INT, int_methods),       ROW(JINJA_BOOL, int_methods),
    ROW(JINJA_CYCLER, cycler_methods), ROW(JINJA_LOOP, loop_methods),
};

static bool is_mutator(enum jinja_kind kind, struct str name)
{
    static const char *const of_list[] = {"append", "clear",  "extend",  "insert",
                                          "pop",    "remove", "reverse", "sort"};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    const char *const *names = kind == JINJA_LIST ? of_list : of_dict;
    size_t count = kind == JINJA_LIST   ? COUNT_OF(of_list)
                   : kind == JINJA_DICT ? COUNT_OF(of_dict)
                                        : 0;

    for (size_t i = 0; i < count; i++)
        if (str_eq(name, str_from(names[i])))
            return true;
    return false;
}

static int compare_name(const void *key, const void *row)
{
    const struct str *name = key;
    const char *other = ((const struct jinja_method *)row)->builtin.name;
    size_t len = strlen(other);
    int order = memcmp(name->ptr, other, MIN(name->len, len));

    return order != 0 ? order : (name->len > len) - (name->len < len);
}

const struct jinja_method *jinja_method_find(const struct jinja_value *self, struct str name,
                                             bool *unsafe)
{
    *unsafe = is_mutator((enum jinja_kind)self->kind, name);
    if (*unsafe || tables[self->kind].count == 0)
        return NULL;
    return bsearch(&name, tables[self->kind].methods, tables[self->kind].count,
                   sizeof(struct jinja_method), compare_name);
}
