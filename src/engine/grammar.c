/*
 * grammar.c: from tokens to the bytes that gbnf.h reads, and the wait for a trigger.
 *
 * While a grammar waits, the last few bytes of what was generated are kept, one less than the
 * longest trigger has:
 *
 *      ... text that came out <tool_c|all>{"na         tail | piece of the new token
 *                             ^^^^^^^^^^^  a trigger that ends inside the piece
 *
 * The grammar reads the text from the trigger on. If it allows all of it, the wait is over.
 *
 * Thoughts quote triggers, in the characters of ordinary tokens. Models also forget to close a
 * thought before a call, and its trigger is a token of its own then. So inside a thought only a
 * single token starts the grammar.
 *
 * Calls of some models have no opening: only text that the grammar reads from its beginning up to a
 * point, where nothing else would read so, is one. Until the point the match follows the text on
 * trial, with nothing committed; when it refuses the text, the trial is over.
 *
 * Not done here: regular expressions as triggers; choosing when a grammar ends (it allows the end
 * of the generation).
 */
#include "engine/grammar.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <llama.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/gbnf.h"
#include "engine/pieces.h"

enum {
    PIECE_BYTES = 256, /* of a token that are looked at while waiting */
    LIKELY_MAX = 256,
    WINDOW_BYTES = GRAMMAR_TRIGGER_BYTES_MAX + PIECE_BYTES,
    TRIAL_BYTES_MAX = 1024,
};

struct grammar {
    const struct engine *engine;
    struct gbnf *program;
    struct gbnf_match *match; /* at its start while waiting */
    const struct pieces *pieces;
    uint64_t *allowed; /* a bit per token */
    size_t allowed_words;
    bool waiting;
    bool slow; /* a mask of all tokens took too long */
    char *triggers[GRAMMAR_TRIGGERS_MAX];
    size_t triggers_count;
    char *point;        /* NULL = no trials */
    bool trial;         /* the text since the beginning, or since a thought, is the grammar's */
    size_t trial_bytes; /* pushed, not committed */
    char *thought_open, *thought_close; /* NULL = no thoughts */
    bool thinking;
    size_t tail_max; /* bytes of the longest trigger or mark - 1 */
    size_t tail_len;
    char window[WINDOW_BYTES]; /* the tail, and room for a piece */
};

/* ---- asking ---- */

static bool allows(const struct grammar *grammar, token_id token)
{
    char bytes[PIECE_BYTES_MAX];

    if (engine_token_is_end(grammar->engine, token))
        return gbnf_match_whole(grammar->match);
    struct str text = piece_text(grammar->engine, token, bytes);
    return text.len > 0 && gbnf_match_push_token(grammar->match, token, text);
}

/* Whether a token that the grammar names exists, has a text and does not end the generation. */
static bool can_be_named(const struct grammar *grammar, token_id token)
{
    char bytes[PIECE_BYTES_MAX];

    return engine_token_valid(grammar->engine, token) &&
           !engine_token_is_end(grammar->engine, token) &&
           piece_text(grammar->engine, token, bytes).len > 0;
}

static void mark(struct grammar *grammar, token_id token)
{
    grammar->allowed[token / 64] |= (uint64_t)1 << token % 64;
}

/* The tokens that the grammar names here. Two that are excluded exclude nothing. */
static void mark_named(struct grammar *grammar)
{
    const struct pieces *pieces = grammar->pieces;
    bool negated, others = false, all = false;
    token_id token, except = TOKEN_NONE;

    for (uint32_t at = 0; gbnf_match_named(grammar->match, &at, &token, &negated);) {
        if (!negated && can_be_named(grammar, token)) {
            mark(grammar, token);
        } else if (negated) {
            all |= others && token != except;
            others = true;
            except = token;
        }
    }
    for (size_t i = 0; others && i < pieces->count; i++)
        if (all || pieces->list[i].token != except)
            mark(grammar, pieces->list[i].token);
}

/* All tokens in the order of their texts: a prefix that two neighbours share is read once, and
 * after a refused byte all tokens with the same prefix are skipped. Most have a first byte that is
 * refused, and are not even looked at. */
static bool mark_allowed(struct grammar *grammar)
{
    const struct pieces *pieces = grammar->pieces;
    struct gbnf_match *match = grammar->match;
    size_t refused = SIZE_MAX; /* length of the beginning that was */

    gbnf_match_search(match);
    for (size_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        if (piece->shared >= refused)
            continue;
        refused = SIZE_MAX;
        gbnf_match_pop(match, piece->shared);
        for (size_t at = piece->shared; at < piece->len && refused == SIZE_MAX; at++)
            if (!gbnf_match_push(match, (unsigned char)piece->bytes[at]))
                refused = at + 1;
        if (refused == SIZE_MAX)
            mark(grammar, piece->token);
        else if (refused == 1)
            i = pieces->from[(unsigned char)piece->bytes[0] + 1] - 1;
    }
    bool given_up = gbnf_match_search_end(match);
    for (size_t i = 0; i < pieces->ends_count && gbnf_match_whole(match); i++)
        mark(grammar, pieces->ends[i]);
    mark_named(grammar);
    return !given_up;
}

static int by_logit(const void *a, const void *b)
{
    const llama_token_data *left = a, *right = b;

    if (left->logit != right->logit)
        return left->logit < right->logit ? 1 : -1;
    return (left->id > right->id) - (left->id < right->id);
}

/* For a grammar whose mask takes too long: tries the most probable tokens one by one, until
 * LIKELY_MAX are allowed. All others are refused. Returns how many were found. */
static size_t mark_likely(struct grammar *grammar, struct llama_token_data_array *candidates)
{
    struct gbnf_match *match = grammar->match;
    struct errinfo info;
    size_t found = 0;

    memset(grammar->allowed, 0, grammar->allowed_words * sizeof(*grammar->allowed));
    qsort(candidates->data, candidates->size, sizeof(*candidates->data), by_logit);
    gbnf_match_search(match);
    for (size_t i = 0; i < candidates->size && found < LIKELY_MAX; i++) {
        bool allowed = allows(grammar, candidates->data[i].id);
        gbnf_match_pop(match, 0);
        if (allowed)
            mark(grammar, candidates->data[i].id);
        else if (gbnf_match_error(match, &info) != ERR_OK)
            break;
        found += allowed;
    }
    gbnf_match_search_end(match);
    return found;
}

static enum err follow(struct grammar *grammar, token_id token, struct errinfo *info)
{
    if (!allows(grammar, token)) {
        TRY(gbnf_match_error(grammar->match, info));
        return err_set(info, ERR_INVALID, "the grammar does not allow token %d", token);
    }
    return gbnf_match_commit(grammar->match, info);
}

/* ---- waiting ---- */

/* The grammar takes over when it allows all of the text. */
static enum err try_start(struct grammar *grammar, struct str text, struct errinfo *info)
{
    if (!gbnf_match_push_text(grammar->match, text))
        return gbnf_match_error(grammar->match, info);
    grammar->waiting = false;
    return gbnf_match_commit(grammar->match, info);
}

/* Where `text` begins that ends after the tail; SIZE_MAX when it does not. */
static size_t find_new(const struct grammar *grammar, const char *text, size_t window_len)
{
    struct str wanted = str_from(text);
    /* Occurrences inside the tail were seen before, and refused. */
    size_t from = grammar->tail_len - MIN(grammar->tail_len, wanted.len - 1);
    size_t found = str_find((struct str){grammar->window + from, window_len - from}, wanted);

    return found != SIZE_MAX ? from + found : SIZE_MAX;
}

/* Where the first trigger begins; in a thought it must begin after the tail. */
static size_t find_trigger(const struct grammar *grammar, size_t window_len)
{
    size_t first = SIZE_MAX;

    for (size_t i = 0; i < grammar->triggers_count; i++)
        first = MIN(first, find_new(grammar, grammar->triggers[i], window_len));
    return grammar->thinking && first < grammar->tail_len ? SIZE_MAX : first;
}

/* Returns the bytes at the beginning of the window that belong to a thought which ends in it. */
static size_t follow_thought(struct grammar *grammar, size_t window_len)
{
    const char *mark = grammar->thinking ? grammar->thought_close : grammar->thought_open;
    size_t found = mark != NULL ? find_new(grammar, mark, window_len) : SIZE_MAX;

    if (found == SIZE_MAX)
        return 0;
    grammar->thinking = !grammar->thinking;
    return grammar->thinking ? 0 : found + strlen(mark);
}

static void begin_trial(struct grammar *grammar)
{
    gbnf_match_pop(grammar->match, 0);
    grammar->trial = grammar->point != NULL && !grammar->thinking;
    grammar->trial_bytes = 0;
}

/* Continues the trial with the text of a new token. */
static enum err follow_trial(struct grammar *grammar, size_t window_len, struct errinfo *info)
{
    struct str text = {grammar->window + grammar->tail_len, window_len - grammar->tail_len};

    grammar->trial_bytes += text.len;
    if (grammar->trial_bytes > TRIAL_BYTES_MAX || !gbnf_match_push_text(grammar->match, text)) {
        gbnf_match_pop(grammar->match, 0);
        grammar->trial = false;
        return gbnf_match_error(grammar->match, info);
    }
    if (find_new(grammar, grammar->point, window_len) == SIZE_MAX)
        return ERR_OK;
    grammar->waiting = false;
    return gbnf_match_commit(grammar->match, info);
}

static enum err look_for_trigger(struct grammar *grammar, token_id token, struct errinfo *info)
{
    size_t len = engine_token_bytes(grammar->engine, token, true,
                                    grammar->window + grammar->tail_len, PIECE_BYTES);
    size_t window_len = grammar->tail_len + MIN(len, PIECE_BYTES);
    size_t start = find_trigger(grammar, window_len);
    if (grammar->trial && start == SIZE_MAX)
        TRY(follow_trial(grammar, window_len, info));
    if (start != SIZE_MAX) {
        gbnf_match_pop(grammar->match, 0);
        grammar->trial = false;
        TRY(try_start(grammar, (struct str){grammar->window + start, window_len - start}, info));
    }
    size_t past = follow_thought(grammar, window_len);
    if (past > 0)
        begin_trial(grammar);
    grammar->tail_len = MIN(window_len - past, grammar->tail_max);
    memmove(grammar->window, grammar->window + window_len - grammar->tail_len, grammar->tail_len);
    return ERR_OK;
}

/* ---- creating ---- */

static enum err copy_triggers(struct grammar *grammar, const struct sample_params *params,
                              struct errinfo *info)
{
    if (params->grammar_triggers_count > GRAMMAR_TRIGGERS_MAX)
        return err_set(info, ERR_LIMIT, "more than %d grammar triggers", GRAMMAR_TRIGGERS_MAX);
    for (size_t i = 0; i < params->grammar_triggers_count; i++) {
        size_t len = strnlen(params->grammar_triggers[i], GRAMMAR_TRIGGER_BYTES_MAX + 1);
        if (len == 0 || len > GRAMMAR_TRIGGER_BYTES_MAX)
            return err_set(info, ERR_INVALID, "a grammar trigger must have 1 to %d bytes",
                           GRAMMAR_TRIGGER_BYTES_MAX);
        grammar->triggers[grammar->triggers_count++] = mem_strdup(params->grammar_triggers[i]);
        grammar->tail_max = MAX(grammar->tail_max, len - 1);
    }
    grammar->waiting = grammar->triggers_count > 0 || grammar->point != NULL;
    return ERR_OK;
}

static enum err copy_marks(struct grammar *grammar, const struct sample_params *params,
                           struct errinfo *info)
{
    const char *marks[] = {params->grammar_thought_open, params->grammar_thought_close,
                           params->grammar_point};
    char **copies[] = {&grammar->thought_open, &grammar->thought_close, &grammar->point};

    for (size_t i = 0; i < COUNT_OF(marks); i++) {
        size_t len = marks[i] != NULL ? strlen(marks[i]) : 1;
        if (len == 0 || len > GRAMMAR_TRIGGER_BYTES_MAX)
            return err_set(info, ERR_INVALID, "a mark of a lazy grammar must have 1 to %d bytes",
                           GRAMMAR_TRIGGER_BYTES_MAX);
        grammar->tail_max = MAX(grammar->tail_max, len - 1);
        *copies[i] = marks[i] != NULL ? mem_strdup(marks[i]) : NULL;
    }
    grammar->thinking = params->grammar_in_thought;
    return ERR_OK;
}

/* A trigger that the grammar cannot begin with would never start it. */
static enum err check_triggers(const struct grammar *grammar, struct errinfo *info)
{
    for (size_t i = 0; i < grammar->triggers_count; i++) {
        if (!gbnf_match_push_text(grammar->match, str_from(grammar->triggers[i])))
            return err_set(info, ERR_INVALID, "the grammar cannot begin with its trigger '%.64s'",
                           grammar->triggers[i]);
        gbnf_match_pop(grammar->match, 0);
    }
    return ERR_OK;
}

static enum err setup(struct grammar *grammar, const struct sample_params *params,
                      struct errinfo *info)
{
    TRY(gbnf_create(&grammar->program, params->grammar, "root", info));
    TRY(gbnf_match_create(&grammar->match, grammar->program, info));
    TRY(pieces_of(grammar->engine, &grammar->pieces, info));
    grammar->allowed_words = engine_facts(grammar->engine)->vocab / 64 + 1;
    grammar->allowed = mem_try_alloc_array(grammar->allowed_words, sizeof(*grammar->allowed));
    if (grammar->allowed == NULL)
        return err_set(info, ERR_NOMEM, "no memory for the grammar");
    TRY(copy_marks(grammar, params, info));
    TRY(copy_triggers(grammar, params, info));
    begin_trial(grammar);
    return check_triggers(grammar, info);
}

enum err grammar_create(struct grammar **out, const struct engine *engine,
                        const struct sample_params *params, struct errinfo *info)
{
    struct grammar *grammar = mem_alloc(sizeof(*grammar));

    grammar->engine = engine;
    enum err err = setup(grammar, params, info);
    if (err != ERR_OK)
        grammar_destroy(&grammar);
    *out = grammar;
    return err;
}

void grammar_destroy(struct grammar **grammar)
{
    if (*grammar == NULL)
        return;
    for (size_t i = 0; i < (*grammar)->triggers_count; i++)
        mem_free((*grammar)->triggers[i]);
    mem_free((*grammar)->thought_open);
    mem_free((*grammar)->thought_close);
    mem_free((*grammar)->point);
    gbnf_match_destroy(&(*grammar)->match);
    gbnf_destroy(&(*grammar)->program);
    mem_free((*grammar)->allowed);
    mem_free(*grammar);
    *grammar = NULL;
}

bool grammar_allows(const struct grammar *grammar, token_id token)
{
    if (grammar->waiting)
        return true;
    bool allowed = allows(grammar, token);
    gbnf_match_pop(grammar->match, 0);
    return allowed;
}

enum err grammar_allowed(struct grammar *grammar, const uint64_t **allowed, struct errinfo *info)
{
    assert(!grammar->waiting);
    memset(grammar->allowed, 0, grammar->allowed_words * sizeof(*grammar->allowed));
    grammar->slow = grammar->slow || !mark_allowed(grammar);
    *allowed = grammar->slow ? NULL : grammar->allowed;
    return grammar->slow ? ERR_OK : gbnf_match_error(grammar->match, info);
}

enum err grammar_mask(struct grammar *grammar, struct llama_token_data_array *candidates,
                      struct errinfo *info)
{
    const uint64_t *allowed;

    if (grammar->waiting)
        return ERR_OK;
    TRY(grammar_allowed(grammar, &allowed, info));
    if (allowed == NULL && mark_likely(grammar, candidates) == 0)
        return err_set(info, ERR_INVALID,
                       "the grammar is too ambiguous: a token takes too many steps");
    TRY(gbnf_match_error(grammar->match, info));
    for (size_t i = 0; i < candidates->size; i++) {
        token_id token = candidates->data[i].id;
        if ((grammar->allowed[token / 64] >> token % 64 & 1) == 0)
            candidates->data[i].logit = -INFINITY;
    }
    return ERR_OK;
}

enum err grammar_accept(struct grammar *grammar, token_id token, struct errinfo *info)
{
    return grammar->waiting ? look_for_trigger(grammar, token, info) : follow(grammar, token, info);
}
