#include "support/json_validator.h"

#include <locale.h>
#include <math.h>
#include <regex.h>
#include <string.h>

#include "base/str.h"
#include "base/utf8.h"
#include "support/test.h"

static bool type_is(yyjson_val *value, const char *type)
{
    double number = yyjson_get_num(value);

    return (strcmp(type, "null") == 0 && yyjson_is_null(value)) ||
           (strcmp(type, "boolean") == 0 && yyjson_is_bool(value)) ||
           (strcmp(type, "string") == 0 && yyjson_is_str(value)) ||
           (strcmp(type, "array") == 0 && yyjson_is_arr(value)) ||
           (strcmp(type, "object") == 0 && yyjson_is_obj(value)) ||
           (strcmp(type, "number") == 0 && yyjson_is_num(value)) ||
           (strcmp(type, "integer") == 0 && yyjson_is_num(value) && number == floor(number));
}

static bool equal(yyjson_val *a, yyjson_val *b)
{
    return yyjson_is_num(a) && yyjson_is_num(b) ? yyjson_get_num(a) == yyjson_get_num(b)
                                                : yyjson_equals(a, b);
}

static bool valid_type(yyjson_val *schema, yyjson_val *value)
{
    yyjson_val *type = yyjson_obj_get(schema, "type"), *item;
    size_t i, max;
    bool any = false;

    if (yyjson_is_str(type))
        return type_is(value, yyjson_get_str(type));
    yyjson_arr_foreach(type, i, max, item) any |= type_is(value, yyjson_get_str(item));
    return type == NULL || any;
}

static bool valid_enum(yyjson_val *schema, yyjson_val *value)
{
    yyjson_val *list = yyjson_obj_get(schema, "enum"), *only = yyjson_obj_get(schema, "const"),
               *item;
    size_t i, max;
    bool any = list == NULL;

    yyjson_arr_foreach(list, i, max, item) any |= equal(item, value);
    return any && (only == NULL || equal(only, value));
}

/* ---- numbers and strings ---- */

static bool valid_number(yyjson_val *schema, yyjson_val *value)
{
    yyjson_val *min = yyjson_obj_get(schema, "minimum"), *max = yyjson_obj_get(schema, "maximum");
    yyjson_val *above = yyjson_obj_get(schema, "exclusiveMinimum");
    yyjson_val *below = yyjson_obj_get(schema, "exclusiveMaximum");
    yyjson_val *multiple = yyjson_obj_get(schema, "multipleOf");
    double number = yyjson_get_num(value);

    if (multiple != NULL) {
        double times = number / yyjson_get_num(multiple);
        if (fabs(times - round(times)) > 1e-6 * fmax(1, fabs(times)))
            return false;
    }
    return (!min || number >= yyjson_get_num(min)) && (!max || number <= yyjson_get_num(max)) &&
           (!above || number > yyjson_get_num(above)) && (!below || number < yyjson_get_num(below));
}

static bool pattern_matches(const char *pattern, const char *text)
{
    regex_t regex;

    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8")); /* '.' is a character, not a byte */
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool matches = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return matches;
}

static bool date_is_real(const char *text)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    uint64_t year, month, day;

    if (strlen(text) != 10 || text[4] != '-' || text[7] != '-' ||
        !str_to_u64((struct str){text, 4}, &year) ||
        !str_to_u64((struct str){text + 5, 2}, &month) ||
        !str_to_u64((struct str){text + 8, 2}, &day) || month < 1 || month > 12 || day < 1)
        return false;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day <= (uint64_t)days[month - 1] + (month == 2 && leap);
}

static bool valid_format(yyjson_val *schema, const char *text)
{
    const char *format = yyjson_get_str(yyjson_obj_get(schema, "format"));

    if (format == NULL)
        return true;
    if (strcmp(format, "date") == 0)
        return date_is_real(text);
    if (strcmp(format, "uuid") == 0)
        return pattern_matches("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", text);
    if (strcmp(format, "ipv4") == 0) {
        struct str rest = str_from(text), part;
        size_t parts = 0;
        uint64_t number;
        for (; str_next(&rest, '.', &part); parts++)
            if (!str_to_u64(part, &number) || number > 255 || (part.len > 1 && part.ptr[0] == '0'))
                return false;
        return parts == 4;
    }
    return true;
}

static bool valid_string(yyjson_val *schema, yyjson_val *value)
{
    yyjson_val *min = yyjson_obj_get(schema, "minLength"),
               *max = yyjson_obj_get(schema, "maxLength");
    yyjson_val *pattern = yyjson_obj_get(schema, "pattern");
    struct str text = {yyjson_get_str(value), yyjson_get_len(value)};
    double len = (double)utf8_count(text);

    return (!min || len >= yyjson_get_num(min)) && (!max || len <= yyjson_get_num(max)) &&
           (!pattern || pattern_matches(yyjson_get_str(pattern), text.ptr)) &&
           valid_format(schema, text.ptr);
}

/* ---- arrays and objects ---- */

static bool valid_array(yyjson_val *root, yyjson_val *schema, yyjson_val *value)
{
    yyjson_val *min = yyjson_obj_get(schema, "minItems"),
               *max_items = yyjson_obj_get(schema, "maxItems");
    yyjson_val *prefix = yyjson_obj_get(schema, "prefixItems");
    yyjson_val *items = yyjson_obj_get(schema, "items"), *item;
    double count = (double)yyjson_arr_size(value);
    size_t i, max;

    if ((min && count < yyjson_get_num(min)) || (max_items && count > yyjson_get_num(max_items)))
        return false;
    yyjson_arr_foreach(value, i, max, item)
    {
        yyjson_val *own = yyjson_arr_get(prefix, i);
        if (own == NULL)
            own = items;
        if (own != NULL && !json_valid(root, own, item))
            return false;
    }
    return true;
}

static bool valid_object(yyjson_val *root, yyjson_val *schema, yyjson_val *value)
{
    yyjson_val *properties = yyjson_obj_get(schema, "properties");
    yyjson_val *additional = yyjson_obj_get(schema, "additionalProperties");
    yyjson_val *key, *item;
    size_t i, max;

    yyjson_arr_foreach(yyjson_obj_get(schema, "required"), i, max,
                       item) if (!yyjson_obj_get(value, yyjson_get_str(item))) return false;
    yyjson_obj_foreach(value, i, max, key, item)
    {
        yyjson_val *own = yyjson_obj_getn(properties, yyjson_get_str(key), yyjson_get_len(key));
        if (own == NULL)
            own = additional;
        if (own != NULL && !json_valid(root, own, item))
            return false;
    }
    return true;
}

/* ---- combinations ---- */

static size_t count_valid(yyjson_val *root, yyjson_val *list, yyjson_val *value)
{
    size_t i, max, count = 0;
    yyjson_val *item;

    yyjson_arr_foreach(list, i, max, item) count += json_valid(root, item, value);
    return count;
}

static bool valid_combinations(yyjson_val *root, yyjson_val *schema, yyjson_val *value)
{
    yyjson_val *all = yyjson_obj_get(schema, "allOf"), *any = yyjson_obj_get(schema, "anyOf");
    yyjson_val *one = yyjson_obj_get(schema, "oneOf"), *ref = yyjson_obj_get(schema, "$ref");

    if (ref != NULL) {
        yyjson_val *target =
            yyjson_get_len(ref) == 1 ? root : yyjson_ptr_get(root, yyjson_get_str(ref) + 1);
        assert_non_null(target);
        if (!json_valid(root, target, value))
            return false;
    }
    return (!all || count_valid(root, all, value) == yyjson_arr_size(all)) &&
           (!any || count_valid(root, any, value) > 0) &&
           (!one || count_valid(root, one, value) == 1);
}

bool json_valid(yyjson_val *root, yyjson_val *schema, yyjson_val *value)
{
    if (yyjson_is_bool(schema))
        return yyjson_get_bool(schema);
    if (!valid_type(schema, value) || !valid_enum(schema, value) ||
        !valid_combinations(root, schema, value))
        return false;
    if (yyjson_is_num(value))
        return valid_number(schema, value);
    if (yyjson_is_str(value))
        return valid_string(schema, value);
    if (yyjson_is_arr(value))
        return valid_array(root, schema, value);
    return !yyjson_is_obj(value) || valid_object(root, schema, value);
}
