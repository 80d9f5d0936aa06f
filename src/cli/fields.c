/*
 * fields.c: see fields.h.
 */
#include "cli/fields.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

yyjson_val *fields_get(yyjson_val *object, const char *path)
{
    struct str rest = str_from(path), key;

    while (object != NULL && str_next(&rest, '.', &key))
        object = yyjson_obj_getn(object, key.ptr, key.len);
    return object;
}

double fields_number(yyjson_val *object, const char *path, double otherwise)
{
    yyjson_val *value = fields_get(object, path);

    return yyjson_is_num(value) ? yyjson_get_num(value) : otherwise;
}

uint64_t fields_uint(yyjson_val *object, const char *path)
{
    double value = fields_number(object, path, 0);

    return value > 0 && value < 1.8e19 ? (uint64_t)value : 0;
}

const char *fields_text(yyjson_val *object, const char *path, const char *otherwise)
{
    yyjson_val *value = fields_get(object, path);

    return yyjson_is_str(value) ? yyjson_get_str(value) : otherwise;
}

bool fields_bool(yyjson_val *object, const char *path)
{
    return yyjson_get_bool(fields_get(object, path));
}

static char clean(char c)
{
    return ((unsigned char)c < 0x20 && c != '\n') || c == 0x7f ? '?' : c;
}

void fields_clean(char *text)
{
    for (; *text != '\0'; text++)
        *text = clean(*text);
}

void cli_put_text(const struct cli *cli, const struct buf *text)
{
    for (size_t i = 0; i < text->len; i++)
        fputc(clean(text->data[i]), cli->out);
}
