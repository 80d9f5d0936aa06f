/*
 * constraint_params.c: arguments that are written one by one, as rules.
 *
 *      between tags       params-0 ::= p0-0 p0-1? ...
 *                         p0-0     ::= "<parameter=" "a" ">" value "</parameter>"
 *      as an expression   params-0 ::= p0-0 r0-1 | f0-1
 *                         f: no argument yet; r: at least one, so a comma comes first
 *
 * Text between tags has no quotes: its type follows from the schema, read exactly as
 * toolcall_value.c reads it (tc_types). A text is free up to the closing tag, one of the values of
 * an enum, or bounded in length. Any other constraint on a text is refused for strict tools and
 * ignored for others. Values of other types are JSON; one with the closing tag inside a string
 * would end there, which no grammar of reasonable size prevents.
 */
#include <stdio.h>

#include "grammar/constraint_impl.h"
#include "grammar/schema.h"
#include "base/json_alc.h"

enum {
    REF_DEPTH_MAX = 8,
    PLAIN_STEPS_MAX = 4096,      /* of one parameter */
    PLAIN_STEPS_ALL_MAX = 65536, /* of all parameters of all tools */
    NAME_BYTES = 32
};

enum presence { LEFT_OUT, OPTIONAL, REQUIRED };

struct param {
    size_t tool, index;
    struct str key;
    yyjson_val *schema;
    char rule[NAME_BYTES]; /* of the value */
    struct str end;        /* what ends the value */
};

/* ---- schemas ---- */

/* Whether the schema has one of the keywords, which are separated by blanks. */
static bool has_any(yyjson_val *schema, const char *keywords)
{
    struct str rest = str_from(keywords), key;

    while (str_next(&rest, ' ', &key))
        if (yyjson_obj_getn(schema, key.ptr, key.len) != NULL)
            return true;
    return false;
}

static bool has_format(yyjson_val *schema)
{
    yyjson_val *format = yyjson_obj_get(schema, "format");

    return yyjson_is_str(format) && schema_enforces_format(json_get_text(format));
}

/* Whether it constrains a value by more than its type and alternatives. */
static bool says_much(yyjson_val *schema)
{
    static const char says[] =
        "enum const minLength maxLength pattern allOf minimum maximum items not properties if "
        "minItems multipleOf maxItems required contains exclusiveMinimum exclusiveMaximum "
        "additionalProperties prefixItems uniqueItems";

    return has_any(schema, says) || has_format(schema);
}

/* Follows references within the document, if no other constraints are next to them. */
static yyjson_val *resolve(yyjson_val *root, yyjson_val *schema)
{
    for (int i = 0; i < REF_DEPTH_MAX; i++) {
        struct str ref = json_get_text(yyjson_obj_get(schema, "$ref"));
        if (ref.len == 0 || ref.ptr[0] != '#' || says_much(schema) ||
            has_any(schema, "anyOf oneOf"))
            break;
        schema = ref.len == 1 ? root : yyjson_ptr_getn(root, ref.ptr + 1, ref.len - 1);
    }
    return schema;
}

/* Alternatives multiply, so a depth limit alone is not enough. */
struct plain {
    yyjson_val *root;
    unsigned steps, *all_steps;
};

static bool are_plain(struct plain *plain, yyjson_val *list, unsigned depth);

/* True if the schema constrains nothing but types, directly or through alternatives. */
static bool says_little(struct plain *plain, yyjson_val *schema, unsigned depth)
{
    schema = resolve(plain->root, schema);
    if (yyjson_is_true(schema))
        return true;
    return depth < REF_DEPTH_MAX && ++plain->steps <= PLAIN_STEPS_MAX &&
           ++*plain->all_steps <= PLAIN_STEPS_ALL_MAX && yyjson_is_obj(schema) &&
           !says_much(schema) && !has_any(schema, "$ref") &&
           are_plain(plain, yyjson_obj_get(schema, "anyOf"), depth + 1) &&
           are_plain(plain, yyjson_obj_get(schema, "oneOf"), depth + 1);
}

static bool are_plain(struct plain *plain, yyjson_val *list, unsigned depth)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    yyjson_val *item;

    while ((item = yyjson_arr_iter_next(&iter)) != NULL)
        if (!says_little(plain, item, depth))
            return false;
    return true;
}

static bool is_plain(struct constraint_writer *writer, yyjson_val *root, yyjson_val *schema)
{
    return says_little(&(struct plain){.root = root, .all_steps = &writer->plain_steps}, schema, 0);
}

static enum err refuse(struct constraint_writer *writer, const struct param *param,
                       const char *reason)
{
    const struct tool *tool = &writer->tools[param->tool];

    return err_set(writer->info, ERR_UNSUPPORTED, "tool '%.*s', parameter '%.*s': %s",
                   CONSTRAINT_NAME(tool->name), CONSTRAINT_NAME(param->key), reason);
}

/* ---- text between tags ---- */

/* For the rules of a value. */
static struct schema_options options_of(struct constraint_writer *writer, const struct param *param,
                                        char prefix[2 * NAME_BYTES])
{
    snprintf(prefix, 2 * NAME_BYTES, "%s-", param->rule);
    return (struct schema_options){.root = param->rule,
                                   .prefix = prefix,
                                   .document = writer->tools[param->tool].schema,
                                   .work = &writer->work};
}

static enum err put_length(struct constraint_writer *writer, const struct param *param,
                           uint64_t min, uint64_t max)
{
    char prefix[2 * NAME_BYTES], pattern[64];
    struct schema_options options = options_of(writer, param, prefix);

    snprintf(pattern, sizeof(pattern), "[^<]{%llu,%llu}", (unsigned long long)min,
             (unsigned long long)max);
    return schema_write_regex(str_from(pattern), &options, writer->out, writer->info);
}

static void put_free(struct constraint_writer *writer, const char *rule, struct str end)
{
    struct constraint_exit exit = {end, "\"\""};

    constraint_put_text(writer, rule, &exit, 1, false);
}

/* Free text is the same in all parameters, unless its end names the parameter. */
static bool is_shared(const struct constraint_writer *writer)
{
    return writer->format->value_tail.len == 0;
}

void constraint_put_xml_text(struct constraint_writer *writer)
{
    if (is_shared(writer))
        put_free(writer, "text", writer->format->value_end);
}

/* The rule of a free value between tags. */
static void put_free_value(struct constraint_writer *writer, const struct param *param)
{
    if (!is_shared(writer))
        put_free(writer, param->rule, param->end);
}

/* The values of an enum or const, as texts that read back as the same values. */
static enum err put_listed(struct constraint_writer *writer, const struct param *param,
                           yyjson_val *schema, struct str end)
{
    yyjson_val *only = yyjson_obj_get(schema, "const");
    yyjson_val *list = yyjson_obj_get(schema, "enum");
    size_t count = only != NULL ? 1 : yyjson_arr_size(list);

    if (count == 0 || count > SCHEMA_ENUM_MAX)
        return refuse(writer, param, "expected a list of values, and not too many");
    for (size_t i = 0; i < count; i++) {
        struct str text = json_get_text(only != NULL ? only : yyjson_arr_get(list, i));
        if (text.ptr == NULL || str_find(text, end) != SIZE_MAX)
            return refuse(writer, param, "a listed value cannot be written in this call format");
    }
    buf_appendf(writer->out, "%s ::= ", param->rule);
    for (size_t i = 0; i < count; i++) {
        struct str text = json_get_text(only != NULL ? only : yyjson_arr_get(list, i));
        constraint_put(writer, i > 0 ? "| " : "");
        if (text.len == 0)
            constraint_put(writer, "\"\" ");
        constraint_put_literal(writer, text);
    }
    constraint_put(writer, "\n");
    return ERR_OK;
}

/* A string; *closed: the rule also reads the closing tag. */
static enum err put_string(struct constraint_writer *writer, const struct param *param,
                           struct str end, bool *closed)
{
    const struct tool *tool = &writer->tools[param->tool];
    yyjson_val *schema = resolve(tool->schema, param->schema);
    yyjson_val *min = yyjson_obj_get(schema, "minLength"),
               *max = yyjson_obj_get(schema, "maxLength");

    *closed = true;
    if (is_plain(writer, tool->schema, schema)) {
        put_free_value(writer, param);
        return ERR_OK;
    }
    if (has_any(schema, "pattern allOf anyOf oneOf not if $ref") || has_format(schema))
        return refuse(writer, param,
                      "the constraints of its schema cannot be enforced in this "
                      "call format; use type, enum, minLength and maxLength");
    *closed = false;
    if (yyjson_obj_get(schema, "enum") != NULL || yyjson_obj_get(schema, "const") != NULL)
        return min || max
                   ? refuse(writer, param, "a length limit next to enum or const; leave it out")
                   : put_listed(writer, param, schema, end);
    uint64_t low = yyjson_get_uint(min), high = max ? yyjson_get_uint(max) : SCHEMA_REPEAT_MAX;
    if ((min && !yyjson_is_uint(min)) || (max && !yyjson_is_uint(max)) || low > high ||
        high > SCHEMA_REPEAT_MAX)
        return refuse(writer, param, "its lengths are not numbers, or are too large");
    return put_length(writer, param, low, high);
}

static enum err put_json(struct constraint_writer *writer, const struct param *param)
{
    char prefix[2 * NAME_BYTES];
    struct schema_options options = options_of(writer, param, prefix);
    enum err err = schema_write_gbnf(param->schema, &options, writer->out, writer->info);

    if (err == ERR_OK || err == ERR_NOMEM)
        return err;
    return err_wrap(writer->info, err, "tool '%.*s', parameter '%.*s'",
                    CONSTRAINT_NAME(writer->tools[param->tool].name), CONSTRAINT_NAME(param->key));
}

/* Text that may be a string or another type is read as what it looks like. Between string and null,
 * either reading is valid. */
static enum err put_mixed(struct constraint_writer *writer, const struct param *param,
                          unsigned types)
{
    if ((types & ~(unsigned)(TC_STRING | TC_NULL)) != 0 ||
        !is_plain(writer, writer->tools[param->tool].schema, param->schema))
        return refuse(writer, param,
                      "this call format cannot tell its texts from other values; "
                      "give it one type");
    put_free_value(writer, param);
    return ERR_OK;
}

struct value {
    bool text;   /* not JSON */
    bool any;    /* text or JSON */
    bool closed; /* the rule also reads the closing tag */
};

/* The rule of the value. `types` are those that the reader will see. */
static enum err put_tag_value(struct constraint_writer *writer, const struct param *param,
                              const struct call_format *syntax, struct value *value)
{
    const struct toolcall reader = {
        .options = {.tools = writer->tools, .tools_count = writer->tools_count}};
    unsigned types = tc_types(&reader, writer->tools[param->tool].name, param->key);
    size_t mark = writer->out->len;
    enum err err;

    *value = (struct value){.text = types == TC_STRING};
    if (types == TC_STRING) {
        err = put_string(writer, param, param->end, &value->closed);
    } else if (syntax->attributes_end.len > 0 || (types != 0 && !(types & TC_STRING))) {
        err = put_json(writer, param);
    } else {
        *value = (struct value){.text = true, .closed = true};
        err = put_mixed(writer, param, types);
    }
    bool loose = writer->optional ? err != ERR_NOMEM
                                  : err == ERR_UNSUPPORTED && !writer->tools[param->tool].strict;
    if (err == ERR_OK || !loose)
        return err;
    buf_truncate(writer->out, mark);
    *value = (struct value){true, writer->optional, true};
    put_free_value(writer, param);
    return ERR_OK;
}

/* DeepSeek says whether it is a string, Kimi which type it is. */
static void put_attributes(struct constraint_writer *writer, struct value value)
{
    static const char text[] = "\"string\" ",
                      json[] = "\"number\" | \"boolean\" | \"null\" | \"object\" | \"array\" ";
    struct str end = writer->format->attributes_end;
    bool yes_or_no = str_eq(end, STR(">")), both = value.any;

    if (end.len == 0)
        return;
    constraint_put(writer, yes_or_no ? "\" string=\\\"\" ( " : "\" type=\\\"\" ( ");
    if (value.text)
        constraint_put(writer, yes_or_no ? "\"true\" " : text);
    constraint_put(writer, both ? "| " : "");
    if (!value.text || both)
        constraint_put(writer, yes_or_no ? "\"false\" " : json);
    constraint_put(writer, ") \"\\\"\" @", end);
}

static enum err put_tag_param(struct constraint_writer *writer, const struct param *param)
{
    const struct call_format *syntax = writer->format;
    struct value value;

    TRY(put_tag_value(writer, param, syntax, &value));
    constraint_put(writer, "p#-# ::= @@@", param->tool, param->index, syntax->parameter_begin,
                   param->key, syntax->key_end);
    put_attributes(writer, value);
    if (syntax->value_begin.len > 0)
        constraint_put(writer, "\"\\n\"? @", syntax->value_begin);
    constraint_put(writer, syntax->lines ? "\"\\n\" " : "");
    bool free = value.text && value.closed;
    buf_appendf(writer->out, "%s%s ", free && is_shared(writer) ? "text" : param->rule,
                free ? "-0" : "");
    if (!value.closed)
        constraint_put(writer, syntax->lines ? "\"\\n\" @" : "@", param->end);
    constraint_put(writer, "\"\\n\"?\n");
    return ERR_OK;
}

/* ---- values of expressions ---- */

/* Literals are JSON except for True and False; an unlimited text may use the format's own quotes.
 * */
static enum err put_literal_param(struct constraint_writer *writer, const struct param *param)
{
    const struct call_format *syntax = writer->format;
    yyjson_val *root = writer->tools[param->tool].schema;
    yyjson_val *type = yyjson_obj_get(resolve(root, param->schema), "type");
    bool plain = is_plain(writer, root, param->schema);
    bool quoted = plain && yyjson_equals_str(type, "string") && syntax->quote.len > 0;

    if (quoted)
        put_free(writer, param->rule, syntax->quote);
    else if (plain && yyjson_equals_str(type, "boolean") && syntax->quote.len == 0)
        buf_appendf(writer->out, "%s ::= \"True\" | \"False\"\n", param->rule);
    else
        TRY(put_json(writer, param));
    constraint_put(writer, "p#-# ::= @@@", param->tool, param->index, param->key,
                   (struct str){&syntax->between, 1}, quoted ? syntax->quote : STR_NONE);
    buf_appendf(writer->out, "%s%s\n", param->rule, quoted ? "-0" : "");
    return ERR_OK;
}

/* ---- all parameters of a tool ---- */

typedef enum err put_param_fn(struct constraint_writer *writer, const struct param *param);

static bool is_required(yyjson_val *schema, yyjson_val *key)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(schema, "required"));
    yyjson_val *item;

    while ((item = yyjson_arr_iter_next(&iter)) != NULL)
        if (yyjson_equals_strn(item, yyjson_get_str(key), yyjson_get_len(key)))
            return true;
    return false;
}

static bool has_required(yyjson_val *schema)
{
    yyjson_val *properties = yyjson_obj_get(schema, "properties");
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(schema, "required"));
    yyjson_val *item;

    while ((item = yyjson_arr_iter_next(&iter)) != NULL)
        if (yyjson_obj_getn(properties, yyjson_get_str(item), yyjson_get_len(item)) == NULL)
            return false;
    return true;
}

static enum err check_schema(struct constraint_writer *writer, size_t index, yyjson_val *schema)
{
    static const char refused[] =
        "allOf anyOf oneOf not if $ref patternProperties propertyNames dependentRequired "
        "dependentSchemas dependencies enum const minProperties maxProperties";
    const struct tool *tool = &writer->tools[index];
    yyjson_val *type = yyjson_obj_get(schema, "type");

    if (!yyjson_is_obj(schema) || has_any(schema, refused) ||
        (type != NULL && !yyjson_equals_str(type, "object")) || !has_required(schema) ||
        yyjson_obj_size(yyjson_obj_get(schema, "properties")) > SCHEMA_PROPERTIES_MAX)
        return err_set(writer->info, ERR_UNSUPPORTED,
                       "tool '%.*s': this call format writes parameters one by one; describe them "
                       "with type, properties and required alone",
                       CONSTRAINT_NAME(tool->name));
    return ERR_OK;
}

static enum err put_param(struct constraint_writer *writer, struct param *param, put_param_fn *fn)
{
    struct buf end;

    if (!constraint_is_plain_name(param->key))
        return refuse(writer, param,
                      "this call format cannot write the name; use letters, "
                      "digits, '_', '-' and '.'");
    if (param->key.len == 0)
        return refuse(writer, param, "a parameter needs a name");
    snprintf(param->rule, sizeof(param->rule), "v%zu-%zu", param->tool, param->index);
    buf_init(&end, CONSTRAINT_BYTES_MAX);
    tc_value_end(writer->format, param->key, &end);
    param->end = buf_text(&end);
    enum err err = end.err;
    bool named = writer->format->value_tail.len > 0; /* the closing tag repeats the name */
    if (err == ERR_OK && named && param->end.len > CONSTRAINT_MARKER_CHARS_MAX)
        err = refuse(writer, param, "the name is too long for this call format");
    else if (err == ERR_OK)
        err = fn(writer, param);
    buf_fini(&end);
    return err;
}

/* Writes the parameters that can be expressed. Others are left out, unless required or strict. */
static enum err put_each(struct constraint_writer *writer, size_t index, yyjson_val *schema,
                         put_param_fn *fn, enum presence *kinds)
{
    struct param param = {.tool = index};
    yyjson_obj_iter iter = yyjson_obj_iter_with(yyjson_obj_get(schema, "properties"));
    yyjson_val *key;

    for (size_t i = 0; (key = yyjson_obj_iter_next(&iter)) != NULL; i++) {
        size_t mark = writer->out->len;
        param.index = i;
        param.key = json_get_text(key);
        param.schema = yyjson_obj_iter_get_val(key);
        bool required = is_required(schema, key);
        enum err err = put_param(writer, &param, fn);
        bool leave = err == ERR_UNSUPPORTED && !writer->tools[index].strict && !required &&
                     !writer->optional;
        if (err != ERR_OK && !leave)
            return err;
        if (leave)
            buf_truncate(writer->out, mark);
        kinds[i] = leave ? LEFT_OUT : required ? REQUIRED : OPTIONAL;
    }
    return ERR_OK;
}

/* Any parameters: all of them text, or where their syntax depends on their names or types, anything
 * at all, so that only the name of the tool is held. */
static void put_any_params(struct constraint_writer *writer, size_t index)
{
    const struct call_format *syntax = writer->format;

    if (syntax->form == CALL_EXPRESSION || !is_shared(writer)) {
        constraint_put(writer, "params-# ::= [^\\x00]*\n", index);
        return;
    }
    constraint_put(writer, "params-# ::= ( @[a-zA-Z_] [a-zA-Z0-9_-]{0,63} @", index,
                   syntax->parameter_begin, syntax->key_end);
    put_attributes(writer, (struct value){.text = true, .any = writer->optional});
    constraint_put(writer, "@text-0 \"\\n\"? )*\n", syntax->value_begin);
}

enum err constraint_put_xml_params(struct constraint_writer *writer, size_t index)
{
    enum presence kinds[SCHEMA_PROPERTIES_MAX];
    yyjson_val *root = writer->tools[index].schema;
    yyjson_val *schema = resolve(root, root);

    if (root != NULL) {
        size_t mark = writer->out->len;
        enum err err =
            writer->any_arguments ? ERR_UNSUPPORTED : check_schema(writer, index, schema);
        bool any = err == ERR_UNSUPPORTED && !writer->tools[index].strict;
        if (err == ERR_OK) {
            err = put_each(writer, index, schema, put_tag_param, kinds);
            any = writer->optional && err != ERR_OK && err != ERR_NOMEM;
        }
        if (any && (is_shared(writer) || writer->optional)) {
            buf_truncate(writer->out, mark);
            put_any_params(writer, index);
            return ERR_OK;
        }
        TRY(err);
    }
    buf_appendf(writer->out, "params-%zu ::= \"\"", index);
    for (size_t i = 0; i < yyjson_obj_size(yyjson_obj_get(schema, "properties")); i++)
        if (kinds[i] != LEFT_OUT)
            buf_appendf(writer->out, " p%zu-%zu%s", index, i, kinds[i] == OPTIONAL ? "?" : "");
    constraint_put(writer, "\n");
    return ERR_OK;
}

/* One link of the chain of arguments. f: nothing was written yet; r: something was, and a comma
 * comes before the next. */
static void put_chain(struct constraint_writer *writer, size_t i, size_t k, enum presence presence)
{
    if (presence == LEFT_OUT) {
        constraint_put(writer, "f#-# ::= f#-#\nr#-# ::= r#-#\n", i, k, i, k + 1, i, k, i, k + 1);
        return;
    }
    constraint_put(writer,
                   presence == OPTIONAL ? "f#-# ::= p#-# r#-# | f#-#\n" : "f#-# ::= p#-# r#-#\n", i,
                   k, i, k, i, k + 1, i, k + 1);
    constraint_put(writer,
                   presence == OPTIONAL ? "r#-# ::= ( \",\" \" \"? p#-# )? r#-#\n"
                                        : "r#-# ::= ( \",\" \" \"? p#-# ) r#-#\n",
                   i, k, i, k, i, k + 1);
}

enum err constraint_put_expr_params(struct constraint_writer *writer, size_t index)
{
    enum presence kinds[SCHEMA_PROPERTIES_MAX];
    yyjson_val *root = writer->tools[index].schema;
    yyjson_val *schema = resolve(root, root);
    size_t count = yyjson_obj_size(yyjson_obj_get(schema, "properties")), i = index;

    if (root != NULL) {
        size_t mark = writer->out->len;
        enum err err =
            writer->any_arguments ? ERR_UNSUPPORTED : check_schema(writer, index, schema);
        if (err == ERR_OK)
            err = put_each(writer, index, schema, put_literal_param, kinds);
        if (err != ERR_OK && err != ERR_NOMEM && writer->optional) {
            buf_truncate(writer->out, mark);
            put_any_params(writer, index);
            return ERR_OK;
        }
        TRY(err);
    }
    constraint_put(writer, "params-# ::= f#-0\nf#-# ::= \"\"\nr#-# ::= \"\"\n", i, i, i, count, i,
                   count);
    for (size_t k = 0; k < count; k++)
        put_chain(writer, index, k, kinds[k]);
    return ERR_OK;
}
