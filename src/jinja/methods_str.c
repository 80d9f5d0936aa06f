/*
 * methods_str.c: methods of strings that give another text: case, white space, cutting, joining,
 * padding, formatting.
 *
 * The work is done in strings.c, which filters use as well.
 */
#include "jinja/methods.h"
#include "jinja/strings.h"
#include "jinja/unicode.h"

/* ---- case and white space ---- */

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

/* ---- cutting and joining ---- */

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

/* ---- padding ---- */

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

static bool str_format(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_args *args, struct jinja_value *out)
{
    return jinja_format_braces(run, self, args, out);
}

/* ---- the table ---- */

static const struct jinja_method rows[] = {
    METHOD("capitalize", str_capitalize, NO_KEYWORDS, 0, 0),
    METHOD("center", str_center, NO_KEYWORDS, 1, 2),
    METHOD("expandtabs", str_expandtabs, "tabsize", 0, 1),
    {{"format", NULL, str_format, NULL, 0, 0}},
    METHOD("join", str_join, NO_KEYWORDS, 1, 1),
    METHOD("ljust", str_ljust, NO_KEYWORDS, 1, 2),
    METHOD("lower", str_lower, NO_KEYWORDS, 0, 0),
    METHOD("lstrip", str_lstrip, NO_KEYWORDS, 0, 1),
    METHOD("partition", str_partition, NO_KEYWORDS, 1, 1),
    METHOD("removeprefix", str_removeprefix, NO_KEYWORDS, 1, 1),
    METHOD("removesuffix", str_removesuffix, NO_KEYWORDS, 1, 1),
    METHOD("replace", str_replace, NO_KEYWORDS, 2, 3),
    METHOD("rjust", str_rjust, NO_KEYWORDS, 1, 2),
    METHOD("rpartition", str_rpartition, NO_KEYWORDS, 1, 1),
    METHOD("rsplit", str_rsplit, "sep maxsplit", 0, 2),
    METHOD("rstrip", str_rstrip, NO_KEYWORDS, 0, 1),
    METHOD("split", str_split, "sep maxsplit", 0, 2),
    METHOD("splitlines", str_splitlines, "keepends", 0, 1),
    METHOD("strip", str_strip, NO_KEYWORDS, 0, 1),
    METHOD("swapcase", str_swapcase, NO_KEYWORDS, 0, 0),
    METHOD("title", str_title, NO_KEYWORDS, 0, 0),
    METHOD("upper", str_upper, NO_KEYWORDS, 0, 0),
    METHOD("zfill", str_zfill, NO_KEYWORDS, 1, 1),
};

const struct jinja_methods jinja_methods_str = METHODS(rows);
