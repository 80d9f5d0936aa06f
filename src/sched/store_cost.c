/* store_cost.c: see the header. */
#include "sched/store_cost.h"

#include "base/attr.h"

/* Weight of a sample relative to the next one: the last ten or so count. */
static const double decay = 0.9;

static double contiguous_ns(const struct store_cost *cost, const struct store_piece *piece)
{
    uint64_t bytes = piece->bytes - piece->scattered;

    return bytes > 0 ? line_at(&cost->rows, (double)bytes) : 0;
}

void store_cost_learn(struct store_cost *cost, const struct store_piece *piece, uint64_t ns)
{
    if (piece->bytes < STORE_COST_BYTES_MIN)
        return;
    if (piece->snapshot) {
        line_learn(&cost->snapshots, decay, (double)piece->bytes, (double)ns);
    } else if (piece->scattered == 0) {
        line_learn(&cost->rows, decay, (double)piece->bytes, (double)ns);
    } else {
        double rest = (double)ns - contiguous_ns(cost, piece);
        line_learn(&cost->scattered, decay, (double)piece->scattered, MAX(rest, 0));
    }
}

double store_cost_ns(const struct store_cost *cost, const struct store_piece *piece)
{
    if (piece->bytes < STORE_COST_BYTES_MIN)
        return 0;
    if (piece->snapshot)
        return line_known(&cost->snapshots) ? line_at(&cost->snapshots, (double)piece->bytes) : 0;
    if (piece->scattered == 0)
        return line_known(&cost->rows) ? contiguous_ns(cost, piece) : 0;
    if (!line_known(&cost->scattered))
        return 0;
    return contiguous_ns(cost, piece) + line_at(&cost->scattered, (double)piece->scattered);
}

bool store_cost_pays(struct store_cost *cost, double ns, double compute_ns, enum store_price price)
{
    if (ns <= 0 || compute_ns <= 0 || ns * price <= compute_ns)
        return true;
    if (price != STORE_EVICTED || ++cost->refused < STORE_COST_RETRY)
        return false;
    cost->refused = 0;
    return true;
}

void scatter_add(struct scatter *scatter, uint32_t at)
{
    if (scatter->tokens == 0)
        scatter->from = at;
    scatter->to = at + 1;
    scatter->tokens++;
}

uint32_t scatter_count(const struct scatter *scatter, uint32_t begin, uint32_t end)
{
    uint32_t from = MAX(scatter->from, begin), to = MIN(scatter->to, end);

    if (scatter->tokens == 0 || from >= to)
        return 0;
    uint64_t all = scatter->to - scatter->from;
    return (uint32_t)(((uint64_t)scatter->tokens * (to - from) + all - 1) / all);
}

struct scatter scatter_cut(const struct scatter *scatter, uint32_t length)
{
    struct scatter cut = {.from = scatter->from, .to = MIN(scatter->to, length)};

    cut.tokens = scatter_count(scatter, 0, length);
    return cut.tokens > 0 ? cut : (struct scatter){0};
}
