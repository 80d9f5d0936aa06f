/*
 * filters.c: filters for text and numbers, and the lookup by name. Filters for sequences are in
 * filters_list.c.
 *
 * As in Jinja, most of them accept any value and convert it to a string first.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jinja/object.h"
#include "jinja/strings.h"
#include "jinja/unicode.h"

static bool need_str(struct jinja_run *run, const struct jinja_value *value, const char *who)
{
    if (value->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    return value->kind == JINJA_STR ||
           jinja_fail(run, "%s: expected a string, not %s", who, jinja_kind_name(value->kind));
}

/* ---- case, white space, replacing ---- */

BUILTIN(filter_case)
{
    struct jinja_value text;

    return jinja_soft_str(run, self, &text) &&
           jinja_str_case(run, &text, (enum jinja_casing)how, out);
}

static bool begins_word(uint32_t code)
{
    return code == '-' || code == '(' || code == '{' || code == '[' || code == '<' ||
           jinja_char_is_space(code);
}

static bool build_cased(struct jinja_builder *builder, const struct jinja_value *text, size_t begin,
                        size_t end, enum jinja_casing casing)
{
    struct jinja_value piece;

    return jinja_cut(builder->run, text, begin, end, &piece) &&
           jinja_str_case(builder->run, &piece, casing, &piece) &&
           jinja_build_value(builder, &piece);
}

/* Words begin after white space and opening brackets. The first letter becomes upper case, the rest
 * lower case. */
BUILTIN(filter_title)
{
    struct jinja_builder builder = {.run = run};
    struct jinja_value text;

    if (!jinja_soft_str(run, self, &text) || !jinja_spend(run, text.len))
        return false;
    text.flags = 0;
    for (const char *at = text.text, *end = at + text.len; at < end;) {
        const char *from = at, *next = at;
        bool separator = begins_word(utf8_next(&next, end));
        size_t first = (size_t)(next - from);
        for (at = next; at < end; at = next) {
            next = at;
            if (begins_word(utf8_next(&next, end)) != separator)
                break;
        }
        size_t begin = (size_t)(from - text.text), end_of_word = (size_t)(at - text.text);
        if (!build_cased(&builder, &text, begin, begin + first, CASING_UPPER) ||
            !build_cased(&builder, &text, begin + first, end_of_word, CASING_LOWER))
            return false;
    }
    return jinja_build_finish(&builder, out);
}

BUILTIN(filter_trim)
{
    struct jinja_value text;

    return jinja_soft_str(run, self, &text) &&
           jinja_str_strip(run, &text, &args[0], true, true, out);
}

BUILTIN(filter_replace)
{
    struct jinja_value text, parts[2];
    int64_t count = -1;

    if (args[2].kind != JINJA_NONE && !jinja_int_arg(run, &args[2], -1, &count))
        return false;
    return jinja_to_str(run, self, &text) && jinja_to_str(run, &args[0], &parts[0]) &&
           jinja_to_str(run, &args[1], &parts[1]) &&
           jinja_str_replace(run, &text, parts, count, out);
}

BUILTIN(filter_center)
{
    struct jinja_value text;
    int64_t width;

    return jinja_soft_str(run, self, &text) && jinja_int_arg(run, &args[0], 80, &width) &&
           jinja_str_pad(run, &text, width, STR(" "), ALIGN_CENTER, out);
}

BUILTIN(filter_string)
{
    return jinja_soft_str(run, self, out);
}

BUILTIN(filter_safe)
{
    if (!jinja_soft_str(run, self, out))
        return false;
    out->flags |= JINJA_FLAG_MARKUP;
    return true;
}

BUILTIN(filter_escape)
{
    return jinja_escape(run, self, out);
}

BUILTIN(filter_forceescape)
{
    struct jinja_value text;

    return jinja_to_str(run, self, &text) && jinja_escape(run, &text, out);
}

bool jinja_indent_unit(struct jinja_run *run, struct jinja_value width, struct jinja_value *out)
{
    struct jinja_builder blanks = {.run = run};
    int64_t count;

    *out = width;
    if (width.kind == JINJA_STR)
        return true;
    return jinja_to_int(run, &width, &count) &&
           jinja_build_repeat(&blanks, ' ', count > 0 ? (size_t)count : 0) &&
           jinja_build_finish(&blanks, out);
}

BUILTIN(filter_indent)
{
    struct jinja_builder builder = {.run = run};
    struct jinja_value lines, unit, text = *self;
    bool first = jinja_value_true(&args[1]), blank = jinja_value_true(&args[2]);

    if (!need_str(run, self, "indent"))
        return false;
    if (!jinja_indent_unit(run, given(&args[0]) ? args[0] : jinja_int(4), &unit))
        return false;
    /* A line end is added before splitting into lines, so that an empty text has a line and a
     * last line end counts. */
    struct jinja_value parts[2] = {text, jinja_str(STR("\n"))};
    if (!jinja_concat(run, parts, 2, &text) || !jinja_str_lines(run, &text, false, &lines))
        return false;
    for (size_t i = 0; i < lines.list->count; i++) {
        const struct jinja_value *line = &lines.list->items[i];
        bool indented = i == 0 ? first : blank || line->len > 0;
        jinja_build_text(&builder, i > 0 ? "\n" : "");
        if (indented)
            jinja_build_value(&builder, &unit);
        jinja_build_value(&builder, line);
    }
    return jinja_build_finish_as(&builder, self->flags, out);
}

BUILTIN(filter_truncate)
{
    int64_t length, leeway;
    struct jinja_value end = given(&args[2]) ? args[2] : jinja_str(STR("...")), cut, pieces;
    struct jinja_value space = jinja_str(STR(" "));

    if (!jinja_int_arg(run, &args[0], 255, &length))
        return false;
    if (args[3].kind == JINJA_NONE)
        leeway = 5;
    else if (!jinja_int_arg(run, &args[3], 5, &leeway))
        return false;
    int64_t size = jinja_length(self);
    if (!need_str(run, &end, "truncate"))
        return false;
    if (size < 0)
        return jinja_fail(run, "truncate: this has no length");
    int64_t tail = jinja_length(&end);
    if (length < tail || leeway < 0)
        return jinja_fail(run, "truncate: expected length >= %lld", (long long)tail);
    if (size - length <= leeway) {
        *out = *self;
        return true;
    }
    if (!need_str(run, self, "truncate"))
        return false;
    size_t bytes = utf8_offset(jinja_text(*self), (size_t)(length - tail));
    if (!jinja_spend(run, self->len) || !jinja_cut(run, self, 0, bytes, &cut))
        return false;
    if (!jinja_value_true(&args[1])) {
        if (!jinja_str_split(run, &cut, &space, 1, true, &pieces))
            return false;
        cut = pieces.list->items[0];
    }
    return jinja_binary(run, OP_ADD, &cut, &end, out);
}

BUILTIN(filter_wordcount)
{
    struct jinja_value text;
    int64_t count = 0;
    bool in_word = false;

    if (!jinja_soft_str(run, self, &text) || !jinja_spend(run, text.len * 4))
        return false;
    for (const char *at = text.text, *end = at + text.len; at < end;) {
        uint32_t code = utf8_next(&at, end);
        bool word = code == '_' || (jinja_char_props(code) & JINJA_CHAR_ALNUM) != 0;
        count += word && !in_word;
        in_word = word;
    }
    *out = jinja_int(count);
    return true;
}

/* ---- markup and URLs ---- */

/* The end of a tag or comment that begins at `at`; `at` if none does. */
static size_t markup_end(struct str text, size_t at)
{
    struct str rest = str_skip(text, at);

    if (str_starts(rest, STR("<!--"))) {
        size_t end = str_find(rest, STR("-->"));
        return end == SIZE_MAX ? at : at + end + 3;
    }
    size_t end = str_find(rest, STR(">"));
    return end == SIZE_MAX ? at : at + end + 1;
}

static bool unescape_entity(struct jinja_builder *builder, struct str text, uint32_t origin,
                            size_t *at)
{
    static const struct {
        const char *name, *text;
    } entities[] = {{"&amp;", "&"},  {"&lt;", "<"},  {"&gt;", ">"},          {"&quot;", "\""},
                    {"&#34;", "\""}, {"&#39;", "'"}, {"&nbsp;", "\xc2\xa0"}, {"&apos;", "'"}};
    struct str rest = str_skip(text, *at);

    for (size_t i = 0; i < COUNT_OF(entities); i++) {
        if (str_starts(rest, str_from(entities[i].name))) {
            *at += strlen(entities[i].name);
            return jinja_build(builder, str_from(entities[i].text), origin);
        }
    }
    (*at)++;
    return jinja_build(builder, (struct str){rest.ptr, 1}, origin);
}

static bool without_tags(struct jinja_run *run, const struct jinja_value *text, bool comments,
                         struct jinja_value *out)
{
    struct jinja_builder builder = {.run = run};
    struct str source = jinja_text(*text);
    uint32_t origin = jinja_origin_of(run, text);

    for (size_t at = 0; at < source.len;) {
        struct str rest = str_skip(source, at);
        size_t next = str_find(rest, comments ? STR("<!--") : STR("<"));
        size_t stop = next == SIZE_MAX ? source.len : at + next;
        jinja_build(&builder, (struct str){rest.ptr, stop - at}, origin);
        if (!jinja_spend(run, 0))
            return false;
        if (stop == source.len)
            break;
        at = markup_end(source, stop);
        if (at == stop) { /* not closed: plain text */
            jinja_build(&builder, str_skip(source, stop), origin);
            break;
        }
    }
    return jinja_build_finish(&builder, out);
}

BUILTIN(filter_striptags)
{
    struct jinja_builder builder = {.run = run};
    struct jinja_value text, words, joined, blank = jinja_str(STR(" ")), none = jinja_none();

    if (!jinja_to_str(run, self, &text) || !without_tags(run, &text, true, &text) ||
        !without_tags(run, &text, false, &text) ||
        !jinja_str_split(run, &text, &none, -1, false, &words) ||
        !jinja_str_join(run, &blank, &words, false, &joined))
        return false;
    struct str source = jinja_text(joined);
    uint32_t origin = jinja_origin_of(run, &joined);
    for (size_t at = 0; at < source.len;) {
        const char *mark = memchr(source.ptr + at, '&', source.len - at);
        size_t stop = mark ? (size_t)(mark - source.ptr) : source.len;
        jinja_build(&builder, (struct str){source.ptr + at, stop - at}, origin);
        at = stop;
        if (at < source.len && !unescape_entity(&builder, source, origin, &at))
            return false;
    }
    return jinja_build_finish(&builder, out);
}

static bool quote_url(struct jinja_builder *builder, const struct jinja_value *value, bool query)
{
    struct jinja_value text;
    uint32_t origin = jinja_origin_of(builder->run, value);

    if (!jinja_to_str(builder->run, value, &text) || !jinja_spend(builder->run, text.len * 8))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.text[i], quoted[4];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
        size_t len = 1;
        quoted[0] = c == ' ' && query ? '+' : c;
        if (!plain && !(c == ' ' && query))
            len = (size_t)snprintf(quoted, sizeof(quoted), "%%%02X", (unsigned char)c);
        jinja_build(builder, (struct str){quoted, len}, origin);
    }
    return !builder->run->failed;
}

BUILTIN(filter_urlencode)
{
    struct jinja_builder builder = {.run = run};
    struct jinja_value item, list;
    struct jinja_cursor cursor;

    if (self->kind == JINJA_STR || !jinja_iterable(self))
        return quote_url(&builder, self, false) && jinja_build_finish(&builder, out);
    if (!jinja_cursor_init(run, &cursor, jinja_items_view(*self)))
        return false;
    for (bool first = true;; first = false) {
        if (!jinja_cursor_next(run, &cursor, &item))
            return false;
        if (item.kind == JINJA_MISSING)
            return jinja_build_finish(&builder, out);
        if (!jinja_to_list(run, &item, &list))
            return false;
        if (list.list->count != 2)
            return jinja_fail(run, "urlencode: expected pairs");
        jinja_build_text(&builder, first ? "" : "&");
        if (!quote_url(&builder, &list.list->items[0], true) || !jinja_build_char(&builder, '=') ||
            !quote_url(&builder, &list.list->items[1], true))
            return false;
    }
}

BUILTIN(filter_xmlattr)
{
    struct jinja_builder builder = {.run = run};
    bool space = !given(&args[0]) || jinja_value_true(&args[0]), any = false;

    if (self->kind != JINJA_DICT)
        return jinja_fail(run, "xmlattr: expected a mapping");
    for (size_t i = 0; i < jinja_dict_count(self->dict); i++) {
        struct jinja_value key = *jinja_dict_key(self->dict, i);
        struct jinja_value value = *jinja_dict_value(self->dict, i);
        if (value.kind == JINJA_NONE || value.kind == JINJA_UNDEFINED)
            continue;
        if (!need_str(run, &key, "xmlattr"))
            return false;
        for (size_t k = 0; k < key.len; k++)
            if (strchr(" \t\n\r\f\v/>=", key.text[k]) != NULL && key.text[k] != '\0')
                return jinja_fail(run, "Invalid character in attribute name");
        jinja_build_text(&builder, any || space ? " " : "");
        if (!jinja_escape(run, &key, &key) || !jinja_escape(run, &value, &value))
            return false;
        jinja_build_value(&builder, &key);
        jinja_build_text(&builder, "=\"");
        jinja_build_value(&builder, &value);
        jinja_build_char(&builder, '"');
        any = true;
    }
    return jinja_build_finish(&builder, out);
}

/* ---- numbers ---- */

BUILTIN(filter_abs)
{
    if (self->kind == JINJA_FLOAT) {
        *out = jinja_float(fabs(self->number));
        return true;
    }
    int64_t value;
    if (!jinja_to_int(run, self, &value))
        return false;
    if (value == INT64_MIN)
        return jinja_fail_overflow(run);
    *out = jinja_int(value < 0 ? -value : value);
    return true;
}

/* A float truncated to an integer; false if it has none. */
static bool truncate_float(struct jinja_run *run, double number, bool *ok, struct jinja_value *out)
{
    *ok = !isnan(number);
    if (isinf(number))
        return jinja_fail(run, "cannot convert float infinity to integer");
    if (fabs(number) >= 9223372036854775808.0)
        return jinja_fail_overflow(run);
    if (*ok)
        *out = jinja_int((int64_t)number);
    return true;
}

BUILTIN(filter_int)
{
    struct jinja_value otherwise = given(&args[0]) ? args[0] : jinja_int(0);
    bool ok = false, overflow;
    int64_t base, value;
    double number;

    *out = otherwise;
    if (!jinja_int_arg(run, &args[1], 10, &base) || !jinja_spend_value(run, self))
        return false;
    if (self->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (jinja_is_int(self)) {
        *out = jinja_int(self->integer);
        return true;
    }
    if (self->kind == JINJA_BIGINT)
        return jinja_fail_overflow(run);
    if (self->kind == JINJA_FLOAT)
        number = self->number;
    else if (self->kind != JINJA_STR)
        return true;
    else if ((base == 0 || (base >= 2 && base <= 36)) &&
             jinja_parse_int(jinja_text(*self), (int)base, &value, &overflow)) {
        if (overflow)
            return jinja_fail_overflow(run);
        *out = jinja_int(value);
        return true;
    } else if (!jinja_parse_float(jinja_text(*self), &number))
        return true;
    if (!truncate_float(run, number, &ok, out))
        return false;
    if (!ok)
        *out = otherwise;
    return true;
}

BUILTIN(filter_float)
{
    double number = 0;

    if (self->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (!jinja_spend_value(run, self))
        return false;
    if (jinja_is_int(self))
        *out = jinja_float((double)self->integer);
    else if (self->kind == JINJA_FLOAT)
        *out = *self;
    else if ((self->kind == JINJA_STR || self->kind == JINJA_BIGINT) &&
             jinja_parse_float((struct str){self->text, self->len}, &number))
        *out = jinja_float(number);
    else
        *out = given(&args[0]) ? args[0] : jinja_float(0);
    return true;
}

static bool round_int(struct jinja_run *run, int64_t value, int64_t digits, struct jinja_value *out)
{
    int64_t unit = 1;

    if (digits < -18) {
        *out = jinja_int(0);
        return true;
    }
    for (; digits < 0; digits++)
        unit *= 10;
    int64_t rest = value % unit, down = value - rest;
    rest = rest < 0 ? -rest : rest;
    bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
    if (up && unit > 1 && __builtin_add_overflow(down, value < 0 ? -unit : unit, &down))
        return jinja_fail_overflow(run);
    *out = jinja_int(unit > 1 ? down : value);
    return true;
}

BUILTIN(filter_round)
{
    struct str method =
        given(&args[1]) && args[1].kind == JINJA_STR ? jinja_text(args[1]) : STR("common");
    int64_t digits;

    if (!jinja_int_arg(run, &args[0], 0, &digits))
        return false;
    if (self->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, self);
    if (!jinja_is_number(self))
        return jinja_fail(run, "type %s doesn't define __round__ method",
                          jinja_kind_name(self->kind));
    bool ceiling = str_eq(method, STR("ceil")), floors = str_eq(method, STR("floor"));
    if (!ceiling && !floors && !str_eq(method, STR("common")))
        return jinja_fail(run, "method must be common, ceil or floor");
    if (!ceiling && !floors) {
        if (jinja_is_int(self))
            return round_int(run, self->integer, MIN(digits, 0), out);
        *out = jinja_float(jinja_round(self->number, digits));
        return true;
    }
    double value = self->kind == JINJA_FLOAT ? self->number : (double)self->integer;
    double scale = pow(10, (double)digits), scaled = value * scale;
    if (!isfinite(scaled) || scale == 0)
        return jinja_fail(run, "cannot convert float to integer");
    /* Python rounds to an integer, which has no -0. */
    *out = jinja_float(((ceiling ? ceil(scaled) : floor(scaled)) + 0.0) / scale);
    return true;
}

BUILTIN(filter_filesizeformat)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool is_binary = jinja_value_true(&args[0]);
    double base = is_binary ? 1024 : 1000, unit = base;
    struct jinja_builder builder = {.run = run};
    struct jinja_value number, failed = jinja_none();
    size_t i = 0;

    if (!filter_float(run, self, &failed, 0, &number))
        return false;
    if (number.kind != JINJA_FLOAT || !isfinite(number.number))
        return jinja_fail(run, "filesizeformat: not a number");
    double bytes = number.number;
    for (unit = base * base; i < COUNT_OF(decimal) - 1 && bytes >= unit; i++)
        unit *= base;
    if (bytes == 1)
        jinja_build_text(&builder, "1 Byte");
    else if (bytes < base)
        jinja_build_format(&builder, "%.0f Bytes", trunc(bytes) + 0.0);
    else
        jinja_build_format(&builder, "%.1f %s", base * bytes / unit,
                           is_binary ? binary[i] : decimal[i]);
    return jinja_build_finish(&builder, out);
}

RAW_BUILTIN(filter_format)
{
    struct jinja_value text, values;

    if (args->count > 0 && args->kwarg_count > 0)
        return jinja_fail(run, "can't handle positional and keyword arguments at the same time");
    if (!jinja_soft_str(run, self, &text))
        return false;
    if (args->kwarg_count > 0)
        return jinja_new_dict(run, &values) && jinja_set_kwargs(run, values, args) &&
               jinja_format_percent(run, &text, &values, out);
    values = jinja_new_list(run);
    values.kind = JINJA_TUPLE;
    return jinja_add_all(run, values, args->items, args->count) &&
           jinja_format_percent(run, &text, &values, out);
}

const struct jinja_builtin jinja_filters_text[] = {
    ROW("tojson", jinja_filter_tojson, "ensure_ascii indent separators sort_keys", 0, 4),
    ROW("trim", filter_trim, "chars", 0, 1),
    ROW("string", filter_string, "", 0, 0),
    ROW("upper", filter_case, "", 0, 0, CASING_UPPER),
    ROW("lower", filter_case, "", 0, 0, CASING_LOWER),
    ROW("title", filter_title, "", 0, 0),
    ROW("capitalize", filter_case, "", 0, 0, CASING_CAPITALIZE),
    ROW("replace", filter_replace, "old new count", 2, 3),
    ROW("indent", filter_indent, "width first blank", 0, 3),
    ROW("center", filter_center, "width", 0, 1),
    ROW("truncate", filter_truncate, "length killwords end leeway", 0, 4),
    ROW("wordwrap", jinja_filter_wordwrap, "width break_long_words wrapstring break_on_hyphens", 0,
        4),
    ROW("wordcount", filter_wordcount, "", 0, 0),
    ROW("safe", filter_safe, "", 0, 0),
    ROW("e", filter_escape, "", 0, 0),
    ROW("escape", filter_escape, "", 0, 0),
    ROW("forceescape", filter_forceescape, "", 0, 0),
    ROW("striptags", filter_striptags, "", 0, 0),
    ROW("urlencode", filter_urlencode, "", 0, 0),
    ROW("xmlattr", filter_xmlattr, "autospace", 0, 1),
    ROW("abs", filter_abs, "", 0, 0),
    ROW("int", filter_int, "default base", 0, 2),
    ROW("float", filter_float, "default", 0, 1),
    ROW("round", filter_round, "precision method", 0, 2),
    ROW("filesizeformat", filter_filesizeformat, "binary", 0, 1),
    {"format", .raw = filter_format},
    {.name = NULL},
};

const struct jinja_builtin *jinja_filter_find(struct str name)
{
    const struct jinja_builtin *found = jinja_builtin_find(jinja_filters_text, name);

    return found ? found : jinja_builtin_find(jinja_filters_list, name);
}
