/*
 * restore_contract.c: to which token counts can a model's state go back? No engine and no cache are
 * needed to ask.
 *
 *      cc restore_contract.c $(pkg-config --cflags --libs hearth) -o restore_contract
 */
#include <inttypes.h>
#include <stdio.h>

#include <hearth/hearth.h>

enum { PARTS = 3 };

static void try_restore(const struct hearth_retained *model, size_t count, uint32_t pos)
{
    struct hearth_retained copy[PARTS];

    for (size_t i = 0; i < count; i++)
        copy[i] = model[i];
    struct hearth_restored result = hearth_restore_to(copy, count, pos);
    printf("to %4" PRIu32 ": %s, compute from %" PRIu32 " (%s)\n", pos,
           result.restored ? "yes" : "no", result.replay_start, result.reason);
}

int main(void)
{
    /* 1,000 tokens were computed. Full layers have all rows. Sliding ones see 128 tokens, and the
     * last prefill chunk left them 50 rows more. Recurrent ones have their last state alone. */
    const struct hearth_retained model[PARTS] = {
        {.kind = HEARTH_KIND_FULL, .length = 1000},
        {.kind = HEARTH_KIND_SLIDING, .length = 1000, .window = 128, .start = 822},
        {.kind = HEARTH_KIND_RECURRENT, .length = 1000},
    };

    printf("full layers alone\n");
    try_restore(model, 1, 400);
    printf("with sliding layers\n");
    try_restore(model, 2, 960);
    try_restore(model, 2, 400);
    printf("with recurrent layers\n");
    try_restore(model, PARTS, 960);
    try_restore(model, PARTS, 1000);

    struct hearth_range rows = hearth_retained_range(&model[1]);
    printf("sliding rows [%" PRIu32 ", %" PRIu32 ")\n", rows.begin, rows.end);
    printf("a prompt that differs at 970 resumes at %" PRIu32 ", and at %" PRIu32
           " with recurrent layers\n",
           hearth_longest_restore(model, 2, 970), hearth_longest_restore(model, PARTS, 970));
    return hearth_can_restore_to(model, PARTS, 1000) ? 0 : 1;
}
