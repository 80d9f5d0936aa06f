/*
 * methods_str.c: methods of strings that return another text: case, white space, cutting, joining,
 * padding, formatting.
 *
 * The work is done in strings.c, which filters use as well.
 */
#include "jinja/methods.h"
#include "jinja/strings.h"
#include "jinja/unicode.h"

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

    return opt_int(run, &args[1], -1, &limit) &&
           jinja_str_split(run, self, &args[0], limit, how == AT_END, out);
}

BUILTIN(str_splitlines)
{
    return jinja_str_lines(run, self, jinja_value_true(&args[0]), out);
}

BUILTIN(str_replace)
{
    int64_t count;

    return opt_int(run, &args[2], -1, &count) && jinja_str_replace(run, self, args, count, out);
}

BUILTIN(str_join)
{
    return jinja_str_join(run, self, &args[0], false, out);
}

BUILTIN(str_partition)
{
    const struct jinja_value *separator = &args[0];
    bool from_right = how == AT_END;
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
        !jinja_str_pad(run, &parts[1], width - sign, STR("0"), ALIGN_RIGHT, &parts[1]))
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
    struct jinja_builder builder = {0};
    uint32_t origin = jinja_origin_of(run, self);
    int64_t size, column = 0;

    if (!opt_int(run, &args[0], 8, &size))
        return false;
    while (at < end) {
        const char *from = at;
        uint32_t code = utf8_next(&at, end);
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

RAW_BUILTIN(str_format)
{
    return jinja_format_braces(run, self, args, out);
}

/* ---- the table ---- */

static const struct jinja_builtin rows[] = {
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
};

const struct jinja_methods jinja_methods_str = METHODS(rows);
