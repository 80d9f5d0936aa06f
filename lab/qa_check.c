/*
 * qa_check.c: the checks, each with the number of its invariant. Checks compare what both sides
 * reported; none depends on time.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lab/qa.h"

struct verdict {
    enum qa_probe probe;
    unsigned invariant;
    bool passed;
};

/* "sentence" and, after a '|', what was observed. */
PRINTF(3, 4)
static void add_verdict(struct qa_scenario *scenario, struct verdict verdict, const char *fmt, ...)
{
    char text[400];
    va_list args;

    if (scenario->checks_count == QA_CHECKS_MAX)
        return;
    struct qa_check *check = &scenario->checks[scenario->checks_count++];
    check->probe = verdict.probe;
    check->invariant = verdict.invariant;
    check->passed = verdict.passed;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct str rest = str_from(text), piece;
    if (str_next(&rest, '|', &piece))
        snprintf(check->text, sizeof(check->text), "%.*s",
                 (int)MIN(piece.len, sizeof(check->text) - 1), piece.ptr);
    snprintf(check->detail, sizeof(check->detail), "%.*s",
             (int)MIN(rest.len, sizeof(check->detail) - 1), rest.ptr != NULL ? rest.ptr : "");
}

/* ---- every request ---- */

static void check_answered(struct qa_scenario *scenario, const struct qa_request *request)
{
    const struct ask_result *result = &request->result;
    bool ended = result->left || result->finish[0] != '\0';
    bool passed =
        request->failure[0] == '\0' && result->status == 200 && result->error[0] == '\0' && ended;

    add_verdict(scenario, (struct verdict){request->probe, 94, passed},
                "%s %c: nothing about the cache fails a request|status %d, finish '%s' %s%s",
                request->phase, request->session, result->status, result->finish, result->error,
                request->failure);
}

/* Parts add up, and the client's numbers match what the cache did. */
static void check_usage(struct qa_scenario *scenario, const struct qa_request *request)
{
    const struct ask_result *result = &request->result;
    const struct ask_cache *cache = &result->cache;
    const struct qa_event *decision = qa_decision(request);
    int64_t sum = cache->device + cache->ram + cache->ssd + cache->remote;
    int64_t event = decision != NULL ? qa_event_number(decision, "read_tokens") : -1;
    bool passed =
        result->cached == sum && sum + cache->computed == result->prompt && event == result->cached;

    add_verdict(
        scenario, (struct verdict){request->probe, 99, passed},
        "%s %c: usage adds up to the prompt and equals the events|prompt %lld, cached %lld, "
        "parts %lld + %lld, event %lld",
        request->phase, request->session, (long long)result->prompt, (long long)result->cached,
        (long long)sum, (long long)cache->computed, (long long)event);
}

static void check_reason(struct qa_scenario *scenario, const struct qa_request *request)
{
    const struct ask_cache *cache = &request->result.cache;
    bool whole = cache->computed <= 1,
         named = cache->reason[0] != '\0' && strcmp(cache->reason, "none") != 0;

    add_verdict(scenario, (struct verdict){request->probe, 104, whole || named},
                "%s %c: a miss and a shortened hit have a reason|computed %lld, reason '%s'",
                request->phase, request->session, (long long)cache->computed, cache->reason);
}

/* ---- how much was reused ---- */

static void check_reuse(struct qa_scenario *scenario, const char *phase, char session,
                        unsigned invariant, int64_t wanted, const char *what)
{
    const struct qa_request *request = qa_find(scenario, phase, session);

    if (request == NULL)
        return;
    int64_t cached = request->result.cached;
    add_verdict(scenario,
                (struct verdict){request->probe, invariant, wanted > 0 && cached >= wanted},
                "%s %c: %s|cached %lld, wanted %lld of %lld, reason '%s'", phase, session, what,
                (long long)cached, (long long)wanted, (long long)request->result.prompt,
                request->result.cache.reason);
}

/* A prompt that was computed before: all but its last token, whose logits are needed. */
static void check_repeat(struct qa_scenario *scenario, const char *phase, char session,
                         unsigned invariant, const char *what)
{
    const struct qa_request *request = qa_find(scenario, phase, session);

    if (request != NULL)
        check_reuse(scenario, phase, session, invariant, request->result.prompt - 1, what);
}

static void check_ab(struct qa_scenario *scenario, const struct qa_ab *ab)
{
    struct qa_totals cold = qa_totals(scenario, ab->cold);
    const struct qa_request *request;
    int64_t computed = 0;

    for (char session = 'a'; (request = qa_find(scenario, ab->cold, session)) != NULL; session++)
        computed += request->result.cache.computed;
    add_verdict(
        scenario,
        (struct verdict){ab->probe, 2, cold.writes >= 2 && cold.write_tokens + 1 >= computed},
        "%s: what was computed is written|writes %u, tokens %lld of %lld", ab->cold, cold.writes,
        (long long)cold.write_tokens, (long long)computed);
    for (char session = 'a'; qa_find(scenario, ab->warm, session) != NULL; session++)
        check_repeat(scenario, ab->warm, session, 9, "sessions that ran together are both cached");
    check_repeat(scenario, ab->exact, 'a', 2, "an exact repeat hits");
    check_repeat(scenario, ab->aba[0], 'a', 2, "an exact repeat hits");
    check_repeat(scenario, ab->aba[1], 'b', 3, "a second session is cached beside the first");
    check_repeat(scenario, ab->aba[2], 'a', 3, "a second session does not displace the first");
}

/* The next prompt begins with the previous one and its generated tokens, except the last token,
 * which was never run. */
static void check_turns(struct qa_scenario *scenario)
{
    static const char *const phases[] = {"turn-1", "turn-2", "turn-3"};

    for (size_t i = 1; i < COUNT_OF(phases); i++) {
        const struct ask_result *before = &qa_find(scenario, phases[i - 1], 't')->result;
        check_reuse(scenario, phases[i], 't', 106, before->prompt + before->generated - 1,
                    "a turn continues after the previous answer, even if its clock changed");
    }
}

/* It diverged inside a message: of the tokens that were computed before, at most a chunk is computed
 * again, or half of those that are new. */
static void check_fork(struct qa_scenario *scenario, const char *phase, char session,
                       unsigned invariant, const char *what)
{
    const struct qa_request *request = qa_find(scenario, phase, session);
    int64_t shared = (int64_t)request->shared, most = request->result.prompt - shared;

    check_reuse(scenario, phase, session, invariant, shared - MAX(most / 2, QA_CHUNK), what);
}

static void check_branches(struct qa_scenario *scenario)
{
    const struct qa_request *other = qa_find(scenario, "other-key", 'a');

    check_fork(scenario, "edit", 'a', 10, "the longest safe beginning is reused");
    check_fork(scenario, "question", 'd', 112, "a second question computes the question");
    check_fork(scenario, "inside", 'd', 112, "an edit computes what follows it");
    check_repeat(scenario, "unedited", 'a', 92, "an edit keeps the old branch");
    check_repeat(scenario, "resume", 'x', 95, "what a cancelled request had computed is kept");
    add_verdict(scenario, (struct verdict){QA_PROBE_TENANT, 100, other->result.cached == 0},
                "other-key a: another key sees nothing|cached %lld",
                (long long)other->result.cached);
}

/* What every prompt of a template begins with; a model's own earlier prompts have it as well. */
enum { TEMPLATE_TOKENS = 16 };

static void check_models(struct qa_scenario *scenario)
{
    const struct qa_request *cold;

    if (qa_find(scenario, qa_ab[1].cold, 'a') == NULL)
        return;
    for (char session = 'a'; (cold = qa_find(scenario, qa_ab[1].cold, session)); session++)
        add_verdict(scenario,
                    (struct verdict){QA_PROBE_MODELS, 6, cold->result.cached < TEMPLATE_TOKENS},
                    "second-cold %c: another model sees nothing of the first|cached %lld", session,
                    (long long)cold->result.cached);
    check_ab(scenario, &qa_ab[1]);
    check_repeat(scenario, "first-again", 'a', 6,
                 "a second model does not displace the first one's");
}

static void check_restart(struct qa_scenario *scenario)
{
    const struct qa_request *request = qa_find(scenario, "restart", 'a');

    check_repeat(scenario, "restart", 'a', 107, "what was stored survives a restart");
    add_verdict(scenario,
                (struct verdict){QA_PROBE_RESTART, 107,
                                 request->result.cache.ssd + 1 >= request->result.prompt},
                "restart a: it comes from the disk|ssd %lld of %lld",
                (long long)request->result.cache.ssd, (long long)request->result.prompt);
}

static void check_exact(struct qa_scenario *scenario)
{
    const struct ask_result *cold = &qa_find(scenario, "exact-cold", 'a')->result;
    const struct ask_result *warm = &qa_find(scenario, "exact-warm", 'a')->result;
    bool same = str_eq((struct str){buf_str(&cold->text), cold->text.len},
                       (struct str){buf_str(&warm->text), warm->text.len});

    add_verdict(scenario, (struct verdict){QA_PROBE_EXACT, 110, same && cold->text.len > 0},
                "exact-warm a: the text is that of the cold run|%s, %zu bytes",
                same ? "the same" : "another one", warm->text.len);
    add_verdict(scenario, (struct verdict){QA_PROBE_EXACT, 110, cold->cached == 0},
                "exact-cold a: it was computed|cached %lld", (long long)cold->cached);
    /* chunks that end where the prompt does are not those of a longer one */
    check_reuse(scenario, "exact-warm", 'a', 110, warm->prompt - 2 * QA_CHUNK,
                "it was restored, not computed");
}

static void check_limit(struct qa_scenario *scenario)
{
    double asked = (double)scenario->options->ram_bytes;

    add_verdict(scenario, (struct verdict){QA_PROBE_AB, 22, scenario->cap_bytes == asked},
                "the limit that was configured is the cache's|%.0f bytes, asked %.0f",
                scenario->cap_bytes, asked);
}

void qa_check_all(struct qa_scenario *scenario)
{
    for (size_t i = 0; i < scenario->requests_count; i++) {
        const struct qa_request *request = &scenario->requests[i];
        check_answered(scenario, request);
        if (request->result.left) /* it got no usage */
            continue;
        check_usage(scenario, request);
        check_reason(scenario, request);
    }
    check_ab(scenario, &qa_ab[0]);
    check_turns(scenario);
    check_branches(scenario);
    check_models(scenario);
    check_restart(scenario);
    check_exact(scenario);
    check_limit(scenario);
}

bool qa_passed(const struct qa_scenario *scenario)
{
    for (size_t i = 0; i < scenario->checks_count; i++)
        if (!scenario->checks[i].passed)
            return false;
    return scenario->checks_count > 0;
}

bool qa_fell(const struct qa_scenario *scenario, unsigned invariant)
{
    for (size_t i = 0; i < scenario->checks_count; i++)
        if (!scenario->checks[i].passed && scenario->checks[i].invariant == invariant)
            return true;
    return false;
}
