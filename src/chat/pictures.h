/*
 * pictures.h: pictures of a request, from the client's base64 to tokens of the prompt.
 *
 *      dialect: data URL --> pictures_add --> marker, a text in the message
 *      prepare: template -> pictures_read (pixels) -> tokens_from_text: markers become the
 *               picture's tokens -> pictures_place: where they are in the prompt
 *
 * A MARKER is an unguessable text: a keyed hash of the file, with a key of this process. So the
 * template and recall (which compares text) see one text per picture, and no text of a client or of
 * a tool can become a picture (keeps I105).
 *
 * Owner: one request. Threads: pictures_add on the dialect's, the rest where prepare runs.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "engine/picture.h"

struct api_error;
struct arena;
struct prepare_tools;
struct token_prompt;

struct request_picture {
    struct str file;         /* its bytes, in the arena */
    struct str marker;       /* in the arena */
    const char *param;       /* the field that it came from */
    uint64_t pixels;         /* that its header announces; 0: it has none */
    struct picture *picture; /* after pictures_read; owned */
};

struct pictures {
    struct request_picture *list;
    size_t count, cap;
    uint64_t pixels;       /* of all, as their headers announce */
    const char *media_dir; /* where file:// URLs may point to; NULL = nowhere; borrowed */
};

/* Every marker begins with this. */
#define PICTURE_MARKER "hearth-picture-"

/* Adds a picture from base64, or from a data URL with it or a file URL (media_file.h), and gives the
 * text that stands for it. ERR_INVALID: not base64, no such file; ERR_UNSUPPORTED: another kind of
 * URL, which is never fetched; ERR_LIMIT: too many pictures; or arena->err. */
enum err pictures_add(struct pictures *pictures, struct arena *arena, struct str base64,
                      const char *param, struct str *marker, struct errinfo *info) NODISCARD;
enum err pictures_add_url(struct pictures *pictures, struct arena *arena, struct str url,
                          const char *param, struct str *marker, struct errinfo *info) NODISCARD;

/* Decodes all of them for the model, once: nothing is done for those that are decoded. Before the
 * first one, all are looked for in `text`, the rendered conversation, and their pixels are counted.
 * Between two, the caller is asked whether it still needs them. ERR_INVALID: `error` says what is
 * wrong; ERR_CANCELLED. */
enum err pictures_read(struct pictures *pictures, struct str text,
                       const struct prepare_tools *tools, struct api_error *error) NODISCARD;

/* Lists the pieces of pictures in a prompt, in the arena; *weak: some picture's identity is not
 * complete. ERR_INVALID: a picture is missing, or the prompt ends with one. */
struct placed_pictures {
    struct picture_piece *pieces;
    size_t count;
    bool weak;
};
enum err pictures_place(const struct pictures *pictures, struct arena *arena,
                        const struct token_prompt *prompt, struct placed_pictures *out,
                        struct api_error *error) NODISCARD;

void pictures_fini(struct pictures *pictures);
