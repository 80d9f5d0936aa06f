/*
 * trace_cost.c: the presets. Bytes are computed from published shapes at 16 bits per number; speeds
 * are round numbers of the class of machine that the name says, there to compare policies with, and
 * no claim about any machine.
 *
 *      llama-8b      32 layers x 8 KV heads x 128 x (K, V) x 2 B = 128 KiB per token
 *      qwen3-0.6b    28 layers x 8 KV heads x 128 x (K, V) x 2 B = 112 KiB per token
 *      hybrid-1b     6 full layers x 2 KV heads x 256 x (K, V) x 2 B = 12 KiB per token; 18
 *                    recurrent layers of 1.06 MiB each
 *      sliding-1b    4 full layers x 1 KV head x 256 x (K, V) x 2 B = 4 KiB per token; 22 windows
 *                    of 512 tokens as one snapshot
 *      mamba-1b      48 recurrent layers and nothing else
 */
#include "lab/trace_cost.h"

#include <stddef.h>
#include <string.h>

#include <hearth/hearth.h>

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1024) * KIB)

const struct cost cost_presets[] = {
    {"llama-8b", "full attention, on a GPU", HEARTH_KIND_FULL, 128 * KIB, 0, 4000, 20e9},
    {"qwen3-0.6b", "full attention, on a processor", HEARTH_KIND_FULL, 112 * KIB, 0, 400, 8e9},
    {"hybrid-1b", "full and recurrent layers, on a processor",
     HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT, 12 * KIB, 19 * MIB, 300, 8e9},
    {"sliding-1b", "full and sliding layers, on a processor",
     HEARTH_KIND_FULL | HEARTH_KIND_SLIDING, 4 * KIB, 11 * MIB, 300, 8e9},
    {"mamba-1b", "recurrent layers only, on a processor", HEARTH_KIND_RECURRENT, 0, 25 * MIB, 300,
     8e9},
    {.name = NULL},
};

const struct cost *cost_find(const char *name)
{
    for (const struct cost *cost = cost_presets; cost->name != NULL; cost++)
        if (strcmp(cost->name, name) == 0)
            return cost;
    return NULL;
}

bool cost_needs_snapshot(const struct cost *cost)
{
    return cost->kinds != HEARTH_KIND_FULL;
}

double cost_ttft_s(const struct cost *cost, uint64_t bytes_imported, uint64_t tokens_computed)
{
    double seconds = 0;

    if (cost->import_bytes_per_s > 0)
        seconds += (double)bytes_imported / cost->import_bytes_per_s;
    if (cost->prefill_tokens_per_s > 0)
        seconds += (double)tokens_computed / cost->prefill_tokens_per_s;
    return seconds;
}
