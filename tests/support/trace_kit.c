#include "support/trace_kit.h"

#include <stdio.h>
#include <string.h>

#include <hearth/hearth.h>

#include "base/clock.h"
#include "base/file.h"
#include "support/test.h"
#include "lab/trace_read.h"

enum { BLOCK = 4, BLOCKS_MAX = 64, PATH_BYTES = 4096 };

const struct cost trace_kit_full = {.name = "full",
                                    .help = "",
                                    .kinds = HEARTH_KIND_FULL,
                                    .rows_bytes_per_token = 4096,
                                    .prefill_tokens_per_s = 1000,
                                    .import_bytes_per_s = 1e9};

const struct cost trace_kit_hybrid = {.name = "hybrid",
                                      .help = "",
                                      .kinds = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT,
                                      .rows_bytes_per_token = 4096,
                                      .snapshot_bytes = 16384,
                                      .prefill_tokens_per_s = 1000,
                                      .import_bytes_per_s = 1e9};

void trace_kit_add(struct trace *trace, uint64_t at_s, const char *text)
{
    uint64_t keys[BLOCKS_MAX];
    size_t blocks = strlen(text);

    assert_true(blocks >= 1 && blocks <= BLOCKS_MAX);
    for (size_t i = 0; i < blocks; i++)
        keys[i] = (unsigned char)text[i];
    struct trace_request request = {
        .at_ns = at_s * NS_PER_S, .tokens = (uint32_t)blocks * BLOCK, .blocks = (uint32_t)blocks};
    assert_ok(trace_set_block(trace, BLOCK, NULL));
    assert_ok(trace_add(trace, &request, keys));
}

void trace_kit_random(struct trace *trace, uint64_t *seed, size_t requests, uint32_t blocks_max)
{
    char text[BLOCKS_MAX + 1];

    trace_init(trace);
    for (size_t r = 0; r < requests; r++) {
        size_t blocks = 1 + test_random_below(seed, blocks_max);
        for (size_t i = 0; i < blocks; i++)
            text[i] = (char)('a' + test_random_below(seed, 2));
        text[blocks] = '\0';
        trace_kit_add(trace, r, text);
    }
    trace_sort(trace);
}

const char *trace_kit_published(const char *name)
{
    static char path[PATH_BYTES];
    const char *folder = test_shared("traces");

    if (folder == NULL) {
        print_message("no ../shared/traces: only the trace of tests/data\n");
        return NULL;
    }
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

void trace_kit_read(struct trace *trace, const char *path)
{
    struct read_options options = {.fs = file_sys_real()};
    struct errinfo info = {0};

    trace_init(trace);
    if (trace_read(trace, path, &options, NULL, &info) != ERR_OK)
        fail_msg("%s", info.text);
    trace_sort(trace);
}
