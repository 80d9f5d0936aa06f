/* pictures.c: base64, markers, and the places of pictures in a prompt. */
#include "chat/pictures.h"

#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/mem.h"
#include "chat/error.h"
#include "chat/media_file.h"
#include "chat/prepare.h"
#include "engine/picture_file.h"

enum { PIXEL_BYTES = 12 /* that a decoder takes, with its copies */ };

/* ---- adding ---- */

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static struct hash256 key;

static void make_key(void)
{
    hash_random(key.bytes, sizeof(key.bytes));
}

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

/* Both alphabets; white space between digits is skipped. False: not base64. */
static bool decode(struct str text, uint8_t *out, size_t *len)
{
    uint32_t held = 0, bits = 0;
    size_t count = 0, i = 0;

    for (; i < text.len && text.ptr[i] != '='; i++) {
        int digit = digit_of(text.ptr[i]);
        if (digit < 0 && str_is_space(text.ptr[i]))
            continue;
        if (digit < 0)
            return false;
        held = held << 6 | (uint32_t)digit;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[count++] = (uint8_t)(held >> bits);
        }
    }
    for (; i < text.len; i++)
        if (text.ptr[i] != '=' && !str_is_space(text.ptr[i]))
            return false;
    *len = count;
    return count > 0;
}

static enum err add_file(struct pictures *pictures, struct arena *arena, struct str file,
                         const char *param, struct str *marker)
{
    char hex[HASH256_HEX_BYTES];

    pthread_once(&key_once, make_key);
    struct hash256 hash = hash256_keyed(&key, file.ptr, file.len);
    hash256_hex(&hash, hex);
    char *text = arena_printf(arena, PICTURE_MARKER "%s", hex);
    char *field = arena_strdup(arena, str_from(param));
    if (text == NULL || field == NULL)
        return arena->err;
    *marker = str_from(text);
    if (!mem_try_reserve(&pictures->list, pictures->count + 1, &pictures->cap,
                         sizeof(*pictures->list)))
        return ERR_NOMEM;
    struct picture_size size;
    /* A file without a size fails when it is decoded. */
    bool sized = picture_file_size(file, &size, NULL) == ERR_OK;
    uint64_t pixels = sized ? MIN((uint64_t)size.width * size.height, UINT32_MAX) : 0;
    pictures->pixels += pixels;
    pictures->list[pictures->count++] =
        (struct request_picture){.file = file, .marker = *marker, .param = field, .pixels = pixels};
    return ERR_OK;
}

static enum err too_many(struct errinfo *info)
{
    return err_set(info, ERR_LIMIT, "has more than %d pictures", PICTURES_MAX);
}

enum err pictures_add(struct pictures *pictures, struct arena *arena, struct str base64,
                      const char *param, struct str *marker, struct errinfo *info)
{
    if (pictures->count == PICTURES_MAX)
        return too_many(info);
    if (base64.len / 4 * 3 > PICTURE_BYTES_MAX)
        return err_set(info, ERR_LIMIT, "has more than %d MiB", PICTURE_BYTES_MAX >> 20);
    uint8_t *bytes = arena_alloc(arena, base64.len / 4 * 3 + 3);
    if (bytes == NULL)
        return arena->err;
    struct str file = {(const char *)bytes, 0};
    if (!decode(base64, bytes, &file.len))
        return err_set(info, ERR_INVALID, "must be a picture in base64");
    return add_file(pictures, arena, file, param, marker);
}

enum err pictures_add_url(struct pictures *pictures, struct arena *arena, struct str url,
                          const char *param, struct str *marker, struct errinfo *info)
{
    size_t comma = str_find(url, STR(";base64,"));
    struct str file;

    if (media_file_is_url(url)) {
        if (pictures->count == PICTURES_MAX)
            return too_many(info);
        TRY(media_file_read(pictures->media_dir, url, PICTURE_BYTES_MAX, arena, &file, info));
        return add_file(pictures, arena, file, param, marker);
    }
    if (!str_starts(url, STR("data:")) || comma == SIZE_MAX)
        return err_set(info, ERR_UNSUPPORTED,
                       "must be a data URL with base64: pictures are never fetched from elsewhere");
    size_t skip = comma + strlen(";base64,");
    return pictures_add(pictures, arena, str_skip(url, skip), param, marker, info);
}

/* ---- reading ---- */

static enum err fail(struct api_error *error, const struct request_picture *picture, enum err err,
                     const struct errinfo *info)
{
    enum api_error_kind kind = err == ERR_UNSUPPORTED ? API_ERROR_UNSUPPORTED
                               : err == ERR_LIMIT     ? API_ERROR_TOO_LARGE
                                                      : API_ERROR_INVALID;

    if (err == ERR_NOMEM || err == ERR_BUSY || err == ERR_ENGINE || err == ERR_CANCELLED)
        return api_error_from(error, err, info);
    /* Claude Code takes a picture out of the conversation if the message has these words, which are
     * Anthropic's. Otherwise it sends the picture with every further request. */
    return api_error_set(error, kind, picture->param, "'%s': could not process image: %s.",
                         picture->param, info->text);
}

static enum err fail_hidden(struct api_error *error, const struct request_picture *picture)
{
    return api_error_set(error, API_ERROR_INVALID, picture->param,
                         "The chat template of this model does not show the picture '%s'.",
                         picture->param);
}

/* The sum of pixels up to this picture, and its own. */
static enum err check_pixels(const struct pictures *pictures, const struct request_picture *picture,
                             uint64_t sum, struct errinfo *info)
{
    struct picture_size size;

    if (picture->pixels > PICTURE_PIXELS_MAX) /* its header is refused */
        return picture_file_check(picture->file, PICTURE_PIXELS_MAX, &size, info);
    if (sum <= PICTURES_PIXELS_MAX)
        return ERR_OK;
    return err_set(info, ERR_LIMIT,
                   "the pictures have %llu pixels together; at most %d are allowed in one request",
                   (unsigned long long)pictures->pixels, PICTURES_PIXELS_MAX);
}

/* What can be known before anything is decoded. */
static enum err check_all(const struct pictures *pictures, struct str text, struct api_error *error)
{
    struct errinfo info = {0};
    uint64_t sum = 0;

    for (size_t i = 0; i < pictures->count; i++) {
        const struct request_picture *picture = &pictures->list[i];
        sum += picture->pixels;
        enum err err = check_pixels(pictures, picture, sum, &info);
        if (err != ERR_OK)
            return fail(error, picture, err, &info);
        if (str_find(text, picture->marker) == SIZE_MAX)
            return fail_hidden(error, picture);
    }
    return ERR_OK;
}

static enum err read_one(struct request_picture *picture, const struct prepare_tools *tools,
                         struct errinfo *info)
{
    const struct tokens_caller *caller = &tools->caller;
    uint64_t bytes = MIN(picture->pixels, (uint64_t)PICTURE_PIXELS_MAX) * PIXEL_BYTES;

    if (caller->stopped != NULL && caller->stopped(caller->arg))
        return ERR_CANCELLED;
    if (caller->charge != NULL)
        TRY(caller->charge(caller->arg, bytes, info));
    enum err err = picture_create(tools->model.engine, picture->file, &picture->picture, info);
    if (caller->charge != NULL)
        caller->release(caller->arg, bytes);
    return err;
}

enum err pictures_read(struct pictures *pictures, struct str text,
                       const struct prepare_tools *tools, struct api_error *error)
{
    struct errinfo info = {0};

    if (pictures->count == 0 || pictures->list[pictures->count - 1].picture != NULL)
        return ERR_OK;
    if (engine_facts(tools->model.engine)->images) /* else none can be decoded */
        TRY(check_all(pictures, text, error));
    for (size_t i = 0; i < pictures->count; i++) {
        enum err err = read_one(&pictures->list[i], tools, &info);
        if (err != ERR_OK)
            return fail(error, &pictures->list[i], err, &info);
    }
    return ERR_OK;
}

/* ---- placing ---- */

/* The piece whose tokens the prompt has at `at`. Counts it as seen. */
static const struct picture_piece *find_piece(const struct pictures *pictures,
                                              const struct token_prompt *prompt, size_t at,
                                              bool *seen)
{
    for (size_t i = 0; i < pictures->count; i++) {
        size_t count;
        const struct picture_piece *pieces = picture_pieces(pictures->list[i].picture, &count);
        for (size_t k = 0; k < count; k++) {
            if (pieces[k].count > prompt->count - at ||
                memcmp(prompt->tokens + at, picture_piece_tokens(&pieces[k]),
                       pieces[k].count * sizeof(*prompt->tokens)) != 0)
                continue;
            seen[i] = true;
            return &pieces[k];
        }
    }
    return NULL;
}

static bool is_first(token_id token)
{
    return token_is_picture(token) && (token & PICTURE_FIRST);
}

static enum err place_all(const struct pictures *pictures, const struct token_prompt *prompt,
                          struct placed_pictures *out, struct api_error *error)
{
    bool seen[PICTURES_MAX] = {false};

    for (size_t at = 0; at < prompt->count; at++) {
        if (!is_first(prompt->tokens[at]))
            continue;
        const struct picture_piece *piece = find_piece(pictures, prompt, at, seen);
        if (piece == NULL)
            return api_error_set(error, API_ERROR_SERVER, NULL, "A picture was lost.");
        out->pieces[out->count] = *piece;
        out->pieces[out->count++].at = (uint32_t)at;
    }
    for (size_t i = 0; i < pictures->count; i++) {
        const struct request_picture *picture = &pictures->list[i];
        out->weak = out->weak || picture_is_weak(picture->picture);
        /* The same picture twice is found by the first one's tokens. */
        for (size_t k = 0; k < i; k++)
            seen[i] = seen[i] || str_eq(picture->marker, pictures->list[k].marker);
        if (!seen[i])
            return fail_hidden(error, picture);
    }
    return ERR_OK;
}

enum err pictures_place(const struct pictures *pictures, struct arena *arena,
                        const struct token_prompt *prompt, struct placed_pictures *out,
                        struct api_error *error)
{
    size_t count = 0;

    *out = (struct placed_pictures){0};
    if (pictures->count == 0)
        return ERR_OK;
    for (size_t at = 0; at < prompt->count; at++)
        count += is_first(prompt->tokens[at]);
    out->pieces = arena_alloc_array(arena, MAX(count, 1), sizeof(*out->pieces));
    if (out->pieces == NULL)
        return arena->err;
    if (token_is_picture(prompt->tokens[prompt->count - 1]))
        return api_error_set(error, API_ERROR_INVALID, "messages",
                             "The prompt must end with text, not with a picture.");
    return place_all(pictures, prompt, out, error);
}

void pictures_fini(struct pictures *pictures)
{
    for (size_t i = 0; i < pictures->count; i++)
        picture_destroy(&pictures->list[i].picture);
    mem_free(pictures->list);
    *pictures = (struct pictures){0};
}
