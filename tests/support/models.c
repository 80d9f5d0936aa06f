/*
 * models.c: made with model_make under a name of this process, then renamed: the first process
 * wins, and all see a whole file.
 */
#include "support/models.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "lab/model_make.h"
#include "support/test.h"

static const char *make(const char *family, const char *suffix, struct model_shape shape)
{
    const char *build = getenv("HEARTH_BUILD");
    static char path[1024];
    char temporary[1100];

    snprintf(path, sizeof(path), "%s/%s%s%s.gguf", build ? build : test_dir(),
             build ? "models/" : "", family, suffix);
    if (access(path, R_OK) == 0)
        return path;
    snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
    struct model_make_options options = {
        .family = family, .out = temporary, .shape = shape, .seed = 1};
    struct errinfo info = {0};
    if (model_make(&options, &info) != ERR_OK) {
        /* Only the pinned release is known to have every family. */
        if (getenv("HEARTH_DEPS_LLAMA") && strstr(info.text, "unknown model architecture"))
            TEST_SKIP("this llama.cpp does not know the family");
        fail_msg("%s: %s", family, info.text);
    }
    /* A second one must not replace the first: a server may be loading that. */
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) != 0 &&
        (errno != EEXIST || unlink(temporary) != 0))
        fail_msg("%s cannot be renamed", temporary);
    return path;
}

const char *test_model(const char *family)
{
    return make(family, "", (struct model_shape){0});
}

const char *test_model_narrow(const char *family)
{
    bool experts = strstr(family, "moe") != NULL || strcmp(family, "deepseek2") == 0;
    struct model_shape shape = {.width = 128};

    if (experts)
        shape.experts = shape.experts_used = 4;
    return make(family, "-narrow", shape);
}

struct engine *test_engine(const char *family, const struct engine_options *options)
{
    struct engine_options filled = {.context = 4096, .sequences = 6, .chunk = 128, .threads = 1};
    struct errinfo info = {0};
    struct engine *engine = NULL;

    if (options != NULL)
        filled = *options;
    filled.path = test_model(family);
    if (engine_load(&engine, &filled, &info) != ERR_OK)
        fail_msg("%s: %s", filled.path, info.text);
    return engine;
}
