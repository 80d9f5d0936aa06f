/*
 * picture_part.h: a picture in a request's JSON becomes the text that stands for it
 * (chat/pictures.h). Shared by all dialects.
 */
#pragma once

#include "base/attr.h"
#include "base/str.h"
#include "chat/gen_request.h"
#include "dialect/json_read.h"

enum picture_form { PICTURE_URL, PICTURE_BASE64 };

/* The string `value` of the field `key`; errors name the field. */
enum err picture_part_read(struct gen_request *request, const struct json_reader *holder,
                           const char *key, struct str value, enum picture_form form,
                           struct str *text) NODISCARD;
