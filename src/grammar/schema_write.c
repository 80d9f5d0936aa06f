/*
 * schema_write.c: the output side of the schema compiler: rules, literals, repetitions, and errors
 * with their place.
 *
 * LARGE COUNTS. The library expands x{m,n} to m copies and n - m rules, and refuses 2,000 of them.
 * So a count above CHUNK is written with chunks of that size, which stays near 2 * sqrt(n):
 *
 *      x{1000,3000}  =  k{3} x{232} ( k{0,6} x{0,255} | k{7} x{0,208} )        k = x{256}
 *
 * The two parts of an alternative compete for at most CHUNK characters, so few parses are followed
 * at a time.
 */
#include "grammar/schema_impl.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_alc.h"
#include "base/utf8.h"
#include "grammar/schema_chars.h"

enum { CHUNK = 256, POINTER_BYTES = 200 };

/* In the bodies `@` precedes the name of a shared rule and `~` means white space. */
static const struct {
    const char *name, *body;
} shared[SCHEMA_RULE_OWN] = {
    [SCHEMA_RULE_VALUE] = {"value", "@object | @array | @string | @number | @boolean | @null"},
    [SCHEMA_RULE_OBJECT] = {"object", "\"{\" ~( @pair ( \",\" ~@pair )* ~)? \"}\""},
    [SCHEMA_RULE_ARRAY] = {"array", "\"[\" ~( @value ( \",\" ~@value )* ~)? \"]\""},
    [SCHEMA_RULE_PAIR] = {"pair", "@string \":\" ~@value"},
    [SCHEMA_RULE_STRING] = {"string", "\"\\\"\" @char* \"\\\"\""},
    /* Digits are bounded so that a model cannot generate them forever, and no number overflows a
     * double. */
    [SCHEMA_RULE_NUMBER] = {"number", "\"-\"? ( \"0\" | [1-9] [0-9]{0,17} ) ( \".\" [0-9]{1,17} )? "
                                      "( [eE] [-+]? [0-9]{1,2} )?"},
    [SCHEMA_RULE_INTEGER] = {"integer", "\"0\" | \"-\"? [1-9] [0-9]{0,17}"},
    [SCHEMA_RULE_BOOLEAN] = {"boolean", "\"true\" | \"false\""},
    [SCHEMA_RULE_NULL] = {"null", "\"null\""},
    [SCHEMA_RULE_CHAR] = {"char", "@raw | \"\\\\\" ( [\"\\\\/bfnrt] | \"u\" ( [0-9a-cA-CefEF] "
                                  "[0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2} ) )"},
    [SCHEMA_RULE_RAW] = {"raw", "[ !#-\\[\\]-\\uD7FF\\uE000-\\U0010FFFF]"},
    [SCHEMA_RULE_SPACE] = {"ws", "\" \"? | \"\\n\" [ \\t]{0,32}"},
};

/* ---- errors and places ---- */

/* "/a~1b", with a leading "..." in place of the part that does not fit. */
static void write_pointer(const struct schema_place *place, char text[POINTER_BYTES])
{
    char *at = text + POINTER_BYTES - 1;

    *at = '\0';
    for (; place != NULL; place = place->parent) {
        size_t need = place->parent ? 1 : 0;
        for (size_t i = 0; i < place->key.len; i++)
            need += place->parent && strchr("~/", place->key.ptr[i]) && place->key.ptr[i] ? 2 : 1;
        if (need + 4 > (size_t)(at - text)) {
            at -= 3;
            memcpy(at, "...", 3);
            break;
        }
        at -= need;
        char *to = at;
        if (place->parent)
            *to++ = '/';
        for (size_t i = 0; i < place->key.len; i++) {
            char k = place->key.ptr[i];
            bool escape = place->parent && (k == '~' || k == '/');
            *to++ = escape ? '~' : k;
            if (escape)
                *to++ = k == '~' ? '0' : '1';
        }
    }
    memmove(text, at, strlen(at) + 1);
}

enum err schema_refuse(struct schema_compiler *c, const struct schema_place *place, enum err code,
                       const char *fmt, ...)
{
    char pointer[POINTER_BYTES], text[400];
    va_list args;

    write_pointer(place, pointer);
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return err_set(c->info, code, "schema at '%s': %s", pointer, text);
}

enum err schema_no_memory(struct schema_compiler *c)
{
    if (c->arena.err == ERR_LIMIT || c->out->err == ERR_LIMIT)
        return err_set(c->info, ERR_LIMIT,
                       "schema: it needs too large a grammar; make it smaller or split it");
    return err_set(c->info, ERR_NOMEM, "schema: no memory to compile it");
}

enum err schema_place(struct schema_compiler *c, const struct schema_place *parent, struct str key,
                      const struct schema_place **place)
{
    struct schema_place *made = arena_alloc(&c->arena, sizeof(*made));

    if (made == NULL)
        return schema_no_memory(c);
    *made = (struct schema_place){parent, key};
    *place = made;
    return ERR_OK;
}

enum err schema_place_index(struct schema_compiler *c, const struct schema_place *parent,
                            size_t index, const struct schema_place **place)
{
    const char *text = arena_printf(&c->arena, "%zu", index);

    if (text == NULL)
        return schema_no_memory(c);
    return schema_place(c, parent, str_from(text), place);
}

/* ---- rules ---- */

enum err schema_rule_reserve(struct schema_compiler *c, uint32_t *rule)
{
    if (c->rules_count == SCHEMA_RULES_MAX)
        return err_set(c->info, ERR_LIMIT,
                       "schema: it needs more than %d grammar rules; make it smaller or split it",
                       SCHEMA_RULES_MAX);
    *rule = SCHEMA_RULE_OWN + c->rules_count++;
    return ERR_OK;
}

void schema_rule_open(struct schema_compiler *c, uint32_t rule)
{
    assert(!c->writing); /* children first */
    c->writing = true;
    schema_put_rule(c, rule);
    schema_put(c, "::=");
}

enum err schema_rule_begin(struct schema_compiler *c, uint32_t *rule)
{
    TRY(schema_rule_reserve(c, rule));
    schema_rule_open(c, *rule);
    return ERR_OK;
}

enum err schema_rule_end(struct schema_compiler *c)
{
    assert(c->writing);
    c->writing = false;
    buf_append_char(c->out, '\n');
    if (c->out->err != ERR_OK)
        return schema_no_memory(c);
    if (c->cells > SCHEMA_CELLS_MAX)
        return err_set(c->info, ERR_LIMIT,
                       "schema: its repetitions are too large together; lower maxLength, maxItems "
                       "or the counts in patterns, or leave them out");
    return ERR_OK;
}

void schema_put(struct schema_compiler *c, const char *gbnf)
{
    buf_append_str(c->out, gbnf);
    buf_append_char(c->out, ' ');
}

void schema_put_rule(struct schema_compiler *c, uint32_t rule)
{
    assert(rule != SCHEMA_NEVER);
    if (rule < SCHEMA_RULE_OWN) {
        c->shared |= UINT32_C(1) << rule;
        buf_appendf(c->out, "%s%s ", c->options.prefix, shared[rule].name);
    } else {
        buf_appendf(c->out, "%sr%u ", c->options.prefix, rule - SCHEMA_RULE_OWN);
    }
}

void schema_put_space(struct schema_compiler *c)
{
    if (c->options.space == SCHEMA_SPACE_BOUNDED)
        schema_put_rule(c, SCHEMA_RULE_SPACE);
}

void schema_put_comma(struct schema_compiler *c)
{
    schema_put(c, "\",\"");
    schema_put_space(c);
}

void schema_put_count(struct schema_compiler *c, uint32_t min, uint32_t max)
{
    assert(min <= max);
    c->cells += 4 * (max == SCHEMA_FOREVER ? min + 1 : max);
    if (c->out->len > 0 && c->out->data[c->out->len - 1] == ' ') /* it follows its item directly */
        buf_truncate(c->out, c->out->len - 1);
    if (max == SCHEMA_FOREVER && min <= 1)
        schema_put(c, min ? "+" : "*");
    else if (max == SCHEMA_FOREVER)
        buf_appendf(c->out, "{%u,} ", min);
    else if (min == 0 && max == 1)
        schema_put(c, "?");
    else if (min == max)
        buf_appendf(c->out, min == 1 ? " " : "{%u} ", min);
    else
        buf_appendf(c->out, "{%u,%u} ", min, max);
}

void schema_put_ranges(struct schema_compiler *c, const struct schema_chars *set)
{
    buf_append_char(c->out, '[');
    for (size_t i = 0; i < set->count; i++) {
        schema_put_char(c, set->ranges[i].low);
        buf_append_char(c->out, '-');
        schema_put_char(c, set->ranges[i].high);
    }
    schema_put(c, "]");
}

enum err schema_any_of(struct schema_compiler *c, const uint32_t *rules, size_t count,
                       uint32_t *rule)
{
    if (count <= 1) {
        *rule = count ? rules[0] : SCHEMA_NEVER;
        return ERR_OK;
    }
    TRY(schema_rule_begin(c, rule));
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            schema_put(c, "|");
        schema_put_rule(c, rules[i]);
    }
    return schema_rule_end(c);
}

static void put_repeated(struct schema_compiler *c, uint32_t item, uint32_t min, uint32_t max)
{
    if (max == 0)
        return;
    schema_put_rule(c, item);
    schema_put_count(c, min, max);
}

enum err schema_repeat(struct schema_compiler *c, uint32_t item, uint32_t min, uint32_t max,
                       uint32_t *rule)
{
    uint32_t optional = max == SCHEMA_FOREVER ? max : max - min;
    uint32_t chunk = SCHEMA_NEVER;

    assert(min <= max && min <= SCHEMA_REPEAT_MAX);
    if (min > CHUNK || (max != SCHEMA_FOREVER && optional > CHUNK)) {
        TRY(schema_rule_begin(c, &chunk));
        put_repeated(c, item, CHUNK, CHUNK);
        TRY(schema_rule_end(c));
    }
    TRY(schema_rule_begin(c, rule));
    if (max == 0)
        schema_put(c, "\"\""); /* an empty body would continue on the next line */
    if (chunk != SCHEMA_NEVER)
        put_repeated(c, chunk, min / CHUNK, min / CHUNK);
    put_repeated(c, item, chunk ? min % CHUNK : min, chunk ? min % CHUNK : min);
    if (max == SCHEMA_FOREVER || optional <= CHUNK) {
        put_repeated(c, item, 0, optional);
    } else {
        schema_put(c, "(");
        put_repeated(c, chunk, 0, optional / CHUNK - 1);
        put_repeated(c, item, 0, CHUNK - 1);
        schema_put(c, "|");
        put_repeated(c, chunk, optional / CHUNK, optional / CHUNK);
        put_repeated(c, item, 0, optional % CHUNK);
        schema_put(c, ")");
    }
    return schema_rule_end(c);
}

/* ---- literals ---- */

void schema_put_char(struct schema_compiler *c, uint32_t code)
{
    if ((code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') ||
        (code >= 'a' && code <= 'z') || code == ' ' || code == '_' || code == ':' || code == ',')
        buf_append_char(c->out, (char)code);
    else if (code <= 0xFF)
        buf_appendf(c->out, "\\x%02X", code);
    else if (code <= 0xFFFF)
        buf_appendf(c->out, "\\u%04X", code);
    else
        buf_appendf(c->out, "\\U%08X", code);
}

void schema_put_json_char(struct schema_compiler *c, uint32_t code)
{
    static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = code != 0 && code < 0x80 ? strchr(escaped, (int)code) : NULL;

    if (found != NULL) {
        schema_put_char(c, '\\');
        schema_put_char(c, (unsigned char)letters[found - escaped]);
    } else if (code < 0x20) {
        char text[8];
        snprintf(text, sizeof(text), "\\u%04x", code);
        for (const char *at = text; *at != '\0'; at++)
            schema_put_char(c, (unsigned char)*at);
    } else {
        schema_put_char(c, code);
    }
}

static void put_json_string(struct schema_compiler *c, struct str text)
{
    const char *end = text.ptr + text.len;

    schema_put_char(c, '"');
    for (const char *at = text.ptr; at < end;)
        schema_put_json_char(c, utf8_next(&at, end));
    schema_put_char(c, '"');
}

void schema_put_string(struct schema_compiler *c, struct str text)
{
    buf_append_char(c->out, '"');
    put_json_string(c, text);
    schema_put(c, "\"");
}

static void put_json(struct schema_compiler *c, yyjson_val *val);

static void put_container(struct schema_compiler *c, yyjson_val *val)
{
    size_t i, max;
    yyjson_val *key, *item;

    schema_put_char(c, yyjson_is_obj(val) ? '{' : '[');
    yyjson_arr_foreach(val, i, max, item)
    {
        if (i > 0)
            schema_put_char(c, ',');
        put_json(c, item);
    }
    yyjson_obj_foreach(val, i, max, key, item)
    {
        if (i > 0)
            schema_put_char(c, ',');
        put_json_string(c, json_get_text(key));
        schema_put_char(c, ':');
        put_json(c, item);
    }
    schema_put_char(c, yyjson_is_obj(val) ? '}' : ']');
}

/* The caller has checked the depth. */
static void put_json(struct schema_compiler *c, yyjson_val *val)
{
    char number[64] = "null";
    const char *text = number;
    size_t len;

    if (yyjson_is_str(val)) {
        put_json_string(c, json_get_text(val));
        return;
    }
    if (yyjson_is_ctn(val)) {
        put_container(c, val);
        return;
    }
    if (yyjson_is_bool(val))
        text = yyjson_get_bool(val) ? "true" : "false";
    else if (yyjson_is_num(val))
        yyjson_write_number(val, number);
    else if (yyjson_is_raw(val))
        text = yyjson_get_raw(val);
    len = yyjson_is_raw(val) ? yyjson_get_len(val) : strlen(text);
    for (size_t i = 0; i < len; i++)
        schema_put_char(c, (unsigned char)text[i]);
}

void schema_put_value(struct schema_compiler *c, yyjson_val *val)
{
    buf_append_char(c->out, '"');
    put_json(c, val);
    schema_put(c, "\"");
}

/* ---- shared rules ---- */

static uint32_t shared_rule(struct str name)
{
    for (uint32_t rule = 1; rule < SCHEMA_RULE_OWN; rule++)
        if (str_eq(name, str_from(shared[rule].name)))
            return rule;
    assert(!"a rule of the table");
    return SCHEMA_NEVER;
}

static void put_shared_body(struct schema_compiler *c, const char *body)
{
    while (*body != '\0') {
        char k = *body++;
        if (k == '~') {
            schema_put_space(c);
        } else if (k == '@') {
            struct str name = {body, strspn(body, "abcdefghijklmnopqrstuvwxyz")};
            schema_put_rule(c, shared_rule(name));
            body += name.len;
            if (*body == '*') {
                schema_put_count(c, 0, SCHEMA_FOREVER);
                body++;
            }
        } else {
            buf_append_char(c->out, k);
        }
    }
}

enum err schema_write_shared(struct schema_compiler *c)
{
    uint32_t written = 0;

    /* Writing one may use others. */
    while (written != c->shared) {
        for (uint32_t rule = 1; rule < SCHEMA_RULE_OWN; rule++) {
            uint32_t bit = UINT32_C(1) << rule;
            if (!(c->shared & bit) || (written & bit))
                continue;
            written |= bit;
            schema_rule_open(c, rule);
            put_shared_body(c, shared[rule].body);
            TRY(schema_rule_end(c));
        }
    }
    return ERR_OK;
}
