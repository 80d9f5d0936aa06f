/* format.c: "%s" % value and "{}".format(value). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "jinja/object.h"
#include "jinja/strings.h"
#include "jinja/unicode.h"

enum { WIDTH_MAX = 1 << 20, PRECISION_MAX = 300, NUMBER_BYTES = 1024 };

/* A field's layout, common to both kinds of format. */
struct spec {
    struct str fill;
    char align; /* < > = ^, or 0: the type's default */
    char sign;  /* + - blank */
    bool alternate, zero;
    char grouping; /* , or _ */
    int64_t width;
    int64_t precision; /* -1: none */
    char type;
};

static void put_fill(struct jinja_builder *builder, const struct spec *spec, int64_t count)
{
    for (; count > 0 && !builder->run->failed; count--)
        jinja_build(builder, spec->fill, JINJA_ORIGIN_NONE);
}

/* Writes `body`, a number's digits after its sign or a text, padded to its field. */
static bool put_field(struct jinja_builder *builder, const struct spec *spec, struct str sign,
                      const struct jinja_value *body, char align)
{
    int64_t length = jinja_length(body) + (int64_t)sign.len, missing = MAX(spec->width - length, 0);
    int64_t left = align == '<' || align == '=' ? 0 : align == '^' ? missing / 2 : missing;
    int64_t middle = align == '=' ? missing : 0;

    put_fill(builder, spec, left);
    jinja_build(builder, sign, JINJA_ORIGIN_NONE);
    put_fill(builder, spec, middle);
    jinja_build_value(builder, body);
    put_fill(builder, spec, missing - left - middle);
    return jinja_spend(builder->run, (size_t)missing);
}

static bool put_text(struct jinja_builder *builder, const struct spec *spec,
                     struct jinja_value text)
{
    if (spec->precision >= 0) {
        size_t end = utf8_offset(jinja_text(text), (size_t)spec->precision);
        if (!jinja_cut(builder->run, &text, 0, end, &text))
            return false;
    }
    return put_field(builder, spec, STR_NONE, &text, spec->align ? spec->align : '<');
}

/* Digits of an integer in a base, most significant first. */
static size_t int_digits(uint64_t value, unsigned base, bool upper, char out[72])
{
    const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[72];
    size_t len = 0;

    do {
        reversed[len++] = digits[value % base];
        value /= base;
    } while (value > 0);
    for (size_t i = 0; i < len; i++)
        out[i] = reversed[len - 1 - i];
    return len;
}

/* Copies digits with a separator after every `every`, counted from the end of the whole part. */
static size_t group(const char *digits, size_t len, char separator, size_t every, char *out)
{
    size_t whole = 0, n = 0;

    while (whole < len && digits[whole] != '.' && digits[whole] != 'e')
        whole++;
    for (size_t i = 0; i < len; i++) {
        if (separator != 0 && i > 0 && i < whole && (whole - i) % every == 0)
            out[n++] = separator;
        out[n++] = digits[i];
    }
    return n;
}

static bool put_number(struct jinja_builder *builder, const struct spec *spec, bool negative,
                       struct str prefix, struct str digits)
{
    char sign[4];
    size_t len = 0;

    if (negative || spec->sign == '+' || spec->sign == ' ')
        sign[len++] = negative ? '-' : spec->sign;
    for (size_t i = 0; i < prefix.len; i++)
        sign[len++] = prefix.ptr[i];
    struct jinja_value body = jinja_str(digits);
    char align = spec->align ? spec->align : spec->zero ? '=' : '>';
    return put_field(builder, spec, (struct str){sign, len}, &body, align);
}

static bool put_int(struct jinja_builder *builder, const struct spec *spec, int64_t value)
{
    char digits[72], grouped[144];
    struct jinja_builder padded = {.run = builder->run};
    char type = spec->type;
    unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t len = int_digits(size, base, type == 'X', digits);
    char prefix[2] = {'0', type};

    len = group(digits, len, spec->grouping, base == 10 ? 3 : 4, grouped);
    /* "%.5d": at least that many digits. */
    if (spec->precision > (int64_t)len)
        jinja_build_repeat(&padded, '0', (size_t)spec->precision - len);
    struct jinja_value body;
    return jinja_build(&padded, (struct str){grouped, len}, JINJA_ORIGIN_NONE) &&
           jinja_build_finish(&padded, &body) &&
           put_number(builder, spec, value < 0,
                      (struct str){prefix, spec->alternate && base != 10 ? 2 : 0},
                      jinja_text(body));
}

/* Python's 'g' without a type: repr, or 'g' that keeps one digit after the point. */
static size_t float_digits(const struct spec *spec, double value, char out[NUMBER_BYTES])
{
    char type = spec->type == 'n' ? 'g' : spec->type, fmt[16];
    int precision = spec->precision < 0 ? 6 : (int)spec->precision, len;

    if (isnan(value) || isinf(value)) {
        bool upper = type == 'F' || type == 'E' || type == 'G';
        return (size_t)snprintf(out, NUMBER_BYTES, "%s",
                                isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf"));
    }
    if (type == 0 && spec->precision < 0)
        return jinja_float_repr(value, out);
    if (type == '%') {
        len = snprintf(out, NUMBER_BYTES, "%.*f%%", precision, value * 100);
    } else {
        snprintf(fmt, sizeof(fmt), "%%%s.*%c", spec->alternate ? "#" : "", type ? type : 'g');
        len = snprintf(out, NUMBER_BYTES, fmt, type == 0 && precision == 0 ? 1 : precision, value);
    }
    for (int i = 0; i < len; i++) /* the locale's decimal point may differ */
        if ((unsigned char)out[i] == ',')
            out[i] = '.';
    if (type == 0 && strchr(out, '.') == NULL && strchr(out, 'e') == NULL)
        len += snprintf(out + len, NUMBER_BYTES - (size_t)len, ".0");
    return (size_t)len;
}

static bool put_float(struct jinja_builder *builder, const struct spec *spec, double value)
{
    char digits[NUMBER_BYTES], grouped[NUMBER_BYTES * 2];

    if (spec->precision > PRECISION_MAX)
        return jinja_fail(builder->run, "precision too large");
    size_t len = float_digits(spec, fabs(value), digits);
    len = group(digits, len, isfinite(value) ? spec->grouping : 0, 3, grouped);
    return put_number(builder, spec, signbit(value) && !isnan(value), STR_NONE,
                      (struct str){grouped, len});
}

static bool put_char(struct jinja_builder *builder, const struct spec *spec, int64_t code)
{
    char bytes[4];

    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return jinja_fail(builder->run, "%%c arg not in range(0x110000)");
    size_t len = utf8_encode((uint32_t)code, bytes);
    return put_text(builder, spec, jinja_str((struct str){bytes, len}));
}

/* ---- percent ---- */

struct percent {
    struct jinja_run *run;
    struct jinja_builder builder;
    struct str format;
    size_t at;
    const struct jinja_value *args;
    const struct jinja_value *items; /* of a tuple, or the one value */
    size_t count, next;
    bool markup;
};

static bool next_arg(struct percent *percent, struct jinja_value *out)
{
    if (percent->next >= percent->count)
        return jinja_fail(percent->run, "not enough arguments for format string");
    *out = percent->items[percent->next++];
    return true;
}

static char peek(const struct percent *percent)
{
    return percent->at < percent->format.len ? percent->format.ptr[percent->at] : '\0';
}

/* A number or a star. */
static bool percent_number(struct percent *percent, int64_t *out)
{
    struct jinja_value value = {0};

    if (peek(percent) == '*') {
        percent->at++;
        if (!next_arg(percent, &value))
            return false;
        if (!jinja_is_int(&value))
            return jinja_fail(percent->run, "* wants int");
        *out = value.integer;
    } else {
        for (*out = 0; peek(percent) >= '0' && peek(percent) <= '9'; percent->at++)
            *out = MIN(*out * 10 + (peek(percent) - '0'), WIDTH_MAX + 1);
    }
    return (*out <= WIDTH_MAX && *out >= -WIDTH_MAX) || jinja_fail(percent->run, "width too big");
}

/* %(name): the value of that key. */
static bool percent_key(struct percent *percent, struct jinja_value *out)
{
    size_t begin = ++percent->at, depth = 1;

    if (percent->args->kind != JINJA_DICT)
        return jinja_fail(percent->run, "format requires a mapping");
    for (; percent->at < percent->format.len; percent->at++) {
        depth += peek(percent) == '(';
        depth -= peek(percent) == ')';
        if (depth == 0)
            break;
    }
    if (depth > 0)
        return jinja_fail(percent->run, "incomplete format key");
    struct str key = {percent->format.ptr + begin, percent->at - begin};
    percent->at++;
    const struct jinja_value *value = jinja_dict_get_str(percent->args->dict, key);
    if (value == NULL)
        return jinja_fail(percent->run, "KeyError: '" STR_FMT "'", STR_ARG(key));
    *out = *value;
    return true;
}

static bool percent_spec(struct percent *percent, struct spec *spec)
{
    *spec = (struct spec){.fill = STR(" "), .precision = -1};
    for (;; percent->at++) {
        char c = peek(percent);
        if (c == '-')
            spec->align = '<';
        else if (c == '+')
            spec->sign = '+';
        else if (c == ' ')
            spec->sign = spec->sign ? spec->sign : ' ';
        else if (c == '#')
            spec->alternate = true;
        else if (c == '0')
            spec->zero = true;
        else
            break;
    }
    if (!percent_number(percent, &spec->width))
        return false;
    if (spec->width < 0) {
        spec->width = -spec->width;
        spec->align = '<';
    }
    if (peek(percent) == '.') {
        percent->at++;
        if (!percent_number(percent, &spec->precision))
            return false;
        spec->precision = MAX(spec->precision, 0);
    }
    while (peek(percent) == 'l' || peek(percent) == 'h' || peek(percent) == 'L')
        percent->at++;
    spec->type = peek(percent);
    if (spec->type == '\0')
        return jinja_fail(percent->run, "incomplete format");
    percent->at++;
    return true;
}

static bool percent_text(struct percent *percent, struct spec *spec,
                         const struct jinja_value *value)
{
    struct jinja_builder builder = {.run = percent->run};
    struct jinja_value text;

    spec->align = spec->align ? spec->align : '>';
    if (spec->type != 'r' && spec->type != 'a') {
        if (!jinja_soft_str(percent->run, value, &text))
            return false;
    } else if (!jinja_build_repr(&builder, value) || !jinja_build_finish(&builder, &text)) {
        return false;
    }
    if (percent->markup && !jinja_escape(percent->run, &text, &text))
        return false;
    return put_text(&percent->builder, spec, text);
}

/* The type has been read, or its first byte. */
static bool fail_type(struct percent *percent)
{
    const char *type = percent->format.ptr + percent->at - 1, *end = type;

    utf8_next(&end, percent->format.ptr + percent->format.len);
    return jinja_fail(percent->run, "unsupported format character '%.*s'", (int)(end - type), type);
}

static bool percent_value(struct percent *percent, struct spec *spec,
                          const struct jinja_value *value)
{
    struct jinja_run *run = percent->run;

    if (spec->zero && spec->align == 0)
        spec->fill = STR("0");
    switch (spec->type) {
    case 's':
    case 'r':
    case 'a':
        spec->fill = STR(" ");
        return percent_text(percent, spec, value);
    case 'c':
        if (value->kind == JINJA_STR && jinja_length(value) == 1)
            return percent_text(percent, spec, value);
        spec->align = spec->align ? spec->align : '>';
        if (!jinja_is_int(value))
            return jinja_fail(run, "%%c requires int or char");
        return put_char(&percent->builder, spec, value->integer);
    case 'd':
    case 'i':
    case 'u':
        if (value->kind == JINJA_FLOAT && fabs(value->number) < 9.2e18)
            return put_int(&percent->builder, spec, (int64_t)value->number);
        break;
    case 'x':
    case 'X':
    case 'o':
        break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (!jinja_is_number(value))
            return value->kind == JINJA_UNDEFINED ? jinja_fail_undefined(run, value)
                                                  : jinja_fail(run, "must be real number");
        return put_float(&percent->builder, spec,
                         value->kind == JINJA_FLOAT ? value->number : (double)value->integer);
    default:
        return fail_type(percent);
    }
    if (!jinja_is_int(value))
        return jinja_fail(run, "%%%c format: a real number is required", spec->type);
    return put_int(&percent->builder, spec, value->integer);
}

static bool percent_field(struct percent *percent)
{
    struct jinja_value value = {.kind = JINJA_MISSING};
    struct spec spec;

    percent->at++;
    bool keyed = peek(percent) == '(';
    if (keyed && !percent_key(percent, &value))
        return false;
    if (!percent_spec(percent, &spec))
        return false;
    if (spec.type == '%')
        return jinja_build_char(&percent->builder, '%');
    if (!keyed && !next_arg(percent, &value))
        return false;
    return percent_value(percent, &spec, &value);
}

bool jinja_format_percent(struct jinja_run *run, const struct jinja_value *format,
                          const struct jinja_value *args, struct jinja_value *out)
{
    struct percent percent = {.run = run,
                              .builder = {.run = run},
                              .format = jinja_text(*format),
                              .args = args,
                              .items = args,
                              .count = 1,
                              .markup = (format->flags & JINJA_FLAG_MARKUP) != 0};

    if (args->kind == JINJA_TUPLE) {
        percent.items = args->list->items;
        percent.count = args->list->count;
    }
    while (percent.at < percent.format.len) {
        size_t from = percent.at;
        const char *mark = memchr(percent.format.ptr + from, '%', percent.format.len - from);
        size_t stop = mark ? (size_t)(mark - percent.format.ptr) : percent.format.len;
        jinja_build_cut(&percent.builder, format, from, stop);
        percent.at = stop;
        if (mark != NULL && !percent_field(&percent))
            return false;
    }
    /* Anything with items could be a mapping, whose keys need not all be used. */
    bool leftover = percent.next < percent.count && args->kind != JINJA_DICT &&
                    args->kind != JINJA_LIST && args->kind != JINJA_RANGE &&
                    args->kind != JINJA_UNDEFINED;
    if (leftover)
        return jinja_fail(run, "not all arguments converted during string formatting");
    return jinja_build_finish_as(&percent.builder, percent.markup ? JINJA_FLAG_MARKUP : 0, out);
}

/* ---- braces ---- */

struct braces {
    struct jinja_run *run;
    struct jinja_builder builder;
    const struct jinja_value *format; /* all text of fields and between them is in it */
    const struct jinja_args *args;
    int64_t automatic; /* next number of {}; -1: numbers are explicit */
    bool markup;
};

static bool braces_format(struct braces *braces, struct str format, unsigned depth);

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '=' || c == '^';
}

static int64_t spec_number(struct str text, size_t *at)
{
    int64_t value = 0;

    for (; *at < text.len && text.ptr[*at] >= '0' && text.ptr[*at] <= '9'; (*at)++)
        value = MIN(value * 10 + (text.ptr[*at] - '0'), WIDTH_MAX + 1);
    return value;
}

static bool braces_spec(struct jinja_run *run, struct str text, struct spec *spec)
{
    const char *first = text.ptr, *end = text.ptr + text.len;
    size_t at = 0;

    *spec = (struct spec){.fill = STR(" "), .precision = -1};
    if (text.len > 0)
        utf8_next(&first, end);
    size_t fill = (size_t)(first - text.ptr);
    if (text.len > 1 && fill < text.len && is_align(text.ptr[fill])) {
        spec->fill = (struct str){text.ptr, fill};
        spec->align = text.ptr[fill];
        at = fill + 1;
    } else if (text.len > 0 && is_align(text.ptr[0])) {
        spec->align = text.ptr[at++];
    }
    if (at < text.len && strchr("+- ", text.ptr[at]) && text.ptr[at])
        spec->sign = text.ptr[at++];
    if (at < text.len && text.ptr[at] == '#')
        spec->alternate = text.ptr[at++];
    if (at < text.len && text.ptr[at] == '0') {
        at++;
        spec->zero = true;
        if (spec->align == 0) {
            spec->fill = STR("0");
            spec->align = '=';
        }
    }
    spec->width = spec_number(text, &at);
    if (at < text.len && (text.ptr[at] == ',' || text.ptr[at] == '_'))
        spec->grouping = text.ptr[at++];
    if (at < text.len && text.ptr[at] == '.') {
        size_t before = ++at;
        spec->precision = spec_number(text, &at);
        if (at == before)
            return jinja_fail(run, "Format specifier missing precision");
    }
    if (at < text.len)
        spec->type = text.ptr[at++];
    if (at < text.len || spec->width > WIDTH_MAX)
        return jinja_fail(run, "Invalid format specifier");
    return true;
}

static bool format_number(struct braces *braces, const struct jinja_value *value, struct spec *spec)
{
    bool is_int = value->kind == JINJA_INT || value->kind == JINJA_BOOL;

    if (is_int && spec->type == 'c')
        return put_char(&braces->builder, spec, value->integer);
    if (is_int && (spec->type == 0 || strchr("dbxXon", spec->type) != NULL)) {
        if (spec->precision >= 0)
            return jinja_fail(braces->run, "Precision not allowed in integer format specifier");
        return put_int(&braces->builder, spec, value->integer);
    }
    if (strchr("eEfFgGn%", spec->type) == NULL)
        return jinja_fail(braces->run, "Unknown format code '%c'", spec->type);
    return put_float(&braces->builder, spec,
                     value->kind == JINJA_FLOAT ? value->number : (double)value->integer);
}

static bool format_value(struct braces *braces, const struct jinja_value *value, struct str text)
{
    struct jinja_run *run = braces->run;
    struct jinja_value string;
    struct spec spec;

    if (text.len == 0 || value->kind == JINJA_STR) {
        if (!jinja_soft_str(run, value, &string) || !braces_spec(run, text, &spec))
            return false;
        if (braces->markup && !jinja_escape(run, &string, &string))
            return false;
        if ((spec.type != 0 && spec.type != 's') || spec.sign || spec.grouping || spec.alternate ||
            (spec.align == '=' && !spec.zero))
            return jinja_fail(run, "Invalid format specifier for a string");
        spec.align = spec.align == '=' ? '<' : spec.align;
        return put_text(&braces->builder, &spec, string);
    }
    if (!jinja_is_number(value))
        return jinja_fail(run, "unsupported format string passed to %s.__format__",
                          jinja_kind_name(value->kind));
    if (!braces_spec(run, text, &spec))
        return false;
    if (value->kind == JINJA_BOOL && spec.type == 0) /* a bool is formatted as an int */
        spec.type = 'd';
    return format_number(braces, value, &spec);
}

/* The first part of a field's name: a number, a keyword, or nothing. */
static bool field_root(struct braces *braces, struct str name, struct jinja_value *out)
{
    uint64_t number;

    if (name.len == 0) {
        if (braces->automatic < 0)
            return jinja_fail(braces->run,
                              "cannot switch from manual field specification to automatic");
        number = (uint64_t)braces->automatic++;
    } else if (str_to_u64(name, &number)) {
        if (braces->automatic > 0)
            return jinja_fail(braces->run,
                              "cannot switch from automatic field numbering to manual");
        braces->automatic = -1;
    } else {
        const struct jinja_value *value = jinja_kwarg(braces->args, name);
        *out = value ? *value : jinja_none();
        return value || jinja_fail(braces->run, "KeyError: '" STR_FMT "'", STR_ARG(name));
    }
    if (number >= braces->args->count)
        return jinja_fail(braces->run,
                          "Replacement index %llu out of range for positional args tuple",
                          (unsigned long long)number);
    *out = braces->args->items[number];
    return true;
}

static bool field_value(struct braces *braces, struct str name, struct jinja_value *out)
{
    size_t end = 0;

    while (end < name.len && name.ptr[end] != '.' && name.ptr[end] != '[')
        end++;
    if (!field_root(braces, (struct str){name.ptr, end}, out))
        return false;
    while (end < name.len) {
        bool attr = name.ptr[end] == '.';
        size_t begin = ++end;
        while (end < name.len &&
               (attr ? name.ptr[end] != '.' && name.ptr[end] != '[' : name.ptr[end] != ']'))
            end++;
        struct str part = {name.ptr + begin, end - begin};
        struct jinja_value object = *out, key = jinja_str(part);
        uint64_t number;
        if (part.len == 0 || (!attr && end == name.len))
            return jinja_fail(braces->run, "Empty attribute in format string");
        if (!attr && str_to_u64(part, &number) && number <= INT64_MAX)
            key = jinja_int((int64_t)number);
        if (attr ? !jinja_get_attr(braces->run, &object, part, out)
                 : !jinja_get_item(braces->run, &object, &key, out))
            return false;
        end += !attr;
        if (!attr && end < name.len && name.ptr[end] != '.' && name.ptr[end] != '[')
            return jinja_fail(braces->run,
                              "Only '.' or '[' may follow ']' in format field specifier");
    }
    return true;
}

/* name!conversion:spec */
static bool braces_field(struct braces *braces, struct str field, unsigned depth)
{
    struct jinja_run *run = braces->run;
    struct jinja_value value, spec;
    size_t end = 0, bracket = 0;
    char conversion = 0;

    for (; end < field.len; end++) {
        bracket = field.ptr[end] == '[' ? 1 : field.ptr[end] == ']' ? 0 : bracket;
        if (!bracket && (field.ptr[end] == '!' || field.ptr[end] == ':'))
            break;
    }
    if (!field_value(braces, (struct str){field.ptr, end}, &value))
        return false;
    if (end < field.len && field.ptr[end] == '!') {
        conversion = end + 1 < field.len ? field.ptr[end + 1] : 0;
        end += 2;
        if (end < field.len && field.ptr[end] != ':')
            return jinja_fail(run, "expected ':' after conversion specifier");
        if (conversion != 'r' && conversion != 's' && conversion != 'a')
            return jinja_fail(run, "Unknown conversion specifier");
    }
    struct jinja_builder text = {.run = run};
    if (conversion == 'r' || conversion == 'a') {
        if (!jinja_build_repr(&text, &value) || !jinja_build_finish(&text, &value))
            return false;
    } else if (conversion == 's' && !jinja_to_str(run, &value, &value)) {
        return false;
    }
    /* The specification may contain fields. */
    struct jinja_builder outer = braces->builder;
    braces->builder = (struct jinja_builder){.run = run};
    struct str rest = str_skip(field, MIN(end + 1, field.len));
    bool ok = braces_format(braces, rest, depth + 1) && jinja_build_finish(&braces->builder, &spec);
    braces->builder = outer;
    return ok && format_value(braces, &value, jinja_text(spec));
}

static bool braces_format(struct braces *braces, struct str format, unsigned depth)
{
    struct jinja_run *run = braces->run;

    if (depth > 2)
        return jinja_fail(run, "Max string recursion exceeded");
    for (size_t at = 0; at < format.len;) {
        char c = format.ptr[at];
        bool twice = at + 1 < format.len && format.ptr[at + 1] == c;
        if (c != '{' && c != '}') {
            size_t stop = at;
            while (stop < format.len && format.ptr[stop] != '{' && format.ptr[stop] != '}')
                stop++;
            size_t base = (size_t)(format.ptr - braces->format->text);
            jinja_build_cut(&braces->builder, braces->format, base + at, base + stop);
            at = stop;
            continue;
        }
        if (twice) {
            jinja_build_char(&braces->builder, c);
            at += 2;
            continue;
        }
        if (c == '}')
            return jinja_fail(run, "Single '}' encountered in format string");
        size_t open = 1, end = at + 1;
        for (; end < format.len; end++) {
            open += format.ptr[end] == '{';
            open -= format.ptr[end] == '}';
            if (open == 0)
                break;
        }
        if (open > 0)
            return jinja_fail(run, "expected '}' before end of string");
        if (!braces_field(braces, (struct str){format.ptr + at + 1, end - at - 1}, depth))
            return false;
        at = end + 1;
    }
    return true;
}

bool jinja_format_braces(struct jinja_run *run, const struct jinja_value *format,
                         const struct jinja_args *args, struct jinja_value *out)
{
    struct braces braces = {.run = run,
                            .builder = {.run = run},
                            .format = format,
                            .args = args,
                            .markup = (format->flags & JINJA_FLAG_MARKUP) != 0};

    return braces_format(&braces, jinja_text(*format), 0) &&
           jinja_build_finish_as(&braces.builder, braces.markup ? JINJA_FLAG_MARKUP : 0, out);
}
