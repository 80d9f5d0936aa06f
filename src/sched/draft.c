/*
 * draft.c: see the header.
 *
 * HISTORY finds the last tokens in an index of the sequence: a hash table of all runs of GRAM
 * tokens, and for each position the one before it with the same hash. A few candidates are
 * compared, and the longest match is followed until it fails:
 *
 *      heads[hash of the last GRAM tokens] -> position -> earlier[position] -> ...
 *
 * A text that is left can be found again: an edit inserts or removes some tokens and continues.
 * So the last GRAM tokens are searched in its neighbourhood.
 */
#include "sched/draft.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"

enum {
    GRAM = 3,
    CANDIDATES = 8,
    MATCH_MAX = 32, /* longer ones are not told apart */
    MATCH_SHORT = 6,
    MATCH_LONG = 16,
    RESYNC_BACK = 32,
    RESYNC_AHEAD = 256,
    HEADS_MIN = 1024,
};

#define NO_PLACE UINT32_MAX

/* Guesses that a mean is made of: of one sequence, of all; and those that the mean of all counts for
 * in a new sequence. */
static const double own_guesses = 32, shared_guesses = 512, prior_guesses = 8;
/* How fast costs follow. */
static const double cost_weight = 1.0 / 8;
/* A draft must gain as much, and a longer one as much more, or it is not worth the noise of the
 * measurement. */
static const double gain_min = 1.03, longer_gain = 1.005;
/* A token more in a batch, as a part of the batch, as long as that is not measured. */
static const double token_part = 0.2;
/* What a token beyond the widest measured step is hoped to take, as a part of what the last ones take.
 * Some matrix products are faster from a certain width on: on a CPU with weights in q4_0, steps of 16
 * and 32 tokens take as long per token, those of 64 a fifth less. */
static const double hoped_part = 0.75;
/* After so many narrower steps, a measurement is no reason against a try. */
static const double age_max = 64;
/* Tries must promise so much more than what is known, may cost this part of all steps, and so many
 * steps at once. */
static const double try_gain = 1.1, try_part = 1.0 / 200, try_steps = 2;

struct reference {
    token_id *tokens;
    uint32_t count, at; /* at: the next one */
    bool synced;
};

struct draft {
    struct draft_rates rates;
    struct reference references[2]; /* DRAFT_TREE, DRAFT_PREDICTION */
    bool lost_tree;
    /* the index */
    uint32_t *heads, *earlier; /* places after a run of GRAM tokens */
    uint32_t heads_count, indexed, capacity;
    bool dead; /* no memory */
    /* HISTORY: the next token is that at `place`; `matched` tokens before it are equal */
    uint32_t place, matched;
    /* what was guessed last */
    enum draft_source source;
    token_id guessed; /* TOKEN_NONE: nothing */
};

struct draft_rates draft_rates_default(void)
{
    return (struct draft_rates){{[DRAFT_TREE] = {0.9, prior_guesses},
                                 [DRAFT_PREDICTION] = {0.8, prior_guesses},
                                 [DRAFT_HISTORY_SHORT] = {0.3, prior_guesses},
                                 [DRAFT_HISTORY] = {0.6, prior_guesses},
                                 [DRAFT_HISTORY_LONG] = {0.8, prior_guesses}}};
}

struct draft *draft_create(const struct draft_rates *rates)
{
    struct draft *draft = mem_try_alloc(sizeof(*draft));

    if (draft == NULL)
        return NULL;
    *draft = (struct draft){.rates = *rates, .place = NO_PLACE, .guessed = TOKEN_NONE};
    for (size_t i = 0; i < COUNT_OF(draft->rates.of); i++)
        draft->rates.of[i].count = MIN(draft->rates.of[i].count, prior_guesses);
    return draft;
}

void draft_destroy(struct draft **draft)
{
    if (*draft == NULL)
        return;
    for (size_t i = 0; i < COUNT_OF((*draft)->references); i++)
        mem_free((*draft)->references[i].tokens);
    mem_free((*draft)->heads);
    mem_free((*draft)->earlier);
    mem_free(*draft);
    *draft = NULL;
}

/* ---- texts ---- */

static void guess_one(struct draft *draft, const token_id *tokens);

void draft_expect(struct draft *draft, enum draft_source source, const token_id *tokens,
                  uint32_t count)
{
    struct reference *reference = &draft->references[source];

    assert(source < COUNT_OF(draft->references));
    mem_free(reference->tokens);
    *reference = (struct reference){.tokens = mem_try_alloc_array(count, sizeof(*tokens))};
    if (reference->tokens != NULL) {
        memcpy(reference->tokens, tokens, count * sizeof(*tokens));
        reference->count = count;
        reference->synced = count > 0;
    }
    guess_one(draft, NULL);
}

/* Finds the last tokens near the place where the text was left. */
static void resync(struct reference *reference, const token_id *last)
{
    uint32_t begin = reference->at - MIN(reference->at, RESYNC_BACK);
    uint32_t end = MIN(reference->count, reference->at + RESYNC_AHEAD);

    for (uint32_t i = begin; i + GRAM < end; i++) {
        if (memcmp(reference->tokens + i, last, GRAM * sizeof(*last)) != 0)
            continue;
        reference->at = i + GRAM;
        reference->synced = true;
        return;
    }
}

static void follow_reference(struct reference *reference, const token_id *tokens, uint32_t count)
{
    if (reference->synced && reference->tokens[reference->at] == tokens[count - 1]) {
        reference->at++;
        reference->synced = reference->at < reference->count;
        return;
    }
    reference->synced = false;
    if (count >= GRAM)
        resync(reference, tokens + count - GRAM);
}

/* ---- the index ---- */

static uint32_t hash_of(const struct draft *draft, const token_id *gram)
{
    uint64_t hash = UINT64_C(0x9E3779B97F4A7C15);

    for (int i = 0; i < GRAM; i++)
        hash = (hash ^ (uint32_t)gram[i]) * UINT64_C(0xFF51AFD7ED558CCD);
    return (uint32_t)(hash >> 32) & (draft->heads_count - 1);
}

static void add_place(struct draft *draft, const token_id *tokens, uint32_t place)
{
    uint32_t *head = &draft->heads[hash_of(draft, tokens + place - GRAM)];

    draft->earlier[place] = *head;
    *head = place;
}

/* Room for places up to `count`; the table is rebuilt when it doubles. */
static bool make_room(struct draft *draft, const token_id *tokens, uint32_t count)
{
    if (count < draft->capacity)
        return true;
    uint32_t capacity = HEADS_MIN;
    while (capacity <= count)
        capacity *= 2;
    uint32_t *earlier = mem_try_realloc(draft->earlier, capacity * sizeof(*earlier));
    if (earlier != NULL)
        draft->earlier = earlier;
    uint32_t *heads = mem_try_realloc(draft->heads, capacity * sizeof(*heads));
    if (heads != NULL)
        draft->heads = heads;
    if (heads == NULL || earlier == NULL)
        return false;
    draft->capacity = draft->heads_count = capacity;
    memset(heads, 0xff, capacity * sizeof(*heads)); /* NO_PLACE */
    for (uint32_t place = GRAM; place <= draft->indexed; place++)
        add_place(draft, tokens, place);
    return true;
}

/* How many tokens before `place` and before `count` are equal. */
static uint32_t match_length(const token_id *tokens, uint32_t place, uint32_t count)
{
    uint32_t length = 0, most = MIN(place, MATCH_MAX);

    while (length < most && tokens[place - 1 - length] == tokens[count - 1 - length])
        length++;
    return length;
}

/* The place whose preceding tokens equal the last ones for the longest; the latest of equals. */
static void search(struct draft *draft, const token_id *tokens, uint32_t count)
{
    uint32_t place = draft->heads[hash_of(draft, tokens + count - GRAM)];

    draft->place = NO_PLACE;
    draft->matched = GRAM - 1;
    for (int i = 0; i < CANDIDATES && place != NO_PLACE; i++) {
        uint32_t length = match_length(tokens, place, count);
        if (length > draft->matched) {
            draft->place = place;
            draft->matched = length;
        }
        place = draft->earlier[place];
    }
}

static void follow_history(struct draft *draft, const token_id *tokens, uint32_t count)
{
    if (draft->place != NO_PLACE && tokens[draft->place] == tokens[count - 1]) {
        draft->place++;
        draft->matched++;
    } else {
        draft->place = NO_PLACE;
    }
    if (draft->dead || !make_room(draft, tokens, count)) {
        draft->dead = true;
        draft->place = NO_PLACE;
        return;
    }
    for (uint32_t place = MAX(draft->indexed + 1, GRAM); place < count; place++)
        add_place(draft, tokens, place);
    if (draft->place == NO_PLACE && count >= GRAM)
        search(draft, tokens, count); /* before the last tokens are found themselves */
    if (count >= GRAM)
        add_place(draft, tokens, count);
    draft->indexed = count;
}

/* ---- guesses ---- */

static enum draft_source history_source(uint32_t matched)
{
    return matched < MATCH_SHORT  ? DRAFT_HISTORY_SHORT
           : matched < MATCH_LONG ? DRAFT_HISTORY
                                  : DRAFT_HISTORY_LONG;
}

/* Chooses the best source for the next token. */
static void guess_one(struct draft *draft, const token_id *tokens)
{
    double best = -1;

    draft->guessed = TOKEN_NONE;
    for (size_t i = 0; i < COUNT_OF(draft->references); i++) {
        const struct reference *reference = &draft->references[i];
        if (reference->synced && draft->rates.of[i].mean > best) {
            best = draft->rates.of[i].mean;
            draft->source = (enum draft_source)i;
            draft->guessed = reference->tokens[reference->at];
        }
    }
    enum draft_source history = history_source(draft->matched);
    if (tokens != NULL && draft->place != NO_PLACE && draft->rates.of[history].mean > best) {
        draft->source = history;
        draft->guessed = tokens[draft->place];
    }
}

static void learn(struct draft_rate *rate, bool right, double guesses)
{
    rate->count = MIN(rate->count + 1, guesses);
    rate->mean += ((right ? 1.0 : 0.0) - rate->mean) / rate->count;
}

/* One standard error below the mean: drafts are made where the mean is high, and so is its error. */
static double chance_of(const struct draft_rate *rate)
{
    return MAX(rate->mean - sqrt(rate->mean * (1 - rate->mean) / rate->count), 0);
}

void draft_follow(struct draft *draft, const token_id *tokens, uint32_t count,
                  struct draft_rates *shared)
{
    struct reference *tree = &draft->references[DRAFT_TREE];
    bool had_tree = tree->synced;

    assert(count > 0);
    if (draft->guessed != TOKEN_NONE) {
        bool right = draft->guessed == tokens[count - 1];
        learn(&draft->rates.of[draft->source], right, own_guesses);
        learn(&shared->of[draft->source], right, shared_guesses);
    }
    for (size_t i = 0; i < COUNT_OF(draft->references); i++)
        follow_reference(&draft->references[i], tokens, count);
    draft->lost_tree = had_tree && !tree->synced;
    follow_history(draft, tokens, count);
    guess_one(draft, tokens);
}

bool draft_lost_tree(const struct draft *draft)
{
    return draft->lost_tree;
}

uint32_t draft_guess(const struct draft *draft, const token_id *tokens, uint32_t count,
                     token_id *next, uint32_t max, double *chance)
{
    if (draft->guessed == TOKEN_NONE)
        return 0;
    bool history = draft->source >= COUNT_OF(draft->references);
    const struct reference *reference = &draft->references[history ? 0 : draft->source];
    const token_id *from = history ? tokens + draft->place : reference->tokens + reference->at;
    uint32_t found = history ? count - draft->place : reference->count - reference->at;

    found = MIN(found, max);
    *chance = chance_of(&draft->rates.of[draft->source]);
    memcpy(next, from, found * sizeof(*next));
    return found;
}

/* ---- what batches cost ---- */

/* Each width up to 16, then two classes between powers of two. */
static unsigned class_of(uint32_t width)
{
    unsigned log = 31 - (unsigned)__builtin_clz(MAX(width, 1));

    return width <= 16 ? MAX(width, 1) - 1
                       : MIN(16 + 2 * (log - 4) + (width >> (log - 1) & 1), DRAFT_WIDTHS - 1);
}

static bool is_known(const struct draft_cost *cost, size_t class)
{
    return cost->of[class].samples >= DRAFT_COST_SAMPLES;
}

static void learn_class(struct draft_cost *cost, unsigned class, double width, double now)
{
    double *at = &cost->of[class].ns, *mean = &cost->of[class].width;
    double weight = MAX(cost_weight, MIN(cost->of[class].age / age_max, 1));

    cost->of[class].age = 0;
    /* The first steps of a width also allocate; the best of them is the truth. */
    if (!is_known(cost, class)) {
        bool better = cost->of[class].samples == 0 || now / width < *at / *mean;
        *at = better ? now : *at;
        *mean = better ? width : *mean;
        cost->of[class].samples++;
        return;
    }
    /* If the thread was not scheduled for a while, that says nothing. */
    now = MIN(now, 2 * *at);
    *at += (now - *at) * weight;
    *mean += (width - *mean) * weight;
}

/* The first step after drafts, or after a change of width, takes longer than the next ones. */
static bool is_steady(struct draft_cost *cost, uint32_t width, unsigned class, double now)
{
    double longer = now - cost->of[class].ns;
    bool after_drafts = cost->last_guesses > 0;

    if (!is_known(cost, class) || (!after_drafts && cost->last_width == width))
        return true;
    if (after_drafts)
        cost->back_ns += (MIN(longer, cost->of[class].ns) - cost->back_ns) * cost_weight;
    return longer < 0;
}

void draft_cost_learn(struct draft_cost *cost, uint32_t width, uint32_t guesses, uint64_t ns)
{
    double plain = width - guesses, plain_ns = draft_cost_ns(cost, plain, plain, false);
    unsigned class = class_of(width);

    cost->spent = MAX(cost->spent - try_part, 0);
    if (guesses > 0 && cost->trying && plain_ns > 0)
        cost->spent = MIN(cost->spent + MAX((double)ns / plain_ns - 1, 0), 4 * try_steps);
    for (size_t wider = class + 1; wider < DRAFT_WIDTHS; wider++)
        cost->of[wider].age++;
    if (guesses > 0 || is_steady(cost, width, class, (double)ns))
        learn_class(cost, class, width, (double)ns);
    cost->last_width = width;
    cost->last_guesses = guesses;
}

void draft_cost_accept(struct draft_cost *cost, uint32_t answers)
{
    if (cost->trying)
        cost->spent = MAX(cost->spent - 1.0 / answers, 0);
}

struct draft_cost *draft_costs_of(struct draft_costs *costs, uint32_t answers)
{
    unsigned crowd = 31 - (unsigned)__builtin_clz(MAX(answers, 1));

    return &costs->of[MIN(crowd, DRAFT_CROWDS - 1)];
}

/* Those of other answers have a step of another kind between theirs. */
static void pause_others(struct draft_costs *costs, const struct draft_cost *cost)
{
    for (size_t i = 0; i < DRAFT_CROWDS; i++)
        if (&costs->of[i] != cost)
            costs->of[i].last_width = costs->of[i].last_guesses = 0;
}

void draft_costs_learn(struct draft_costs *costs, uint32_t width, uint32_t guesses, uint64_t ns)
{
    struct draft_cost *cost = draft_costs_of(costs, width - guesses);

    pause_others(costs, cost);
    draft_cost_learn(cost, width, guesses, ns);
}

void draft_costs_pause(struct draft_costs *costs)
{
    pause_others(costs, NULL);
}

double draft_cost_ns(const struct draft_cost *cost, double width, double plain, bool hope)
{
    double x = 0, y = 0, slope = 0; /* the last known class below, and the line to the next */

    for (size_t i = 0; i < DRAFT_WIDTHS; i++) {
        if (!is_known(cost, i))
            continue;
        double next_x = cost->of[i].width, next_y = MAX(cost->of[i].ns, y);
        if (hope && x > 0) { /* as hoped, the more the older the measurement is */
            double hoped = MIN(y + slope * (next_x - x), next_y);
            next_y += (hoped - next_y) * MIN(cost->of[i].age / age_max, 1);
        }
        slope = x > 0 ? (next_y - y) / (next_x - x) : next_y / next_x * token_part;
        /* Between a step without drafts and one with them is no line, but a jump. */
        if (next_x >= width)
            return x == 0 || (!hope && x <= plain && plain < width) ? next_y
                                                                    : y + slope * (width - x);
        x = next_x;
        y = next_y;
    }
    return hope || width <= plain ? y + slope * (hope ? hoped_part : 1) * (width - x) : INFINITY;
}

/* Widths that may be tried: not far beyond those whose cost is known. */
static double widest(const struct draft_cost *cost)
{
    double width = 1;

    for (size_t i = 0; i < DRAFT_WIDTHS; i++)
        if (is_known(cost, i))
            width = cost->of[i].width;
    return width * 4;
}

/* The best length, 0: none is clearly better than none. *speed: tokens by nanoseconds. */
static uint32_t best_length(const struct draft_cost *cost, struct draft_batch *batch, double chance,
                            uint32_t max, bool hope, double *speed)
{
    double now_ns = draft_cost_ns(cost, batch->width, batch->plain, hope);
    double back_ns = batch->width > batch->plain ? 0 : MAX(cost->back_ns, 0);
    double right = 1, yield = batch->yield, width_max = MAX(widest(cost), batch->width);
    struct draft_batch from = *batch;
    uint32_t length = 0;

    *speed = now_ns > 0 ? yield / now_ns * gain_min : INFINITY;
    for (uint32_t i = 1; i <= max && from.width + i <= width_max; i++) {
        right *= chance;
        yield += right;
        if ((i & (i + 1)) != 0 && i != max)
            continue;
        double ns = draft_cost_ns(cost, from.width + i, from.plain, hope) + i * cost->guess_ns;
        double with = yield / (ns + back_ns * (1 - right));
        if (with <= *speed * longer_gain)
            continue;
        *speed = with;
        length = i;
        *batch = (struct draft_batch){from.plain, from.width + i, yield, from.trying || hope};
    }
    return length;
}

uint32_t draft_length(const struct draft_cost *cost, struct draft_batch *batch, double chance,
                      uint32_t max)
{
    struct draft_batch hoped = *batch;
    double speed, hoped_speed;
    uint32_t length = best_length(cost, batch, chance, max, false, &speed);
    uint32_t other = best_length(cost, &hoped, chance, max, true, &hoped_speed);

    if (other == 0 || cost->spent >= try_steps || hoped_speed < speed * try_gain)
        return length;
    *batch = hoped;
    return other;
}
