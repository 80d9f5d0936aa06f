/*
 * recall_form.c: hashes of messages that do not depend on how a client writes them.
 *
 * JSON is hashed by value, not as text: objects as their members sorted by key bytes, the last of
 * equal keys (as in Python and JavaScript), strings unescaped, numbers by value. A whole number
 * that fits into 64 bits is an integer however it was written; others are doubles; those beyond the
 * range of a double are hashed as text.
 *
 * Arguments that are not JSON, too deep, or for which there is no memory are hashed as text. Then
 * only identical text is equal: at worst a turn is not found.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/json_alc.h"
#include "base/mem.h"
#include "chat/recall_impl.h"

enum { DEPTH_MAX = 128 };

enum tag {
    TAG_NULL,
    TAG_FALSE,
    TAG_TRUE,
    TAG_UNSIGNED,
    TAG_NEGATIVE,
    TAG_REAL,
    TAG_RAW,
    TAG_STRING,
    TAG_ARRAY,
    TAG_OBJECT,
};

struct member {
    struct str key;
    yyjson_val *val;
    size_t index;
};

static bool hash_value(struct hash256_state *state, yyjson_val *val, unsigned depth);

static void hash_number(struct hash256_state *state, enum tag tag, uint64_t value)
{
    hash256_update_u32(state, tag);
    hash256_update_u64(state, value);
}

static void hash_real(struct hash256_state *state, double real)
{
    uint64_t bits;
    bool whole = real == trunc(real);

    if (whole && real >= 0 && real < 0x1p64) {
        hash_number(state, TAG_UNSIGNED, (uint64_t)real);
    } else if (whole && real < 0 && real >= -0x1p63) {
        hash_number(state, TAG_NEGATIVE, (uint64_t)(int64_t)real);
    } else {
        memcpy(&bits, &real, sizeof(bits));
        hash_number(state, TAG_REAL, bits);
    }
}

static void hash_text(struct hash256_state *state, enum tag tag, struct str text)
{
    hash256_update_u32(state, tag);
    hash256_update_framed(state, text.ptr, text.len);
}

static bool hash_array(struct hash256_state *state, yyjson_val *list, unsigned depth)
{
    size_t i, count;
    yyjson_val *item;

    hash256_update_u32(state, TAG_ARRAY);
    hash256_update_u64(state, yyjson_arr_size(list));
    yyjson_arr_foreach(list, i, count, item) if (!hash_value(state, item, depth + 1)) return false;
    return true;
}

/* Sorts by key; of equal keys the last comes first, so that the others can be skipped. */
static int compare_members(const void *left, const void *right)
{
    const struct member *a = left, *b = right;
    int order = str_compare(a->key, b->key);

    return order != 0 ? order : a->index > b->index ? -1 : 1;
}

static bool hash_members(struct hash256_state *state, struct member *members, size_t count,
                         unsigned depth)
{
    uint64_t kept = 0;
    bool good = true;

    qsort(members, count, sizeof(*members), compare_members);
    for (size_t i = 0; i < count && good; i++) {
        if (i > 0 && str_eq(members[i].key, members[i - 1].key))
            continue;
        hash256_update_framed(state, members[i].key.ptr, members[i].key.len);
        good = hash_value(state, members[i].val, depth + 1);
        kept++;
    }
    hash256_update_u64(state, kept);
    return good;
}

static bool hash_object(struct hash256_state *state, yyjson_val *object, unsigned depth)
{
    struct member *members = mem_try_alloc_array(yyjson_obj_size(object), sizeof(*members));
    size_t i, count;
    yyjson_val *key, *val;

    if (members == NULL)
        return false;
    yyjson_obj_foreach(object, i, count, key, val) members[i] =
        (struct member){json_get_text(key), val, i};
    hash256_update_u32(state, TAG_OBJECT);
    bool good = hash_members(state, members, yyjson_obj_size(object), depth);
    mem_free(members);
    return good;
}

static bool hash_value(struct hash256_state *state, yyjson_val *val, unsigned depth)
{
    if (depth == DEPTH_MAX)
        return false;
    switch (yyjson_get_type(val)) {
    case YYJSON_TYPE_OBJ:
        return hash_object(state, val, depth);
    case YYJSON_TYPE_ARR:
        return hash_array(state, val, depth);
    case YYJSON_TYPE_STR:
        hash_text(state, TAG_STRING, json_get_text(val));
        return true;
    case YYJSON_TYPE_RAW:
        hash_text(state, TAG_RAW, (struct str){yyjson_get_raw(val), yyjson_get_len(val)});
        return true;
    case YYJSON_TYPE_NUM:
        if (yyjson_is_real(val))
            hash_real(state, yyjson_get_real(val));
        else if (yyjson_is_sint(val) && yyjson_get_sint(val) < 0)
            hash_number(state, TAG_NEGATIVE, (uint64_t)yyjson_get_sint(val));
        else
            hash_number(state, TAG_UNSIGNED, yyjson_get_uint(val));
        return true;
    default:
        hash256_update_u32(state, yyjson_is_true(val)    ? TAG_TRUE
                                  : yyjson_is_false(val) ? TAG_FALSE
                                                         : TAG_NULL);
        return true;
    }
}

static struct hash256 arguments_hash(struct str text)
{
    const yyjson_read_flag flags = YYJSON_READ_ALLOW_INVALID_UNICODE | YYJSON_READ_BIGNUM_AS_RAW;
    struct hash256_state state;

    text = str_trim(text);
    if (text.len == 0)
        text = STR("{}");
    yyjson_doc *doc = yyjson_read(text.ptr, text.len, flags);
    hash256_init(&state);
    bool good = doc != NULL && hash_value(&state, yyjson_doc_get_root(doc), 0);
    yyjson_doc_free(doc);
    if (!good) {
        hash256_init(&state);
        hash_text(&state, TAG_RAW, text);
    }
    return hash256_final(&state);
}

struct hash256 recall_digest(const struct recall_message *message)
{
    struct str content = str_trim(message->content);
    struct hash256_state state;

    hash256_init(&state);
    hash256_update_framed(&state, content.ptr, content.len);
    hash256_update_u64(&state, message->calls_count);
    for (size_t i = 0; i < message->calls_count; i++) {
        struct hash256 arguments = arguments_hash(message->calls[i].arguments);
        hash256_update_framed(&state, message->calls[i].name.ptr, message->calls[i].name.len);
        hash256_update(&state, arguments.bytes, sizeof(arguments.bytes));
    }
    return hash256_final(&state);
}

struct hash256 recall_thought_hash(struct str reasoning)
{
    struct str text = str_trim(reasoning);

    return hash256_of(text.ptr, text.len);
}

struct str recall_call_id(struct str id)
{
    for (size_t i = id.len; i > 0; i--)
        if (id.ptr[i - 1] == '_')
            return str_skip(id, i);
    return id;
}

struct hash256 recall_id_hash(const struct hash256 *space, struct str id)
{
    struct hash256_state state;

    hash256_init(&state);
    hash256_update(&state, space->bytes, sizeof(space->bytes));
    hash256_update_framed(&state, id.ptr, id.len);
    return hash256_final(&state);
}

struct hash256 recall_key(const struct hash256 *space, const struct hash256 *history,
                          const struct hash256 *digest)
{
    struct hash256_state state;

    hash256_init(&state);
    hash256_update(&state, space->bytes, sizeof(space->bytes));
    hash256_update(&state, history->bytes, sizeof(history->bytes));
    hash256_update(&state, digest->bytes, sizeof(digest->bytes));
    return hash256_final(&state);
}
