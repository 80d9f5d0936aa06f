/*
 * text.c: building text with the origin of each piece, and str() and repr() of every kind of value.
 *
 * A builder keeps bytes and a list of (end, origin); neighbours of the same origin are one piece. A
 * finished text with a single origin carries it in the value. One with several is added to
 * run->mixes and carries the number of that entry.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jinja/object.h"
#include "jinja/unicode.h"

enum { BUILDER_CAP_FIRST = 64 };

/* ---- building ---- */

/* Makes room for `len` more bytes and returns where they go; NULL after a failure. */
static char *grow_text(struct jinja_builder *builder, size_t len)
{
    size_t limit = builder->run->options.limits.output_bytes;

    if (builder->run->failed)
        return NULL;
    if (len > limit - MIN(builder->len, limit)) {
        jinja_fail_code(builder->run, ERR_LIMIT, "a string is too large");
        return NULL;
    }
    if (builder->cap - builder->len < len) {
        size_t cap = MAX(MAX(builder->cap * 2, BUILDER_CAP_FIRST), builder->len + len);
        char *text = arena_grow(builder->run->arena, builder->text, builder->cap, cap);
        if (text == NULL) {
            jinja_fail_memory(builder->run);
            return NULL;
        }
        builder->text = text;
        builder->cap = cap;
    }
    return builder->text + builder->len;
}

/* The text has grown by `len` bytes of this origin. */
static bool commit(struct jinja_builder *builder, size_t len, uint32_t origin)
{
    size_t count = builder->piece_count;

    builder->len += len;
    if (count == 0 || builder->pieces[count - 1].origin != origin) {
        void *pieces =
            arena_push(builder->run->arena, builder->pieces, count, sizeof(*builder->pieces));
        if (pieces == NULL)
            return jinja_fail_memory(builder->run);
        builder->pieces = pieces;
        count = ++builder->piece_count;
    }
    builder->pieces[count - 1] = (struct jinja_piece){builder->len, origin};
    return true;
}

bool jinja_build(struct jinja_builder *builder, struct str text, uint32_t origin)
{
    assert(!(origin & JINJA_ORIGIN_MIXED));
    if (text.len == 0 || (text.len >= BUILDER_CAP_FIRST && !jinja_spend(builder->run, text.len)))
        return !builder->run->failed;
    char *to = grow_text(builder, text.len);
    if (to == NULL)
        return false;
    memcpy(to, text.ptr, text.len);
    return commit(builder, text.len, origin);
}

bool jinja_build_text(struct jinja_builder *builder, const char *text)
{
    return jinja_build(builder, str_from(text), JINJA_ORIGIN_NONE);
}

bool jinja_build_char(struct jinja_builder *builder, char c)
{
    return jinja_build(builder, (struct str){&c, 1}, JINJA_ORIGIN_NONE);
}

bool jinja_build_repeat(struct jinja_builder *builder, char c, size_t count)
{
    if (count == 0 || !jinja_spend(builder->run, count))
        return !builder->run->failed;
    char *to = grow_text(builder, count);
    if (to == NULL)
        return false;
    memset(to, c, count);
    return commit(builder, count, JINJA_ORIGIN_NONE);
}

bool jinja_build_format(struct jinja_builder *builder, const char *fmt, ...)
{
    char text[128];
    va_list args;

    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    assert(len >= 0);
    return jinja_build(builder, (struct str){text, MIN((size_t)len, sizeof(text) - 1)},
                       JINJA_ORIGIN_NONE);
}

static struct jinja_mix mix_of(const struct jinja_run *run, const struct jinja_value *string)
{
    size_t number = string->origin & ~JINJA_ORIGIN_MIXED;

    assert((string->origin & JINJA_ORIGIN_MIXED) && number < run->mix_count);
    return run->mixes[number];
}

bool jinja_build_value(struct jinja_builder *builder, const struct jinja_value *string)
{
    size_t begin = 0;

    if (!(string->origin & JINJA_ORIGIN_MIXED))
        return jinja_build(builder, jinja_text(*string), string->origin);
    struct jinja_mix mix = mix_of(builder->run, string);
    for (size_t i = 0; i < mix.count && !builder->run->failed; i++) {
        struct str piece = {string->text + begin, mix.pieces[i].end - begin};
        jinja_build(builder, piece, mix.pieces[i].origin);
        begin = mix.pieces[i].end;
    }
    return !builder->run->failed;
}

bool jinja_build_cut(struct jinja_builder *builder, const struct jinja_value *string, size_t begin,
                     size_t end)
{
    struct jinja_value piece;

    return !builder->run->failed && jinja_cut(builder->run, string, begin, end, &piece) &&
           jinja_build_value(builder, &piece);
}

/* Adds a list of pieces and returns the origin that represents it. */
static bool add_mix(struct jinja_run *run, struct jinja_mix mix, uint32_t *origin)
{
    struct jinja_mix *mixes = arena_push(run->arena, run->mixes, run->mix_count, sizeof(mix));

    if (mixes == NULL || run->mix_count >= JINJA_ORIGIN_MIXED - 1)
        return jinja_fail_memory(run);
    run->mixes = mixes;
    *origin = JINJA_ORIGIN_MIXED | (uint32_t)run->mix_count;
    run->mixes[run->mix_count++] = mix;
    return true;
}

bool jinja_build_finish_as(struct jinja_builder *builder, uint8_t flags, struct jinja_value *out)
{
    uint32_t origin = builder->piece_count == 1 ? builder->pieces[0].origin : JINJA_ORIGIN_NONE;

    if (builder->run->failed ||
        (builder->piece_count > 1 &&
         !add_mix(builder->run, (struct jinja_mix){builder->pieces, builder->piece_count},
                  &origin)))
        return false;
    *out = jinja_str_from((struct str){builder->text, builder->len}, origin);
    out->flags = flags;
    return true;
}

bool jinja_build_finish(struct jinja_builder *builder, struct jinja_value *out)
{
    return jinja_build_finish_as(builder, 0, out);
}

bool jinja_cut(struct jinja_run *run, const struct jinja_value *string, size_t begin, size_t end,
               struct jinja_value *out)
{
    struct jinja_value whole = *string;

    assert(begin <= end && end <= whole.len);
    *out = jinja_str_from((struct str){whole.text + begin, end - begin}, whole.origin);
    out->flags = whole.flags;
    if (!(whole.origin & JINJA_ORIGIN_MIXED))
        return true;
    struct jinja_mix mix = mix_of(run, &whole);
    size_t first = 0, last;
    while (first + 1 < mix.count && mix.pieces[first].end <= begin)
        first++;
    for (last = first; last + 1 < mix.count && mix.pieces[last].end < end;)
        last++;
    out->origin = mix.pieces[first].origin;
    if (first == last)
        return jinja_spend(run, mix.count);
    struct jinja_piece *pieces = jinja_alloc(run, (last - first + 1) * sizeof(*pieces));
    if (pieces == NULL || !jinja_spend(run, mix.count * sizeof(*pieces)))
        return false;
    for (size_t i = first; i <= last; i++)
        pieces[i - first] =
            (struct jinja_piece){MIN(mix.pieces[i].end, end) - begin, mix.pieces[i].origin};
    return add_mix(run, (struct jinja_mix){pieces, last - first + 1}, &out->origin);
}

uint32_t jinja_origin_of(const struct jinja_run *run, const struct jinja_value *string)
{
    if (string->kind != JINJA_STR)
        return JINJA_ORIGIN_NONE;
    if (!(string->origin & JINJA_ORIGIN_MIXED))
        return string->origin;
    struct jinja_mix mix = mix_of(run, string);
    for (size_t i = 0; i < mix.count; i++)
        if (mix.pieces[i].origin != JINJA_ORIGIN_NONE)
            return mix.pieces[i].origin;
    return JINJA_ORIGIN_NONE;
}

bool jinja_concat(struct jinja_run *run, const struct jinja_value *strings, size_t count,
                  struct jinja_value *out)
{
    struct jinja_builder builder = {.run = run};
    size_t len = 0;

    for (size_t i = 0; i < count; i++)
        len += strings[i].len;
    grow_text(&builder, len);
    for (size_t i = 0; i < count; i++)
        jinja_build_value(&builder, &strings[i]);
    return jinja_build_finish(&builder, out);
}

/* ---- repr ---- */

static bool repr_string(struct jinja_builder *builder, const struct jinja_value *value)
{
    struct str text = jinja_text(*value);
    const char *at = text.ptr, *end = text.ptr + text.len, *clean = at;
    bool single = text.len > 0 && memchr(text.ptr, '\'', text.len) != NULL;
    bool both = single && memchr(text.ptr, '"', text.len) != NULL;
    char quote = single && !both ? '"' : '\'';
    uint32_t origin = jinja_origin_of(builder->run, value);

    jinja_build_char(builder, quote);
    while (at < end) {
        const char *from = at;
        uint32_t code = utf8_next(&at, end);
        char escape = code == '\n'                                             ? 'n'
                      : code == '\r'                                           ? 'r'
                      : code == '\t'                                           ? 't'
                      : code == '\\' || code == (uint32_t)(unsigned char)quote ? (char)code
                                                                               : 0;
        bool printable =
            code < 0x7F ? code >= ' ' : (jinja_char_props(code) & JINJA_CHAR_PRINTABLE) != 0;
        if (escape == 0 && printable)
            continue;
        jinja_build(builder, (struct str){clean, (size_t)(from - clean)}, origin);
        if (escape != 0)
            jinja_build_format(builder, "\\%c", escape);
        else
            jinja_build_format(builder,
                               code < 0x100     ? "\\x%02x"
                               : code < 0x10000 ? "\\u%04x"
                                                : "\\U%08x",
                               code);
        clean = at;
    }
    jinja_build(builder, (struct str){clean, (size_t)(end - clean)}, origin);
    return jinja_build_char(builder, quote);
}

static bool repr_items(struct jinja_builder *builder, const struct jinja_list *list,
                       const char *brackets)
{
    jinja_build_char(builder, brackets[0]);
    for (size_t i = 0; i < list->count && !builder->run->failed; i++) {
        jinja_build_text(builder, i > 0 ? ", " : "");
        jinja_build_repr(builder, &list->items[i]);
    }
    if (brackets[0] == '(' && list->count == 1)
        jinja_build_char(builder, ',');
    return jinja_build_char(builder, brackets[1]);
}

static bool repr_dict(struct jinja_builder *builder, const struct jinja_dict *dict)
{
    jinja_build_char(builder, '{');
    for (size_t i = 0; i < jinja_dict_count(dict) && !builder->run->failed; i++) {
        jinja_build_text(builder, i > 0 ? ", " : "");
        jinja_build_repr(builder, jinja_dict_key(dict, i));
        jinja_build_text(builder, ": ");
        jinja_build_repr(builder, jinja_dict_value(dict, i));
    }
    return jinja_build_char(builder, '}');
}

static bool repr_view(struct jinja_builder *builder, const struct jinja_value *view)
{
    static const char *const names[] = {"dict_keys(", "dict_values(", "dict_items("};
    struct jinja_value list;

    return jinja_to_list(builder->run, view, &list) &&
           jinja_build_text(builder, names[view->len]) && repr_items(builder, list.list, "[]") &&
           jinja_build_char(builder, ')');
}

static bool repr_range(struct jinja_builder *builder, const struct jinja_range *range)
{
    jinja_build_format(builder, "range(%lld, %lld", (long long)range->start,
                       (long long)range->stop);
    if (range->step != 1)
        jinja_build_format(builder, ", %lld", (long long)range->step);
    return jinja_build_char(builder, ')');
}

static bool repr_loop(struct jinja_builder *builder, struct jinja_loop *loop)
{
    struct jinja_value length;

    return jinja_loop_attr(builder->run, loop, STR("length"), &length) &&
           jinja_build_format(builder, "<LoopContext %lld/%lld>", (long long)loop->index0 + 1,
                              (long long)length.integer);
}

static bool repr_macro(struct jinja_builder *builder, const struct jinja_macro *macro)
{
    if (macro->function->name.len == 0)
        return jinja_build_text(builder, "<Macro anonymous>");
    return jinja_build_format(builder, "<Macro '" STR_FMT "'>", STR_ARG(macro->function->name));
}

static bool repr_markup(struct jinja_builder *builder, const struct jinja_value *value)
{
    jinja_build_text(builder, "Markup(");
    repr_string(builder, value);
    return jinja_build_char(builder, ')');
}

bool jinja_build_number(struct jinja_builder *builder, const struct jinja_value *value)
{
    char text[JINJA_NUMBER_BYTES];

    if (value->kind == JINJA_INT)
        return jinja_build_format(builder, "%lld", (long long)value->integer);
    return jinja_build(builder, (struct str){text, jinja_float_repr(value->number, text)},
                       JINJA_ORIGIN_NONE);
}

static bool repr_value(struct jinja_builder *builder, const struct jinja_value *value)
{
    switch ((enum jinja_kind)value->kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return jinja_build_text(builder, jinja_kind_name(value->kind));
    case JINJA_BOOL:
        return jinja_build_text(builder, value->integer ? "True" : "False");
    case JINJA_INT:
    case JINJA_FLOAT:
        return jinja_build_number(builder, value);
    case JINJA_BIGINT:
        return jinja_build(builder, jinja_text(*value), JINJA_ORIGIN_NONE);
    case JINJA_STR:
        return (value->flags & JINJA_FLAG_MARKUP ? repr_markup : repr_string)(builder, value);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return repr_items(builder, value->list, value->kind == JINJA_LIST ? "[]" : "()");
    case JINJA_NAMESPACE:
        return jinja_build_text(builder, "<Namespace ") && repr_dict(builder, value->dict) &&
               jinja_build_char(builder, '>');
    case JINJA_DICT:
        return repr_dict(builder, value->dict);
    case JINJA_VIEW:
        return repr_view(builder, value);
    case JINJA_RANGE:
        return repr_range(builder, value->range);
    case JINJA_LOOP:
        return repr_loop(builder, value->object);
    case JINJA_MACRO:
        return repr_macro(builder, value->object);
    default: /* Python prints addresses here, which no template can intend */
        return jinja_build_format(builder, "<%s object>", jinja_kind_name(value->kind));
    }
}

bool jinja_build_repr(struct jinja_builder *builder, const struct jinja_value *value)
{
    if (!jinja_enter(builder->run))
        return false;
    bool ok = repr_value(builder, value);
    jinja_leave(builder->run);
    return ok;
}

/* ---- str ---- */

bool jinja_build_str(struct jinja_builder *builder, const struct jinja_value *value)
{
    if (value->kind == JINJA_STR)
        return jinja_build_value(builder, value);
    return value->kind == JINJA_UNDEFINED || jinja_build_repr(builder, value);
}

bool jinja_soft_str(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out)
{
    struct jinja_builder builder = {.run = run};

    if (value->kind == JINJA_STR) {
        *out = *value;
        return true;
    }
    jinja_build_str(&builder, value);
    return jinja_build_finish(&builder, out);
}

bool jinja_to_str(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out)
{
    if (!jinja_soft_str(run, value, out))
        return false;
    out->flags &= (uint8_t)~JINJA_FLAG_MARKUP;
    return true;
}

bool jinja_escape(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out)
{
    struct jinja_builder builder = {.run = run};
    struct jinja_value text;
    size_t clean = 0;

    if (!jinja_soft_str(run, value, &text) || !jinja_spend(run, text.len))
        return false;
    for (size_t i = 0; i < text.len && !(text.flags & JINJA_FLAG_MARKUP); i++) {
        char c = text.text[i];
        const char *entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '"'  ? "&#34;"
                             : c == '\'' ? "&#39;"
                                         : NULL;
        if (entity == NULL)
            continue;
        jinja_build_cut(&builder, &text, clean, i);
        jinja_build(&builder, str_from(entity), jinja_origin_of(run, &text));
        clean = i + 1;
    }
    if (clean > 0) {
        jinja_build_cut(&builder, &text, clean, text.len);
        if (!jinja_build_finish(&builder, &text))
            return false;
    }
    *out = text;
    out->flags |= JINJA_FLAG_MARKUP;
    return true;
}
