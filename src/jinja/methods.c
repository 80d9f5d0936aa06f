/*
 * methods.c: the methods of every type, and which of them a value has.
 *
 * The work of most string methods is done in strings.c, which filters use as well. The sandbox is
 * immutable: methods that would change a list or dict exist but cannot be called. Positions in
 * strings are characters, as in Python, not bytes.
 */
#include <math.h>

#include "jinja/object.h"
#include "jinja/strings.h"
#include "jinja/unicode.h"

static bool need_str(struct jinja_run *run, const struct jinja_value *value)
{
    return value->kind == JINJA_STR ||
           jinja_fail(run, "expected str, not %s", jinja_kind_name(value->kind));
}

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
    if (!some(&bounds[0]) && !some(&bounds[1]))
        return true;
    end = length = jinja_length(self);
    if ((some(&bounds[0]) && !jinja_to_int(run, &bounds[0], &start)) ||
        (some(&bounds[1]) && !jinja_to_int(run, &bounds[1], &end)))
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

static size_t find_first(struct jinja_run *run, struct str text, struct str needle)
{
    (void)run;
    return str_find(text, needle);
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
    size_t at =
        (how & FIND_LAST ? jinja_str_find_last : find_first)(run, text, jinja_text(args[0]));
    bool found = inside && at != SIZE_MAX;
    if (!found && !run->failed && (how & FIND_OR_FAIL))
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
        text = str_skip(text, found + needle.len);
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

BUILTIN(str_only_case)
{
    *out = jinja_bool(jinja_only_case(jinja_text(*self), (unsigned)how));
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

/* ---- case and white space ---- */

BUILTIN(str_case)
{
    return jinja_str_case(run, self, (enum jinja_casing)how, out);
}

enum { AT_START = 1, AT_END = 2 };

BUILTIN(str_strip)
{
    return jinja_str_strip(run, self, &args[0], (how & AT_START) != 0, (how & AT_END) != 0, out);
}

/* ---- cutting and joining ---- */

BUILTIN(str_split)
{
    int64_t limit;

    return jinja_int_arg(run, &args[1], -1, &limit) &&
           jinja_str_split(run, self, &args[0], limit, how == AT_END, out);
}

BUILTIN(str_splitlines)
{
    return jinja_str_lines(run, self, jinja_value_true(&args[0]), out);
}

BUILTIN(str_replace)
{
    int64_t count;

    return jinja_int_arg(run, &args[2], -1, &count) &&
           jinja_str_replace(run, self, args, count, out);
}

BUILTIN(str_join)
{
    return jinja_str_join(run, self, &args[0], false, out);
}

BUILTIN(str_partition)
{
    const struct jinja_value *separator = &args[0];
    bool from_right = how == AT_END;
    struct jinja_value string = *self, parts[3];
    size_t len = separator->len;

    if (!need_str(run, separator) || !jinja_spend(run, self->len))
        return false;
    if (len == 0)
        return jinja_fail(run, "empty separator");
    size_t at = (from_right ? jinja_str_find_last : find_first)(run, jinja_text(string),
                                                                jinja_text(*separator));
    bool missing = at == SIZE_MAX;
    size_t begin = missing ? (from_right ? 0 : string.len) : at;
    size_t end = missing ? begin : at + len;
    if (!jinja_cut(run, &string, 0, begin, &parts[0]) ||
        !jinja_cut(run, &string, begin, end, &parts[1]) ||
        !jinja_cut(run, &string, end, string.len, &parts[2]))
        return false;
    *out = jinja_new_list(run);
    out->kind = JINJA_TUPLE;
    return jinja_add_all(run, *out, parts, 3);
}

BUILTIN(str_remove)
{
    if (!need_str(run, &args[0]))
        return false;
    struct str text = jinja_text(*self), part = jinja_text(args[0]);
    size_t begin = how == AT_START && str_starts(text, part) ? part.len : 0;
    size_t end = how == AT_END && str_ends(text, part) ? part.len : 0;
    return jinja_cut(run, self, begin, self->len - end, out);
}

/* ---- padding ---- */

BUILTIN(str_pad)
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
    return jinja_str_pad(run, self, width, fill, (enum jinja_align)how, out);
}

BUILTIN(str_zfill)
{
    bool sign = self->len > 0 && (self->text[0] == '-' || self->text[0] == '+');
    struct jinja_value parts[2];
    int64_t width;

    if (!jinja_to_int(run, &args[0], &width) || !jinja_cut(run, self, 0, sign, &parts[0]) ||
        !jinja_cut(run, self, sign, self->len, &parts[1]) ||
        !jinja_str_pad(run, &parts[1], MAX(width, 1) - sign, STR("0"), ALIGN_RIGHT, &parts[1]))
        return false;
    uint8_t flags = self->flags;
    if (!jinja_concat(run, parts, 2, out))
        return false;
    out->flags = flags;
    return true;
}

BUILTIN(str_expandtabs)
{
    const char *at = self->text, *end = at + self->len;
    struct jinja_builder builder = {.run = run};
    uint32_t origin = jinja_origin_of(run, self);
    int64_t size, column = 0;

    if (!jinja_int_arg(run, &args[0], 8, &size))
        return false;
    while (at < end) {
        const char *from = at;
        uint32_t code = utf8_next(&at, end);
        if (code == '\t') {
            int64_t blanks = size > 0 ? size - column % size : 0;
            column += blanks;
            if (!jinja_build_repeat(&builder, ' ', (size_t)blanks))
                return false;
            continue;
        }
        column = code == '\n' || code == '\r' ? 0 : column + 1;
        jinja_build(&builder, (struct str){from, (size_t)(at - from)}, origin);
    }
    return jinja_spend(run, self->len) && jinja_build_finish(&builder, out);
}

RAW_BUILTIN(str_format)
{
    return jinja_format_braces(run, self, args, out);
}

/* ---- lists, tuples, ranges ---- */

BUILTIN(seq_count)
{
    struct jinja_cursor cursor;
    struct jinja_value item;
    int64_t count = 0;

    if (!jinja_cursor_init(run, &cursor, *self))
        return false;
    while (jinja_cursor_more(run, &cursor, &item))
        count += jinja_value_equal(&item, &args[0], &run->steps_left);
    *out = jinja_int(count);
    return !run->failed;
}

BUILTIN(seq_index)
{
    int64_t length = jinja_length(self), start, end;

    if (!jinja_int_arg(run, &args[1], 0, &start) || !jinja_int_arg(run, &args[2], length, &end))
        return false;
    start = start < 0 ? MAX(start + length, 0) : start;
    end = end < 0 ? MAX(end + length, 0) : MIN(end, length);
    for (int64_t i = start; i < end; i++) {
        struct jinja_value index = jinja_int(i), item;
        if (!jinja_spend(run, 0) || !jinja_get_item(run, self, &index, &item))
            return false;
        if (jinja_value_equal(&item, &args[0], &run->steps_left)) {
            *out = jinja_int(i);
            return true;
        }
    }
    return jinja_fail(run, "the value is not in the sequence");
}

BUILTIN(copy_self)
{
    *out = *self; /* it is immutable */
    return true;
}

/* ---- dicts ---- */

BUILTIN(dict_get)
{
    if (!jinja_spend_value(run, &args[0]))
        return false;
    if (!jinja_value_hashable(&args[0]))
        return jinja_fail(run, "unhashable type: '%s'", jinja_kind_name(args[0].kind));
    const struct jinja_value *value = jinja_dict_get(self->dict, args[0]);
    *out = value ? *value : given(&args[1]) ? args[1] : jinja_none();
    return true;
}

BUILTIN(dict_view)
{
    *out = (struct jinja_value){.kind = JINJA_VIEW, .len = (size_t)how, .dict = self->dict};
    return true;
}

/* ---- numbers ---- */

BUILTIN(float_is_integer)
{
    *out = jinja_bool(isfinite(self->number) && self->number == floor(self->number));
    return true;
}

BUILTIN(int_bit_length)
{
    uint64_t size = self->integer < 0 ? 0 - (uint64_t)self->integer : (uint64_t)self->integer;

    *out = jinja_int(size == 0 ? 0 : 64 - __builtin_clzll(size));
    return true;
}

/* ---- the engine's objects ---- */

BUILTIN(cycler_next)
{
    struct jinja_cycler *cycler = self->object;

    *out = cycler->items.items[cycler->pos];
    cycler->pos = (cycler->pos + 1) % cycler->items.count;
    return true;
}

BUILTIN(cycler_reset)
{
    struct jinja_cycler *cycler = self->object;

    cycler->pos = 0;
    *out = jinja_none();
    return true;
}

/* ---- the tables ---- */

static const struct jinja_builtin of_str[] = {
    ROW("capitalize", str_case, "", 0, 0, CASING_CAPITALIZE),
    ROW("center", str_pad, "", 1, 2, ALIGN_CENTER),
    ROW("expandtabs", str_expandtabs, "tabsize", 0, 1),
    {"format", .raw = str_format},
    ROW("join", str_join, "", 1, 1),
    ROW("ljust", str_pad, "", 1, 2, ALIGN_LEFT),
    ROW("lower", str_case, "", 0, 0, CASING_LOWER),
    ROW("lstrip", str_strip, "", 0, 1, AT_START),
    ROW("partition", str_partition, "", 1, 1, AT_START),
    ROW("removeprefix", str_remove, "", 1, 1, AT_START),
    ROW("removesuffix", str_remove, "", 1, 1, AT_END),
    ROW("replace", str_replace, "", 2, 3),
    ROW("rjust", str_pad, "", 1, 2, ALIGN_RIGHT),
    ROW("rpartition", str_partition, "", 1, 1, AT_END),
    ROW("rsplit", str_split, "sep maxsplit", 0, 2, AT_END),
    ROW("rstrip", str_strip, "", 0, 1, AT_END),
    ROW("split", str_split, "sep maxsplit", 0, 2, AT_START),
    ROW("splitlines", str_splitlines, "keepends", 0, 1),
    ROW("strip", str_strip, "", 0, 1, AT_START | AT_END),
    ROW("swapcase", str_case, "", 0, 0, CASING_SWAP),
    ROW("title", str_case, "", 0, 0, CASING_TITLE),
    ROW("upper", str_case, "", 0, 0, CASING_UPPER),
    ROW("zfill", str_zfill, "", 1, 1),
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
    {.name = NULL},
};

static const struct jinja_builtin of_list[] = {
    ROW("copy", copy_self, "", 0, 0),
    ROW("count", seq_count, "", 1, 1),
    ROW("index", seq_index, "", 1, 3),
    {.name = NULL},
};

static const struct jinja_builtin of_dict[] = {
    ROW("copy", copy_self, "", 0, 0),
    ROW("get", dict_get, "", 1, 2),
    ROW("items", dict_view, "", 0, 0, JINJA_VIEW_ITEMS),
    ROW("keys", dict_view, "", 0, 0, JINJA_VIEW_KEYS),
    ROW("values", dict_view, "", 0, 0, JINJA_VIEW_VALUES),
    {.name = NULL},
};

static const struct jinja_builtin of_float[] = {
    ROW("is_integer", float_is_integer, "", 0, 0),
    {.name = NULL},
};

static const struct jinja_builtin of_int[] = {
    ROW("bit_length", int_bit_length, "", 0, 0),
    {.name = NULL},
};

static const struct jinja_builtin of_cycler[] = {
    ROW("next", cycler_next, "", 0, 0),
    ROW("reset", cycler_reset, "", 0, 0),
    {.name = NULL},
};

static const struct jinja_builtin of_loop[] = {
    {"changed", .raw = jinja_loop_changed},
    {"cycle", .raw = jinja_loop_cycle},
    {.name = NULL},
};

/* `refused`: the names of methods that change the object. */
static const struct {
    const struct jinja_builtin *rows;
    const char *refused;
} tables[JINJA_KIND_COUNT] = {
    [JINJA_STR] = {of_str, ""},
    [JINJA_LIST] = {of_list, "append clear extend insert pop remove reverse sort"},
    [JINJA_TUPLE] = {of_list + 1, ""}, /* without copy */
    [JINJA_RANGE] = {of_list + 1, ""},
    [JINJA_DICT] = {of_dict, "clear pop popitem setdefault update"},
    [JINJA_FLOAT] = {of_float, ""},
    [JINJA_INT] = {of_int, ""},
    [JINJA_BOOL] = {of_int, ""},
    [JINJA_CYCLER] = {of_cycler, ""},
    [JINJA_LOOP] = {of_loop, ""},
};

const struct jinja_builtin *jinja_method_find(const struct jinja_value *self, struct str name,
                                              bool *unsafe)
{
    *unsafe = jinja_name_in(tables[self->kind].refused, name) >= 0;
    return *unsafe ? NULL : jinja_builtin_find(tables[self->kind].rows, name);
}
