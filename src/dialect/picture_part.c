/* picture_part.c: see the header. */
#include "dialect/picture_part.h"

enum err picture_part_read(struct gen_request *request, const struct json_reader *holder,
                           const char *key, struct str value, enum picture_form form,
                           struct str *text)
{
    char *param = arena_printf(&request->arena, "%s%s", holder->at, key);
    struct errinfo info = {0};

    if (param == NULL)
        return request->arena.err;
    enum err err = (form == PICTURE_URL ? pictures_add_url : pictures_add)(
        &request->pictures, &request->arena, value, param, text, &info);
    if (err == ERR_OK || err == ERR_NOMEM || info.text[0] == '\0')
        return err;
    enum api_error_kind kind = err == ERR_UNSUPPORTED ? API_ERROR_UNSUPPORTED
                               : err == ERR_LIMIT     ? API_ERROR_TOO_LARGE
                                                      : API_ERROR_INVALID;
    return json_read_error_kind(holder, kind, key, "%s", info.text);
}
