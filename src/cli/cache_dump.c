/*
 * cache_dump.c: `hearth cache dump FILE`: shows an object of the SSD tier, damaged or not.
 *
 * With the installation's key the header and the payload are verified; without it the fields are
 * shown unverified. A sealed object needs its encryption key; the installation's key is derived
 * from it as in the server, unless another is given. Token ids are shown only on request, because
 * they reveal the prompt.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/seal.h"
#include "cli/cache.h"
#include "tier/ssd_format.h"

enum { PIECE = SSD_FRAME_BYTES, TEXT_MAX = 1 << 30 };

/* The object being shown. */
struct dump {
    struct cli *cli;
    const char *name;
    int fd;
    uint64_t bytes;
    uint8_t *header;
    uint32_t header_len;
    struct ssd_format format;
    bool has_key;
};

static enum err read_keys(struct dump *dump, const struct cache_options *options,
                          struct errinfo *info)
{
    const struct ssd_limits limits = {.tokens_max = SSD_TOKENS_MAX,
                                      .shape_bytes_max = TIER_SHAPE_BYTES_MAX,
                                      .payload_bytes_max = UINT64_MAX / 2};
    struct cache_keys keys;

    dump->has_key = options->key_file != NULL || options->seal_file != NULL;
    if (!dump->has_key)
        return ERR_OK;
    TRY(cache_read_keys(dump->cli, options, &keys, info));
    ssd_format_init(&dump->format, &keys.key, &limits, false);
    if (keys.sealed)
        ssd_format_set_seal(&dump->format, &keys.key, &keys.seal_key);
    seal_wipe(&keys, sizeof(keys));
    return ERR_OK;
}

static enum err open_object(struct dump *dump, struct errinfo *info)
{
    const struct file_sys *fs = dump->cli->setup->fs;
    struct stat st;

    TRY(file_open_at(fs, AT_FDCWD, dump->name, O_RDONLY | O_NONBLOCK, 0, &dump->fd, info));
    TRY(file_stat(fs, dump->fd, &st, info));
    if (!S_ISREG(st.st_mode))
        return err_set(info, ERR_INVALID, "%s is not a regular file", dump->name);
    dump->bytes = (uint64_t)st.st_size;
    return ERR_OK;
}

/* As much of the header as there is: sizes in the header are limited to the size of the file. */
static enum err read_header(struct dump *dump, struct errinfo *info)
{
    const struct file_sys *fs = dump->cli->setup->fs;
    uint8_t prefix[SSD_PREFIX_BYTES] = {0};
    uint64_t len = MIN(dump->bytes, SSD_ALIGNMENT);

    TRY(file_read_at(fs, dump->fd, prefix, MIN(dump->bytes, sizeof(prefix)), 0, info));
    uint64_t said = le_get_u32(prefix + SSD_AT_HEADER_BYTES);
    len = MIN(MAX(len, said), dump->bytes);
    dump->header = mem_try_alloc(len);
    if (dump->header == NULL)
        return err_set(info, ERR_NOMEM, "no memory for a header of %" PRIu64 " bytes", len);
    dump->header_len = (uint32_t)len;
    return file_read_at(fs, dump->fd, dump->header, len, 0, info);
}

/* Verifies everything; ERR_OK with *result, or an error of the system. */
static enum err verify_payload(struct dump *dump, const struct ssd_header *header,
                               enum ssd_result *result, struct errinfo *info)
{
    const uint64_t end = header->header_bytes + header->meta.bytes;
    uint8_t *piece = mem_alloc(PIECE);
    struct ssd_payload payload;
    enum err err = ERR_OK;

    ssd_payload_init(&payload, &dump->format, header);
    for (uint64_t at = header->header_bytes; at < end && err == ERR_OK; at += PIECE) {
        size_t len = MIN(end - at, PIECE);
        err = file_read_at(dump->cli->setup->fs, dump->fd, piece, len, at, info);
        if (err == ERR_OK) {
            ssd_payload_open(&payload, piece, len);
            ssd_payload_update(&payload, piece, len);
        }
    }
    mem_free(piece);
    *result = ssd_payload_finish(&payload);
    return err;
}

static enum err verify(struct dump *dump, enum ssd_result *result, struct errinfo *info)
{
    struct ssd_expect expect = {.file_bytes = dump->bytes};
    struct ssd_header header;
    struct ssd_prefix prefix;

    *result = ssd_format_decode_prefix(&dump->format, dump->header, dump->header_len, dump->bytes,
                                       &prefix);
    if (*result != SSD_OK)
        return ERR_OK;
    int32_t *tokens = mem_try_alloc_array(prefix.words, sizeof(*tokens));
    if (tokens == NULL)
        return err_set(info, ERR_NOMEM, "no memory for %" PRIu32 " tokens", prefix.tokens_count);
    *result =
        ssd_format_decode(&dump->format, dump->header, dump->header_len, &expect, &header, tokens);
    enum err err = *result == SSD_OK ? verify_payload(dump, &header, result, info) : ERR_OK;
    mem_free(tokens);
    return err;
}

static enum err print(struct dump *dump, uint64_t tokens, enum ssd_result *result,
                      struct errinfo *info)
{
    const struct ssd_describe how = {.format = dump->has_key ? &dump->format : NULL,
                                     .file_bytes = dump->bytes,
                                     .tokens_shown = (uint32_t)tokens};
    struct buf text;

    buf_init(&text, TEXT_MAX);
    enum err err = ssd_format_describe(&how, dump->header, dump->header_len, &text);
    if (err == ERR_OK && dump->has_key)
        err = verify(dump, result, info);
    else if (err != ERR_OK)
        err = err_set(info, err, "%s", err_sentence(err));
    if (err == ERR_OK && dump->has_key)
        buf_appendf(&text, "%-14s%s: %s\n", "object is", ssd_result_name(*result),
                    ssd_result_sentence(*result));
    if (err == ERR_OK)
        fputs(buf_str(&text), dump->cli->out);
    buf_fini(&text);
    return err;
}

/* An invalid file is reported on standard output, but the command fails. */
enum cli_exit cache_dump(struct cli *cli, const struct cache_options *options)
{
    struct dump dump = {.cli = cli, .name = cli->args[1], .fd = FILE_NO};
    enum ssd_result result = SSD_OK;
    struct errinfo info = {0};

    enum err err = read_keys(&dump, options, &info);
    if (err == ERR_OK)
        err = open_object(&dump, &info);
    if (err == ERR_OK)
        err = read_header(&dump, &info);
    if (err == ERR_OK)
        err = print(&dump, options->tokens, &result, &info);
    file_close(cli->setup->fs, &dump.fd);
    mem_free(dump.header);
    if (err != ERR_OK)
        return cli_error(cli, "%s", info.text);
    return result == SSD_OK ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}
