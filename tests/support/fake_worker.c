/*
 * fake_worker.c: the fake's options travel in the path of the model, which is the one text that the
 * parent hands to the child as it is: the bytes of the struct in hex, a slash, the name. Both
 * programs come from the same build.
 */
#include "support/fake_worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

enum { HEX = 2 * sizeof(struct engine_fake_options), NAME_BYTES_MAX = 128 };

static void encode(const struct engine_fake_options *fake, char *path, size_t size)
{
    struct engine_fake_options plain = *fake;
    const unsigned char *bytes = (const unsigned char *)&plain;

    assert_null(fake->chat_template);
    plain.name = NULL;
    plain.clock = NULL;
    plain.on_piece = NULL;
    plain.refuses = NULL;
    plain.on_picture = NULL;
    plain.arg = NULL;
    plain.fault_run = plain.fault_export = plain.fault_import = NULL;
    for (size_t i = 0; i < sizeof(plain); i++)
        snprintf(path + 2 * i, 3, "%02x", bytes[i]);
    snprintf(path + HEX, size - HEX, "/%s", fake->name != NULL ? fake->name : "fake");
}

static bool decode(const char *path, struct engine_fake_options *fake)
{
    unsigned char *bytes = (unsigned char *)fake;

    if (strlen(path) <= HEX || path[HEX] != '/')
        return false;
    for (size_t i = 0; i < sizeof(*fake); i++) {
        char digits[] = {path[2 * i], path[2 * i + 1], '\0'};
        bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    fake->name = path + HEX + 1;
    return true;
}

/* The worker's signs of life, at each piece of the fake. */
static void (*tick)(void *arg);

static void on_piece(struct engine *engine, void *arg)
{
    (void)engine;
    tick(arg);
}

enum err fake_worker_create(struct engine **engine, const struct engine_options *options,
                            struct errinfo *info)
{
    struct engine_fake_options fake;

    if (!decode(options->path, &fake))
        return err_set(info, ERR_INVALID, "not the options of a fake engine");
    if (options->on_tick != NULL) {
        tick = options->on_tick;
        fake.on_piece = on_piece;
        fake.arg = options->tick_arg;
        fake.clock = clock_real();
    }
    return engine_fake_create(engine, &fake, info);
}

const char *fake_worker_program(void)
{
    static char path[1024];
    const char *build = getenv("HEARTH_BUILD");

    snprintf(path, sizeof(path), "%s/tests/worker", build != NULL ? build : "");
    if (access(path, X_OK) != 0)
        fail_msg("no program %s; HEARTH_BUILD must name the build folder", path);
    return path;
}

enum err fake_worker_load(struct engine **engine, const struct engine_fake_options *fake,
                          const struct engine_worker_options *worker, struct errinfo *info)
{
    char path[HEX + 1 + NAME_BYTES_MAX];
    struct engine_options options = {.path = path};
    struct engine_worker_options with_fake = *worker;

    encode(fake, path, sizeof(path));
    if (with_fake.program == NULL)
        with_fake.program = fake_worker_program();
    with_fake.load_vocab = fake_worker_create;
    return engine_worker_load(engine, &options, &with_fake, info);
}
