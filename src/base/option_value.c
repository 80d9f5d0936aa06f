/*
 * option_value.c: one text to one typed value, and back.
 *
 * The messages made here say what is wrong with the text; the caller prepends its source.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "base/option_impl.h"
#include "base/units.h"
#include "base/utf8.h"

static void *field_of(const struct option_desc *desc, void *values)
{
    return (char *)values + desc->offset;
}

const char *option_quote(struct str text, char out[OPTION_QUOTE_BYTES])
{
    enum { SHOWN_MAX = 60 };
    size_t len = text.len <= SHOWN_MAX ? text.len : utf8_whole((struct str){text.ptr, SHOWN_MAX});
    size_t at = 0;

    out[at++] = '"';
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        out[at++] = c < 0x20 || c == 0x7F ? '?' : (char)c;
    }
    snprintf(out + at, OPTION_QUOTE_BYTES - at, "%s\"", len < text.len ? "..." : "");
    return out;
}

const char *option_env_name(const struct option_desc *desc, char out[OPTION_NAME_BYTES])
{
    snprintf(out, OPTION_NAME_BYTES, "HEARTH_%s", desc->name);
    for (char *p = out; *p; p++) {
        if (*p == '-')
            *p = '_';
        else if (*p >= 'a' && *p <= 'z')
            *p = (char)(*p - 'a' + 'A');
    }
    return out;
}

const char *option_value_word(const struct option_desc *desc)
{
    static const char *const words[] = {
        [OPTION_UINT] = "N",    [OPTION_INT] = "N",     [OPTION_FLOAT] = "X",
        [OPTION_TEXT] = "TEXT", [OPTION_SIZE] = "SIZE", [OPTION_DURATION] = "TIME",
        [OPTION_LIST] = "TEXT",
    };

    if (desc->value != NULL || desc->type == OPTION_FLAG || desc->type == OPTION_ENUM)
        return desc->value;
    return words[desc->type];
}

/* A bound as a user would write it. */
static void format_bound(enum option_type type, uint64_t v, char out[UNITS_TEXT_BYTES])
{
    if (type == OPTION_SIZE)
        units_format_size(v, out);
    else if (type == OPTION_DURATION)
        units_format_duration(v, out);
    else
        snprintf(out, UNITS_TEXT_BYTES, "%llu", (unsigned long long)v);
}

/* "auto, all, or " */
static void words_before(const struct option_desc *desc, char out[OPTION_RANGE_BYTES])
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; desc->names != NULL && desc->names[i] != NULL; i++)
        used += (size_t)snprintf(out + used, OPTION_RANGE_BYTES - used, "%s, %s", desc->names[i],
                                 desc->names[i + 1] == NULL ? "or " : "");
    assert(used < OPTION_RANGE_BYTES);
}

bool option_range(const struct option_desc *desc, char out[OPTION_RANGE_BYTES])
{
    char low[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];

    switch (desc->type) {
    case OPTION_UINT:
    case OPTION_SIZE:
    case OPTION_DURATION:
        format_bound(desc->type, desc->min, low);
        format_bound(desc->type, desc->max, high);
        if (desc->max == 0)
            snprintf(out, OPTION_RANGE_BYTES, "at least %s", low);
        else if (desc->min == 0 && desc->type != OPTION_UINT) /* because a 0 has no unit */
            snprintf(out, OPTION_RANGE_BYTES, "at most %s", high);
        else
            snprintf(out, OPTION_RANGE_BYTES, "%s to %s", low, high);
        return desc->min > 0 || desc->max > 0;
    case OPTION_INT:
        words_before(desc, out);
        snprintf(out + strlen(out), OPTION_RANGE_BYTES - strlen(out), "%lld to %lld",
                 (long long)desc->imin, (long long)desc->imax);
        return desc->imin != 0 || desc->imax != 0;
    case OPTION_FLOAT:
        snprintf(out, OPTION_RANGE_BYTES, "%g to %g", desc->fmin, desc->fmax);
        return desc->fmin != 0 || desc->fmax != 0;
    default:
        return false;
    }
}

/* "<text> <what>; expected <range>" */
static enum err refuse(const struct option_desc *desc, struct str text, const char *what,
                       struct errinfo *info)
{
    char quoted[OPTION_QUOTE_BYTES], range[OPTION_RANGE_BYTES];

    option_quote(text, quoted);
    if (option_range(desc, range))
        return err_set(info, ERR_INVALID, "%s %s; expected %s", quoted, what, range);
    return err_set(info, ERR_INVALID, "%s %s", quoted, what);
}

static bool parse_flag(struct str text, bool *out)
{
    static const char *const on[] = {"on", "true", "yes", "1"};
    static const char *const off[] = {"off", "false", "no", "0"};

    for (size_t i = 0; i < COUNT_OF(on); i++) {
        if (str_eq_nocase(text, str_from(on[i])) || str_eq_nocase(text, str_from(off[i]))) {
            *out = str_eq_nocase(text, str_from(on[i]));
            return true;
        }
    }
    return false;
}

static enum err parse_enum(const struct option_desc *desc, struct str text, int *out,
                           struct errinfo *info)
{
    char quoted[OPTION_QUOTE_BYTES], list[256] = "";
    struct option_guess guess = {0};
    size_t used = 0;

    for (int i = 0; desc->names[i] != NULL; i++) {
        if (str_eq_nocase(text, str_from(desc->names[i]))) {
            *out = i;
            return ERR_OK;
        }
        option_guess_name(&guess, text, desc->names[i]);
        if (used < sizeof(list))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
                                     desc->names[i]);
    }
    option_quote(text, quoted);
    if (guess.name != NULL)
        return err_set(info, ERR_INVALID, "%s is not one of %s; did you mean %s?", quoted, list,
                       guess.name);
    return err_set(info, ERR_INVALID, "%s is not one of %s", quoted, list);
}

/* UINT, SIZE and DURATION: the same C type, the same bounds. */
static enum err parse_unsigned(const struct option_desc *desc, struct str text, uint64_t *out,
                               const struct option_value_from *from, struct errinfo *info)
{
    char words[OPTION_RANGE_BYTES], quoted[OPTION_QUOTE_BYTES];
    uint64_t v = 0;

    for (uint64_t i = 0; desc->names != NULL && desc->names[i] != NULL; i++) {
        if (str_eq_nocase(text, str_from(desc->names[i]))) {
            *out = UINT64_MAX - i;
            return ERR_OK;
        }
    }
    if (desc->type == OPTION_SIZE) {
        enum err err = units_parse_size(text, from->whole, &v, info);
        if (err != ERR_OK && desc->names != NULL) {
            words_before(desc, words);
            option_quote(text, quoted);
            return err_set(info, err, "%s is not valid; expected %sa size such as 512MiB", quoted,
                           words);
        }
        TRY(err);
    } else if (desc->type == OPTION_DURATION)
        TRY(units_parse_duration(text, &v, info));
    else if (!str_to_u64(text, &v))
        return refuse(desc, text, "is not a whole number of 0 or more", info);
    if (from->checked && (v < desc->min || (desc->max > 0 && v > desc->max)))
        return refuse(desc, text, "is out of range", info);
    *out = v;
    return ERR_OK;
}

static enum err parse_int(const struct option_desc *desc, struct str text, int64_t *out,
                          bool checked, struct errinfo *info)
{
    bool bounded = checked && (desc->imin != 0 || desc->imax != 0);
    int64_t v;

    for (int i = 0; desc->names != NULL && desc->names[i] != NULL; i++) {
        if (str_eq_nocase(text, str_from(desc->names[i]))) {
            *out = -1 - i;
            return ERR_OK;
        }
    }
    if (!str_to_i64(text, &v))
        return refuse(desc, text, "is not a whole number", info);
    if (bounded && (v < desc->imin || v > desc->imax))
        return refuse(desc, text, "is out of range", info);
    *out = v;
    return ERR_OK;
}

static enum err parse_float(const struct option_desc *desc, struct str text, double *out,
                            bool checked, struct errinfo *info)
{
    bool bounded = checked && (desc->fmin != 0 || desc->fmax != 0);
    double v;

    if (!str_to_f64(text, &v))
        return refuse(desc, text, "is not a number", info);
    if (bounded && (v < desc->fmin || v > desc->fmax))
        return refuse(desc, text, "is out of range", info);
    *out = v;
    return ERR_OK;
}

static enum err copy_text(struct str text, const char **out, struct arena *arena,
                          struct errinfo *info)
{
    char *copy = arena_strdup(arena, text);

    if (copy == NULL)
        return err_set(info, arena->err, "no memory for the value");
    *out = copy;
    return ERR_OK;
}

static enum err append_item(struct option_list *list, struct str text, struct arena *arena,
                            struct errinfo *info)
{
    const char **items = arena_push(arena, list->items, list->count, sizeof(*items));

    if (items == NULL)
        return err_set(info, arena->err, "no memory for the list");
    list->items = items;
    TRY(copy_text(text, &items[list->count], arena, info));
    list->count++;
    return ERR_OK;
}

enum err option_value_parse(const struct option_desc *desc, struct str text, void *values,
                            const struct option_value_from *from, struct errinfo *info)
{
    void *field = field_of(desc, values);

    switch (desc->type) {
    case OPTION_FLAG:
        return parse_flag(text, field) ? ERR_OK : refuse(desc, text, "is neither on nor off", info);
    case OPTION_UINT:
    case OPTION_SIZE:
    case OPTION_DURATION:
        return parse_unsigned(desc, text, field, from, info);
    case OPTION_INT:
        return parse_int(desc, text, field, from->checked, info);
    case OPTION_FLOAT:
        return parse_float(desc, text, field, from->checked, info);
    case OPTION_ENUM:
        return parse_enum(desc, text, field, info);
    case OPTION_TEXT:
        return copy_text(text, field, from->arena, info);
    case OPTION_LIST:
        return append_item(field, text, from->arena, info);
    }
    assert(!"an option type that is in the list");
    abort();
}

static bool is_zero(const struct option_desc *desc, const void *field)
{
    switch (desc->type) {
    case OPTION_TEXT:
        return *(const char *const *)field == NULL;
    case OPTION_LIST:
        return ((const struct option_list *)field)->count == 0;
    case OPTION_FLAG:
        return !*(const bool *)field;
    case OPTION_ENUM:
        return *(const int *)field == 0;
    default: /* the 64-bit types; 0.0 has no bits set, either */
        return *(const uint64_t *)field == 0;
    }
}

static void show_list(const struct option_list *list, struct buf *out)
{
    for (size_t i = 0; i < list->count; i++)
        buf_appendf(out, "%s%s", i ? ", " : "", list->items[i]);
}

static void show_int(const struct option_desc *desc, int64_t v, struct buf *out)
{
    if (v < 0 && desc->names != NULL)
        buf_append_str(out, desc->names[-1 - v]);
    else
        buf_appendf(out, "%lld", (long long)v);
}

static void show_unsigned(const struct option_desc *desc, uint64_t v, struct buf *out)
{
    char text[UNITS_TEXT_BYTES];

    for (uint64_t i = 0; desc->names != NULL && desc->names[i] != NULL; i++) {
        if (v == UINT64_MAX - i) {
            buf_append_str(out, desc->names[i]);
            return;
        }
    }
    format_bound(desc->type, v, text);
    buf_append_str(out, text);
}

enum err option_show(const struct option_desc *desc, const void *values, struct buf *out)
{
    const void *field = (const char *)values + desc->offset;
    bool may_be_none = desc->type == OPTION_TEXT || desc->type == OPTION_LIST || desc->secret;

    if (may_be_none && is_zero(desc, field))
        return buf_append_str(out, "none");
    if (desc->secret)
        return buf_append_str(out, "***");
    switch (desc->type) {
    case OPTION_FLAG:
        buf_append_str(out, *(const bool *)field ? "on" : "off");
        break;
    case OPTION_UINT:
    case OPTION_SIZE:
    case OPTION_DURATION:
        show_unsigned(desc, *(const uint64_t *)field, out);
        break;
    case OPTION_INT:
        show_int(desc, *(const int64_t *)field, out);
        break;
    case OPTION_FLOAT:
        buf_append_double(out, *(const double *)field);
        break;
    case OPTION_TEXT:
        buf_append_str(out, *(const char *const *)field);
        break;
    case OPTION_ENUM:
        buf_append_str(out, desc->names[*(const int *)field]);
        break;
    case OPTION_LIST:
        show_list(field, out);
        break;
    }
    return out->err;
}
