/*
 * lib_use.c: the smallest program that uses libhearth in earnest: an engine whose state of a token
 * is the token itself. tools/lib_test.sh compiles it outside of the tree as C99, C11 and C++17.
 * Ends with 0 when the second prompt was restored from what the first one left.
 */
#include <hearth/hearth.h>

#include <stdio.h>
#include <string.h>

#define TOKENS 600

static int32_t state[TOKENS]; /* the whole engine */

static bool import_rows(const struct hearth_object *objects, const void *const *data, size_t count,
                        uint32_t boundary, void *arg)
{
    size_t i;

    (void)arg;
    for (i = 0; i < count; i++) {
        uint32_t end = objects[i].end < boundary ? objects[i].end : boundary;
        memcpy(state + objects[i].begin, data[i], (end - objects[i].begin) * sizeof(state[0]));
    }
    return true;
}

static uint64_t capacity(enum hearth_object_kind kind, uint32_t begin, uint32_t end, void *arg)
{
    (void)arg;
    return kind == HEARTH_OBJECT_ROWS ? (end - begin) * sizeof(state[0]) : 0;
}

static uint64_t export_rows(enum hearth_object_kind kind, uint32_t begin, uint32_t end,
                            void *memory, uint64_t bytes, void *shape, size_t *shape_bytes,
                            void *arg)
{
    (void)kind;
    (void)end;
    (void)shape;
    (void)arg;
    *shape_bytes = 0;
    memcpy(memory, state + begin, (size_t)bytes);
    return bytes;
}

static int use(struct hearth_space *space)
{
    struct hearth_session_ops ops;
    int32_t tokens[TOKENS];
    uint32_t reused = 0;
    uint64_t stored = 0;
    int i;

    memset(&ops, 0, sizeof(ops));
    ops.struct_size = sizeof(ops);
    ops.import = import_rows;
    ops.capacity = capacity;
    ops.export_to = export_rows;
    for (i = 0; i < TOKENS; i++)
        state[i] = tokens[i] = i * 7;
    if (hearth_session_insert(space, &ops, tokens, TOKENS, NULL, &stored) != HEARTH_OK)
        return 2;
    memset(state, 0, sizeof(state));
    tokens[TOKENS - 50] = -1; /* the next prompt goes another way there */
    if (hearth_session_lookup(space, &ops, tokens, TOKENS, NULL, &reused) != HEARTH_OK)
        return 3;
    printf("stored %lu bytes, reused %lu tokens\n", (unsigned long)stored, (unsigned long)reused);
    return reused == TOKENS - 50 && memcmp(state, tokens, reused * sizeof(state[0])) == 0 ? 0 : 4;
}

int main(void)
{
    struct hearth_options options;
    struct hearth_model model;
    struct hearth_cache *cache;
    struct hearth_space *space;
    char message[HEARTH_MESSAGE_BYTES];
    int status;

    memset(&options, 0, sizeof(options));
    options.struct_size = sizeof(options);
    options.ram_bytes = 16 << 20;
    if (hearth_open(&cache, &options, message) != HEARTH_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    memset(&model, 0, sizeof(model));
    model.struct_size = sizeof(model);
    model.kinds = HEARTH_KIND_FULL;
    if (hearth_space_open(cache, &model, "", 0, &space) != HEARTH_OK)
        return 1;
    status = use(space);
    hearth_space_close(&space);
    hearth_close(&cache);
    return status;
}
