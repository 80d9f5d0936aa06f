/*
 * projector.h: the vision encoder of a model (an mmproj file). For the libllama engine only.
 *
 * OWNER: its engine. projector_run on the engine's thread; picture_create (picture.h) on any.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "engine/picture.h"

struct llama_context;
struct llama_model;
struct mtmd_input_chunks;
struct projector;

struct picture {
    token_id *tokens;
    size_t count;
    struct picture_piece *pieces;
    size_t pieces_count;
    bool weak;
    struct mtmd_input_chunks *chunks; /* of the library: pixels, ready for the encoder */
    /* instead, for an engine in a child process, which decodes it when it runs a piece */
    char *file;
    size_t file_len;
};

/* The ids of a piece, which follow from the picture's identity and the piece's number. `positions`:
 * that it takes, at most PICTURE_POSITIONS_MAX. */
void picture_fill_tokens(const struct hash256 *identity, uint32_t piece, uint32_t positions,
                         token_id *tokens, uint32_t count);

/* Whether this build has libmtmd. */
bool projector_available(void);

/* ERR_UNSUPPORTED: this build has no libmtmd, or the file is not a vision encoder. `beat` is
 * called while it computes; when it returns false the computation stops. */
struct projector_options {
    const char *path;
    const struct llama_model *model;
    int threads;
    bool gpu;
    uint32_t tokens_min, tokens_max; /* of a picture; 0 = as the file says */
    uint32_t chunk;                  /* the most tokens that are computed at once */
    bool (*beat)(void *arg);
    void *arg;
};
enum err projector_open(struct projector **projector, const struct projector_options *options,
                        struct errinfo *info) NODISCARD;
void projector_close(struct projector **projector);

/* Once the file's digest is known, and before the first picture. */
void projector_identify(struct projector *projector, const struct hash256 *file);

/* Encodes a picture. What fails without an abort is reported when a client sends one. */
void projector_try(struct projector *projector);

bool projector_uses_mrope(const struct projector *projector);

/* Encodes the piece and adds its tokens to the sequence, from position `at` on. The result is that
 * of llama_decode: 0, 1 = no room, 2 = aborted, negative = failed. */
int32_t projector_run(struct projector *projector, struct llama_context *ctx,
                      const struct picture_piece *piece, int32_t at, int32_t seq);

/* See picture_create and picture_destroy. */
enum err projector_read(struct projector *projector, struct str file, struct picture **out,
                        struct errinfo *info) NODISCARD;
void projector_drop(struct mtmd_input_chunks *chunks); /* NULL is allowed */
