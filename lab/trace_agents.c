/*
 * trace_agents.c: sessions of coding agents, with the figures that were published for production
 * traffic in 2026: a median of 43 turns, prompts of 142,000 tokens, answers of 444, subagents in
 * 44 % of the sessions. Gaps are those of the Claude Code sessions of docs/replay-traces.md.
 *
 *      session  | system, tools | turn | turn | turn ...        every turn ends in a call of a tool,
 *      subagent                        '-| system | turn ...    or, one in ten, in text for a person
 *
 * System prompt and tools are shared by the sessions of one application.
 */
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lab/spread.h"
#include "lab/trace.h"

enum {
    BLOCK = 64,
    APPLICATIONS = 4,
    SYSTEM_TOKENS = 15000,
    AGENT_SYSTEM_TOKENS = 7400,
    TURNS_MAX = 400,
    AGENTS_MAX = 4,
    BLOCKS_MAX = (1 << 20) / BLOCK,
};

/* medians, and the shape of log-normal spreads */
static const double TURNS = 43, ADDED = 2300, ANSWER = 444, CALL_S = 15, PERSON_S = 200;
static const double AGENT_TURNS = 12, SESSIONS_APART_S = 120;
static const double WIDE = 1.2, NARROW = 0.7;
static const double TEXT_SHARE = 0.1, AGENT_SHARE = 0.44;

struct maker {
    struct trace *trace;
    uint64_t random;
    uint64_t scope; /* of the next session or agent: every one has its own blocks */
    uint64_t keys[BLOCKS_MAX];
};

/* In (0, 1]. */
static double fraction(struct maker *maker)
{
    return ((double)(spread_random(&maker->random) >> 11) + 1) * 0x1p-53;
}

static double around(struct maker *maker, double median, double shape)
{
    double normal = sqrt(-2 * log(fraction(maker))) * cos(6.283185307179586 * fraction(maker));

    return median * exp(shape * normal);
}

struct run {
    uint32_t session;
    uint64_t system_scope;
    uint32_t system, turns, agents;
    double at_s;
};

static enum err make_run(struct maker *maker, struct run run);

static enum err make_agents(struct maker *maker, const struct run *parent, double at_s)
{
    for (uint32_t i = 0; i < parent->agents; i++)
        TRY(make_run(maker, (struct run){
                                .session = parent->session,
                                .system_scope = UINT64_MAX - parent->system_scope,
                                .system = AGENT_SYSTEM_TOKENS,
                                .turns = (uint32_t)fmin(around(maker, AGENT_TURNS, NARROW) + 1, 99),
                                .at_s = at_s,
                            }));
    return ERR_OK;
}

static enum err make_run(struct maker *maker, struct run run)
{
    uint64_t own = ++maker->scope;
    double tokens = run.system, at_s = run.at_s;
    uint32_t blocks = 0, branch = (uint32_t)(fraction(maker) * run.turns);

    for (uint32_t turn = 0; turn < run.turns; turn++) {
        double answer = fmin(around(maker, ANSWER, NARROW), 16384);
        tokens += fmin(around(maker, ADDED, WIDE), 50000);
        if (tokens >= (double)BLOCKS_MAX * BLOCK)
            break; /* a real client would compact */
        for (; (blocks + 1) * BLOCK <= tokens; blocks++)
            maker->keys[blocks] =
                trace_key((blocks + 1) * BLOCK <= run.system ? run.system_scope : own, blocks);
        bool text = fraction(maker) <= TEXT_SHARE;
        struct trace_request request = {
            .at_ns = (uint64_t)(at_s * (double)NS_PER_S),
            .session = run.session,
            .tokens = (uint32_t)tokens,
            .generated = (uint32_t)answer + 1,
            .ending = text ? HEARTH_ENDING_TEXT : HEARTH_ENDING_CALL,
            .anchor = run.system,
            .blocks = blocks,
        };
        TRY(trace_add(maker->trace, &request, maker->keys));
        if (turn == branch && run.agents > 0) {
            uint64_t kept = maker->random;
            TRY(make_agents(maker, &run, at_s));
            maker->random ^= kept;
            blocks = 0; /* the agents used the array */
        }
        tokens += answer;
        at_s += text ? around(maker, PERSON_S, WIDE) : around(maker, CALL_S, NARROW);
    }
    return ERR_OK;
}

enum err trace_make_agents(struct trace *trace, uint32_t sessions, uint64_t seed,
                           struct errinfo *info)
{
    struct maker *maker = mem_try_alloc(sizeof(*maker));
    enum err err = maker != NULL ? trace_set_block(trace, BLOCK, info) : ERR_NOMEM;
    double at_s = 0;

    if (maker != NULL) {
        maker->trace = trace;
        maker->random = seed;
        maker->scope = APPLICATIONS;
    }
    for (uint32_t i = 0; err == ERR_OK && i < sessions; i++) {
        struct run run = {
            .session = trace_session(trace, i),
            .system_scope = i % APPLICATIONS,
            .system = SYSTEM_TOKENS,
            .turns = (uint32_t)fmin(around(maker, TURNS, NARROW) + 1, TURNS_MAX),
            .agents = fraction(maker) <= AGENT_SHARE ? 1 + i % AGENTS_MAX : 0,
            .at_s = at_s,
        };
        err = make_run(maker, run);
        at_s += -log(fraction(maker)) * SESSIONS_APART_S;
    }
    mem_free(maker);
    return err == ERR_OK ? ERR_OK : err_set(info, err, "%s", err_sentence(err));
}
