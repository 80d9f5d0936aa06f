/*
 * json.c: the tojson filter: json.dumps, byte for byte.
 *
 * Text inside the JSON keeps its origin where no escape was needed, so that user text can be
 * recognised even there.
 */
#include <math.h>
#include <string.h>

#include "jinja/object.h"
#include "jinja/unicode.h"

struct writer {
    struct jinja_run *run;
    struct jinja_builder builder;
    struct jinja_value indent; /* a string, or missing: all on one line */
    struct jinja_value item_separator, key_separator;
    bool ensure_ascii, sort_keys;
    unsigned level;
};

static bool write_value(struct writer *writer, const struct jinja_value *value);

static bool put(struct writer *writer, struct str text)
{
    return jinja_build(&writer->builder, text, JINJA_ORIGIN_NONE);
}

static bool newline(struct writer *writer)
{
    if (writer->indent.kind == JINJA_MISSING)
        return true;
    put(writer, STR("\n"));
    for (unsigned i = 0; i < writer->level && !writer->run->failed; i++)
        jinja_build_value(&writer->builder, &writer->indent);
    return !writer->run->failed;
}

static bool write_escape(struct writer *writer, uint32_t code)
{
    static const char escaped[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *found = code != 0 && code < 0x80 ? strchr(escaped, (int)code) : NULL;

    if (found != NULL)
        return jinja_build_format(&writer->builder, "\\%c", letters[found - escaped]);
    if (code < 0x10000)
        return jinja_build_format(&writer->builder, "\\u%04x", code);
    code -= 0x10000;
    return jinja_build_format(&writer->builder, "\\u%04x\\u%04x", 0xD800 + (code >> 10),
                              0xDC00 + (code & 0x3FF));
}

static bool write_string(struct writer *writer, const struct jinja_value *value)
{
    const char *at = value->text, *end = at + value->len, *clean = at;
    uint32_t origin = jinja_origin_of(writer->run, value);

    if (!put(writer, STR("\"")) || !jinja_spend(writer->run, value->len))
        return false;
    while (at < end) {
        const char *from = at;
        unsigned char c = (unsigned char)*at;
        uint32_t code = c;
        if (c < 0x80)
            at++;
        else
            code = utf8_next(&at, end);
        if (code >= ' ' && code != '"' && code != '\\' &&
            (code < 0x7F || !writer->ensure_ascii || code == 0x7F))
            continue;
        jinja_build(&writer->builder, (struct str){clean, (size_t)(from - clean)}, origin);
        write_escape(writer, code);
        clean = at;
    }
    jinja_build(&writer->builder, (struct str){clean, (size_t)(end - clean)}, origin);
    return put(writer, STR("\""));
}

static bool write_number(struct writer *writer, const struct jinja_value *value)
{
    if (value->kind == JINJA_FLOAT && isnan(value->number))
        return put(writer, STR("NaN"));
    if (value->kind == JINJA_FLOAT && isinf(value->number))
        return put(writer, value->number > 0 ? STR("Infinity") : STR("-Infinity"));
    return jinja_build_number(&writer->builder, value);
}

static bool write_list(struct writer *writer, const struct jinja_list *list)
{
    if (list->count == 0)
        return put(writer, STR("[]"));
    writer->level++;
    put(writer, STR("["));
    for (size_t i = 0; i < list->count && !writer->run->failed; i++) {
        if (i > 0)
            jinja_build_value(&writer->builder, &writer->item_separator);
        newline(writer);
        write_value(writer, &list->items[i]);
    }
    writer->level--;
    return newline(writer) && put(writer, STR("]"));
}

/* Keys that are not strings become strings. */
static bool write_key(struct writer *writer, const struct jinja_value *key)
{
    switch ((enum jinja_kind)key->kind) {
    case JINJA_STR:
        return write_string(writer, key);
    case JINJA_NONE:
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_BIGINT:
    case JINJA_FLOAT:
        return put(writer, STR("\"")) && write_value(writer, key) && put(writer, STR("\""));
    default:
        return jinja_fail(writer->run, "keys must be str, int, float, bool or None, not %s",
                          jinja_kind_name(key->kind));
    }
}

/* The order of the pairs: unchanged, or sorted by key. */
static bool pair_order(struct writer *writer, const struct jinja_dict *dict, size_t *order)
{
    size_t count = jinja_dict_count(dict);

    for (size_t i = 0; i < count; i++)
        order[i] = i;
    /* Binary insertion: few comparisons, and dicts with sort_keys are small schemas. */
    for (size_t i = 1; i < count && writer->sort_keys; i++) {
        size_t low = 0, high = i, moving = order[i];
        while (low < high) {
            size_t mid = low + (high - low) / 2;
            bool less;
            if (!jinja_less(writer->run, jinja_dict_key(dict, moving),
                            jinja_dict_key(dict, order[mid]), &less))
                return false;
            if (less)
                high = mid;
            else
                low = mid + 1;
        }
        if (!jinja_spend(writer->run, (i - low) * sizeof(*order)))
            return false;
        memmove(&order[low + 1], &order[low], (i - low) * sizeof(*order));
        order[low] = moving;
    }
    return true;
}

static bool write_dict(struct writer *writer, const struct jinja_dict *dict)
{
    size_t count = jinja_dict_count(dict);
    size_t *order = jinja_alloc(writer->run, (count + 1) * sizeof(*order));

    if (count == 0)
        return put(writer, STR("{}"));
    writer->level++;
    if (order == NULL || !pair_order(writer, dict, order))
        return false;
    put(writer, STR("{"));
    for (size_t i = 0; i < count && !writer->run->failed; i++) {
        if (i > 0)
            jinja_build_value(&writer->builder, &writer->item_separator);
        newline(writer);
        write_key(writer, jinja_dict_key(dict, order[i]));
        jinja_build_value(&writer->builder, &writer->key_separator);
        write_value(writer, jinja_dict_value(dict, order[i]));
    }
    writer->level--;
    return newline(writer) && put(writer, STR("}"));
}

static bool write_kind(struct writer *writer, const struct jinja_value *value)
{
    switch ((enum jinja_kind)value->kind) {
    case JINJA_NONE:
        return put(writer, STR("null"));
    case JINJA_BOOL:
        return put(writer, value->integer ? STR("true") : STR("false"));
    case JINJA_INT:
    case JINJA_FLOAT:
        return write_number(writer, value);
    case JINJA_BIGINT:
        return put(writer, jinja_text(*value));
    case JINJA_STR:
        return write_string(writer, value);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return write_list(writer, value->list);
    case JINJA_DICT:
        return write_dict(writer, value->dict);
    default:
        return jinja_fail(writer->run, "Object of type %s is not JSON serializable",
                          jinja_kind_name(value->kind));
    }
}

static bool write_value(struct writer *writer, const struct jinja_value *value)
{
    if (!jinja_enter(writer->run))
        return false;
    bool ok = write_kind(writer, value);
    jinja_leave(writer->run);
    return ok;
}

/* `indent` is a number of blanks or a text. */
static bool set_indent(struct writer *writer, const struct jinja_value *indent)
{
    writer->indent = (struct jinja_value){.kind = JINJA_MISSING};
    return !some(indent) || jinja_indent_unit(writer->run, *indent, &writer->indent);
}

static bool set_separators(struct writer *writer, const struct jinja_value *separators)
{
    struct jinja_value list;

    writer->item_separator = jinja_str(writer->indent.kind == JINJA_MISSING ? STR(", ") : STR(","));
    writer->key_separator = jinja_str(STR(": "));
    if (!some(separators))
        return true;
    if (!jinja_to_list(writer->run, separators, &list))
        return false;
    if (list.list->count != 2 || list.list->items[0].kind != JINJA_STR ||
        list.list->items[1].kind != JINJA_STR)
        return jinja_fail(writer->run, "separators must be two strings");
    writer->item_separator = list.list->items[0];
    writer->key_separator = list.list->items[1];
    return true;
}

/* ensure_ascii, indent, separators, sort_keys */
BUILTIN_SIGNATURE(jinja_filter_tojson, struct jinja_value)
{
    struct writer writer = {
        .run = run,
        .builder = {.run = run},
        .ensure_ascii = jinja_value_true(&args[0]),
        .sort_keys = jinja_value_true(&args[3]),
    };

    return set_indent(&writer, &args[1]) && set_separators(&writer, &args[2]) &&
           write_value(&writer, self) && jinja_build_finish(&writer.builder, out);
}
