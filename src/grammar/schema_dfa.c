/*
 * schema_dfa.c: patterns as one deterministic automaton, and its texts as rules. For what a tree of
 * a pattern cannot say: lengths beside it, several patterns at once, texts that match none.
 *
 *      patterns --nfa--> states with labels --dfa--> sets of states: which labels does a text get?
 *               --write--> one rule per state (and length), which recurses at its end only:
 *                          s3 ::= [a-z] s4 | [0-9] s3 | ""
 *
 * A pattern without ^ matches anywhere, so its automaton begins with a loop over all characters; a
 * ^ is passed before the first character only. A $ is kept in a set and passed only when the
 * text ends. Characters are cut into ranges (atoms) whose members all patterns treat alike.
 */
#include "grammar/schema_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/schema_chars.h"

enum {
    NFA_MAX = 4096,
    DFA_MAX = 1500,
    SLOTS = 4096,
    ATOMS_MAX = 512,
    PRODUCT_MAX = 200 * 1000, /* states with lengths */
    RULES_MAX = 1000,         /* of one text */
    ARENA_BYTES_MAX = 8 << 20,
    NONE = UINT16_MAX,
};

enum step { STEP_CHARS, STEP_SPLIT, STEP_BEGIN, STEP_END, STEP_LABEL };

struct nfa_state {
    enum step step;
    uint16_t next, other; /* `other` of a split, or the label */
    const struct schema_chars *chars;
};

struct dfa_state {
    uint64_t *set; /* of states of the NFA */
    uint32_t labels;
    uint16_t *to; /* per atom; NONE: no text gets any label from there */
};

struct schema_dfa {
    struct arena arena; /* of all that it has, itself too */
    struct schema_compiler *c;
    const struct schema_place *place;
    struct nfa_state nfa[NFA_MAX];
    size_t nfa_count, words; /* words: of a set */
    uint16_t starts[SCHEMA_LABELS_MAX];
    size_t starts_count;
    struct schema_chars any;
    uint32_t atoms[ATOMS_MAX + 1]; /* where each begins; the last one is the end of all */
    size_t atoms_count;
    struct dfa_state states[DFA_MAX];
    size_t count;
    uint16_t slots[SLOTS]; /* hash table of the states: index + 1; 0 = empty */
    uint16_t stack[NFA_MAX];
};

static enum err too_large(struct schema_dfa *dfa)
{
    return schema_refuse(dfa->c, dfa->place, ERR_UNSUPPORTED,
                         "this pattern, with its lengths and other patterns or names beside it, "
                         "needs too large a grammar; make it simpler or leave a part out");
}

static enum err no_room(struct schema_dfa *dfa)
{
    return dfa->arena.err == ERR_LIMIT ? too_large(dfa) : schema_no_memory(dfa->c);
}

/* ---- patterns to an NFA: each part is built in front of what follows it ---- */

static enum err add(struct schema_dfa *dfa, struct nfa_state state, uint16_t *at)
{
    if (dfa->nfa_count == NFA_MAX)
        return too_large(dfa);
    *at = (uint16_t)dfa->nfa_count++;
    dfa->nfa[*at] = state;
    return ERR_OK;
}

static enum err build(struct schema_dfa *dfa, const struct schema_node *node, uint16_t next,
                      uint16_t *at);

static enum err build_list(struct schema_dfa *dfa, const struct schema_node *node, uint16_t next,
                           uint16_t *at)
{
    if (node == NULL) {
        *at = next;
        return ERR_OK;
    }
    TRY(build_list(dfa, node->next, next, at));
    return build(dfa, node, *at, at);
}

static enum err build_alternatives(struct schema_dfa *dfa, const struct schema_node *node,
                                   uint16_t next, uint16_t *at)
{
    uint16_t one;

    TRY(build(dfa, node, next, at));
    for (node = node->next; node != NULL; node = node->next) {
        TRY(build(dfa, node, next, &one));
        TRY(add(dfa, (struct nfa_state){STEP_SPLIT, one, *at, NULL}, at));
    }
    return ERR_OK;
}

static enum err build_repeat(struct schema_dfa *dfa, const struct schema_node *node, uint16_t next,
                             uint16_t *at)
{
    uint16_t body, end = next;

    *at = next;
    if (node->max == SCHEMA_FOREVER) {
        TRY(add(dfa, (struct nfa_state){STEP_SPLIT, 0, next, NULL}, at));
        TRY(build(dfa, node->first, *at, &body));
        dfa->nfa[*at].next = body;
    } else {
        for (uint32_t i = node->min; i < node->max; i++) {
            TRY(build(dfa, node->first, *at, &body));
            TRY(add(dfa, (struct nfa_state){STEP_SPLIT, body, end, NULL}, at));
        }
    }
    for (uint32_t i = 0; i < node->min; i++)
        TRY(build(dfa, node->first, *at, at));
    return ERR_OK;
}

static enum err build(struct schema_dfa *dfa, const struct schema_node *node, uint16_t next,
                      uint16_t *at)
{
    switch (node->kind) {
    case SCHEMA_NODE_CHARS:
        return add(dfa, (struct nfa_state){STEP_CHARS, next, 0, node->chars}, at);
    case SCHEMA_NODE_SEQ:
        return build_list(dfa, node->first, next, at);
    case SCHEMA_NODE_ALT:
        return build_alternatives(dfa, node->first, next, at);
    case SCHEMA_NODE_REPEAT:
        return build_repeat(dfa, node, next, at);
    default:
        return add(dfa,
                   (struct nfa_state){node->kind == SCHEMA_NODE_BEGIN ? STEP_BEGIN : STEP_END, next,
                                      0, NULL},
                   at);
    }
}

/* (any)* before or after `next`: a state that loops over all characters. */
static enum err build_any(struct schema_dfa *dfa, uint16_t next, uint16_t *at)
{
    uint16_t loop = 0;

    TRY(add(dfa, (struct nfa_state){STEP_SPLIT, next, 0, NULL}, at));
    TRY(add(dfa, (struct nfa_state){STEP_CHARS, *at, 0, &dfa->any}, &loop));
    dfa->nfa[*at].other = loop;
    return ERR_OK;
}

static enum err build_name(struct schema_dfa *dfa, struct str name, uint16_t next, uint16_t *start)
{
    const char *at = name.ptr, *end = name.ptr + name.len;
    uint16_t first = next, last = NONE, state = NONE;

    while (at < end) {
        struct schema_chars *chars = arena_alloc(&dfa->arena, sizeof(*chars));
        uint32_t code = utf8_next(&at, end);
        if (chars == NULL)
            return no_room(dfa);
        if (!schema_chars_add(chars, code, code))
            return too_large(dfa);
        TRY(add(dfa, (struct nfa_state){STEP_CHARS, next, 0, chars}, &state));
        if (last == NONE)
            first = state;
        else
            dfa->nfa[last].next = state;
        last = state;
    }
    return add(dfa, (struct nfa_state){STEP_SPLIT, first, *start, NULL}, start);
}

static enum err build_texts(struct schema_dfa *dfa, const struct schema_texts *texts,
                            uint16_t label)
{
    struct schema_node *node;
    uint16_t *start = &dfa->starts[label], end;

    dfa->place = texts->place;
    TRY(add(dfa, (struct nfa_state){STEP_LABEL, 0, label, NULL}, &end));
    if (texts->pattern.ptr != NULL) {
        TRY(schema_parse_regex(dfa->c, texts->place, texts->pattern, &node));
        if (dfa->c->plain)
            return build(dfa, node, end, start);
        TRY(build_any(dfa, end, &end));
        TRY(build(dfa, node, end, start));
        return build_any(dfa, *start, start);
    }
    /* A state from which nothing follows begins the list of names. */
    TRY(add(dfa, (struct nfa_state){STEP_END, 0, 0, NULL}, start));
    dfa->nfa[*start].next = *start;
    for (size_t i = 0; i < texts->names_count; i++)
        TRY(build_name(dfa, texts->names[i], end, start));
    return ERR_OK;
}

/* ---- atoms ---- */

static int compare_codes(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* The characters that JSON writes in its own way are atoms by themselves. */
static enum err cut_atoms(struct schema_dfa *dfa)
{
    static const uint32_t special[] = {
        0,   '\b', '\b' + 1, '\t',   '\n',   '\n' + 1,           '\f', '\r', '\r' + 1, ' ', '"',
        '#', '\\', ']',      0xD800, 0xE000, SCHEMA_CHAR_MAX + 1};
    size_t count = COUNT_OF(special), kept = 0;

    for (size_t i = 0; i < dfa->nfa_count; i++)
        count += dfa->nfa[i].chars != NULL ? 2 * dfa->nfa[i].chars->count : 0;
    uint32_t *codes = arena_alloc_array(&dfa->arena, count, sizeof(*codes));
    if (codes == NULL)
        return no_room(dfa);
    memcpy(codes, special, sizeof(special));
    count = COUNT_OF(special);
    for (size_t i = 0; i < dfa->nfa_count; i++)
        for (size_t k = 0; dfa->nfa[i].chars != NULL && k < dfa->nfa[i].chars->count; k++) {
            codes[count++] = dfa->nfa[i].chars->ranges[k].low;
            codes[count++] = dfa->nfa[i].chars->ranges[k].high + 1;
        }
    qsort(codes, count, sizeof(*codes), compare_codes);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && codes[i] == dfa->atoms[kept - 1])
            continue;
        if (kept > ATOMS_MAX)
            return too_large(dfa);
        dfa->atoms[kept++] = codes[i];
    }
    dfa->atoms_count = kept - 1;
    return ERR_OK;
}

static size_t atom_of(const struct schema_dfa *dfa, uint32_t code)
{
    size_t i = 0;

    while (i + 1 < dfa->atoms_count && dfa->atoms[i + 1] <= code)
        i++;
    return i;
}

/* ---- sets of states ---- */

static bool has(const uint64_t *set, size_t at)
{
    return (set[at / 64] >> (at % 64)) & 1;
}

static void push(struct schema_dfa *dfa, uint64_t *set, uint16_t at, size_t *depth)
{
    if (has(set, at))
        return;
    set[at / 64] |= UINT64_C(1) << (at % 64);
    dfa->stack[(*depth)++] = at;
}

enum { PASS_NONE = 0, PASS_BEGIN = 1 << STEP_BEGIN, PASS_END = 1 << STEP_END };

/* Adds what can be reached from `at` without a character, through the given anchors. */
static void close_over(struct schema_dfa *dfa, uint64_t *set, uint16_t at, unsigned anchors)
{
    size_t depth = 0;

    push(dfa, set, at, &depth);
    while (depth > 0) {
        const struct nfa_state *state = &dfa->nfa[dfa->stack[--depth]];
        ++*dfa->c->work;
        if (state->step == STEP_SPLIT || (anchors >> state->step & 1))
            push(dfa, set, state->next, &depth);
        if (state->step == STEP_SPLIT)
            push(dfa, set, state->other, &depth);
    }
}

/* The labels of a text that ends here. */
static uint32_t labels_of(struct schema_dfa *dfa, const uint64_t *set, uint64_t *scratch,
                          unsigned anchors)
{
    uint32_t labels = 0;

    memset(scratch, 0, dfa->words * sizeof(*scratch));
    for (size_t i = 0; i < dfa->nfa_count; i++)
        if (has(set, i))
            close_over(dfa, scratch, (uint16_t)i, anchors);
    for (size_t i = 0; i < dfa->nfa_count; i++)
        if (has(scratch, i) && dfa->nfa[i].step == STEP_LABEL)
            labels |= UINT32_C(1) << dfa->nfa[i].other;
    return labels;
}

/* The state of a set, which is copied if it is new. NONE: the set is empty. */
static enum err find_state(struct schema_dfa *dfa, const uint64_t *set, uint64_t *scratch,
                           uint16_t *at)
{
    size_t bytes = dfa->words * sizeof(*set);
    uint64_t any = 0, hash = 0;

    for (size_t i = 0; i < dfa->words; i++) {
        any |= set[i];
        hash = (hash ^ set[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    *at = NONE;
    if (any == 0)
        return ERR_OK;
    for (; dfa->slots[hash % SLOTS] != 0; hash++) {
        *at = dfa->slots[hash % SLOTS] - 1;
        if (memcmp(dfa->states[*at].set, set, bytes) == 0)
            return ERR_OK;
    }
    if (dfa->count == DFA_MAX || *dfa->c->work > SCHEMA_WORK_MAX)
        return too_large(dfa);
    struct dfa_state *state = &dfa->states[dfa->count];
    state->set = arena_alloc(&dfa->arena, bytes);
    state->to = arena_alloc_array(&dfa->arena, dfa->atoms_count, sizeof(*state->to));
    if (state->set == NULL || state->to == NULL)
        return no_room(dfa);
    memcpy(state->set, set, bytes);
    state->labels = labels_of(dfa, set, scratch, PASS_END);
    *at = (uint16_t)dfa->count++;
    dfa->slots[hash % SLOTS] = *at + 1;
    return ERR_OK;
}

/* Per atom, the states of the NFA that its characters lead on from. */
static uint64_t *make_takers(struct schema_dfa *dfa)
{
    uint64_t *takers =
        arena_alloc_array(&dfa->arena, dfa->atoms_count * dfa->words, sizeof(*takers));

    for (size_t a = 0; takers != NULL && a < dfa->atoms_count; a++)
        for (size_t i = 0; i < dfa->nfa_count; i++)
            if (dfa->nfa[i].step == STEP_CHARS &&
                schema_chars_has(dfa->nfa[i].chars, dfa->atoms[a]))
                takers[a * dfa->words + i / 64] |= UINT64_C(1) << (i % 64);
    return takers;
}

/* The states after a character of an atom, in `set`. */
static void advance(struct schema_dfa *dfa, const uint64_t *from, const uint64_t *takers,
                    uint64_t *set)
{
    memset(set, 0, dfa->words * sizeof(*set));
    for (size_t w = 0; w < dfa->words; w++)
        for (uint64_t bits = from[w] & takers[w]; bits != 0; bits &= bits - 1)
            close_over(dfa, set, dfa->nfa[w * 64 + (size_t)__builtin_ctzll(bits)].next, PASS_NONE);
    *dfa->c->work += 2 * dfa->words; /* find_state follows */
}

static enum err determine(struct schema_dfa *dfa)
{
    uint64_t *set = arena_alloc_array(&dfa->arena, dfa->words, sizeof(*set));
    uint64_t *scratch = arena_alloc_array(&dfa->arena, dfa->words, sizeof(*scratch));
    uint64_t *takers = make_takers(dfa);
    uint16_t first;

    if (set == NULL || scratch == NULL || takers == NULL)
        return no_room(dfa);
    for (size_t i = 0; i < dfa->starts_count; i++)
        close_over(dfa, set, dfa->starts[i], PASS_BEGIN);
    TRY(find_state(dfa, set, scratch, &first));
    if (first == NONE)
        return ERR_OK;
    /* The empty text ends where it begins. If that makes a difference, only its state has it. */
    uint32_t labels = labels_of(dfa, set, scratch, PASS_BEGIN | PASS_END);
    if (labels != dfa->states[first].labels)
        memset(dfa->slots, 0, sizeof(dfa->slots));
    dfa->states[first].labels = labels;
    for (size_t s = 0; s < dfa->count; s++)
        for (size_t a = 0; a < dfa->atoms_count; a++) {
            advance(dfa, dfa->states[s].set, takers + a * dfa->words, set);
            TRY(find_state(dfa, set, scratch, &dfa->states[s].to[a]));
        }
    return ERR_OK;
}

enum err schema_dfa_create(struct schema_compiler *c, const struct schema_texts *texts,
                           size_t count, struct schema_dfa **out)
{
    struct arena arena;

    arena_init(&arena, ARENA_BYTES_MAX);
    struct schema_dfa *dfa = arena_alloc(&arena, sizeof(*dfa));
    *out = dfa;
    if (dfa == NULL) {
        arena_fini(&arena);
        return schema_no_memory(c);
    }
    assert(count <= SCHEMA_LABELS_MAX);
    dfa->arena = arena;
    dfa->c = c;
    bool ok = schema_chars_add(&dfa->any, 0, SCHEMA_CHAR_MAX);
    assert(ok);
    for (size_t i = 0; i < count; i++)
        TRY(build_texts(dfa, &texts[i], (uint16_t)i));
    dfa->starts_count = count;
    dfa->words = dfa->nfa_count / 64 + 1;
    TRY(cut_atoms(dfa));
    return determine(dfa);
}

void schema_dfa_destroy(struct schema_dfa **dfa)
{
    if (*dfa == NULL)
        return;
    struct arena arena = (*dfa)->arena;
    arena_fini(&arena);
    *dfa = NULL;
}

uint32_t schema_dfa_labels(const struct schema_dfa *dfa, struct str text)
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    uint16_t state = 0;

    while (at < end && state != NONE)
        state = dfa->states[state].to[atom_of(dfa, utf8_next(&at, end))];
    return state != NONE && dfa->count > 0 ? dfa->states[state].labels : 0;
}

size_t schema_dfa_kinds(const struct schema_dfa *dfa, uint32_t *kinds, size_t max)
{
    size_t count = 0;

    for (size_t s = 0; s < dfa->count; s++) {
        size_t i = 0;
        while (i < count && kinds[i] != dfa->states[s].labels)
            i++;
        if (i == count && count < max)
            kinds[count++] = dfa->states[s].labels;
    }
    return count;
}

/* ---- texts as rules ---- */

/* States with the length so far: a number per pair. */
struct product {
    struct schema_dfa *dfa;
    const struct schema_wanted *wanted;
    size_t width;    /* lengths that are told apart */
    uint32_t *rules; /* of a pair; 0: not reached, or no wanted text follows */
    uint32_t *queue;
    size_t count;
};

static bool ends(const struct product *p, uint32_t pair)
{
    return p->dfa->states[pair / p->width].labels == p->wanted->labels &&
           pair % p->width >= p->wanted->min;
}

/* The pair after a character; false: there is none. Lengths beyond the minimum are alike if there
 * is no maximum. */
static bool follow(const struct product *p, uint32_t pair, size_t atom, uint32_t *next)
{
    uint16_t to = p->dfa->states[pair / p->width].to[atom];
    size_t len = pair % p->width + 1;
    uint32_t code = p->dfa->atoms[atom];
    bool raw = code >= ' ' && code != '"' && code != '\\' && (code < 0xD800 || code >= 0xE000);

    if (p->dfa->c->plain)
        raw = (code >= ' ' && (code < 0xD800 || code >= 0xE000)) || code == '\t' || code == '\n' ||
              code == '\r';
    if (to == NONE || (!raw && (p->wanted->name || strchr("\"\\\b\f\n\r\t", (int)code) == NULL ||
                                code == 0 || code > 0x7f)))
        return false;
    if (len == p->width && p->wanted->max != SCHEMA_FOREVER)
        return false;
    *next = (uint32_t)(to * p->width + MIN(len, p->width - 1));
    return true;
}

enum { REACHED = 1 };

/* The cost of looking at all steps of a pair once. */
static bool is_too_much(struct product *p, size_t times)
{
    *p->dfa->c->work += p->dfa->atoms_count * times;
    return *p->dfa->c->work > SCHEMA_WORK_MAX;
}

static enum err reach(struct product *p)
{
    uint32_t next;

    p->rules[0] = REACHED;
    p->queue[p->count++] = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (is_too_much(p, 1))
            return too_large(p->dfa);
        for (size_t a = 0; a < p->dfa->atoms_count; a++)
            if (follow(p, p->queue[i], a, &next) && p->rules[next] == 0) {
                p->rules[next] = REACHED;
                p->queue[p->count++] = next;
            }
    }
    return ERR_OK;
}

/* Reserves rules for the pairs from which a wanted text follows, backwards until no more are
 * found. */
static enum err reserve(struct product *p)
{
    uint32_t before = p->dfa->c->rules_count, count = 0, next;
    bool more = true;

    while (more) {
        more = false;
        for (size_t i = p->count; i-- > 0;) {
            uint32_t pair = p->queue[i];
            bool live = p->rules[pair] == REACHED && ends(p, pair);
            for (size_t a = 0; a < p->dfa->atoms_count && p->rules[pair] == REACHED && !live; a++)
                live = follow(p, pair, a, &next) && p->rules[next] > REACHED;
            /* a live one is written later, at the cost of comparing its steps */
            bool much = is_too_much(p, live ? 1 + p->dfa->atoms_count / 4 : 1);
            if (!live && !much)
                continue;
            if (much || ++count > RULES_MAX) { /* none is written yet: the numbers are free again */
                p->dfa->c->rules_count = before;
                return too_large(p->dfa);
            }
            TRY(schema_rule_reserve(p->dfa->c, &p->rules[pair]));
            more = true;
        }
    }
    return ERR_OK;
}

static void put_set(struct product *p, const struct schema_chars *set, uint32_t rule,
                    const char **between)
{
    struct schema_compiler *c = p->dfa->c;

    if (set->count == 0)
        return;
    schema_put(c, *between);
    schema_put_ranges(c, set);
    schema_put_rule(c, rule);
    *between = "|";
}

/* All characters that lead to `rule`, from atom `a` on. */
static void put_step(struct product *p, uint32_t pair, size_t a, uint32_t rule,
                     const char **between)
{
    struct schema_compiler *c = p->dfa->c;
    struct schema_chars set = {.count = 0};
    uint32_t next;

    for (; a < p->dfa->atoms_count; a++) {
        uint32_t code = p->dfa->atoms[a];
        if (!follow(p, pair, a, &next) || p->rules[next] != rule)
            continue;
        if (!c->plain && (code < ' ' || code == '"' || code == '\\')) {
            schema_put(c, *between);
            buf_append_char(c->out, '"');
            schema_put_json_char(c, code);
            schema_put(c, "\"");
            schema_put_rule(c, rule);
            *between = "|";
            continue;
        }
        if (set.count > SCHEMA_RANGES_MAX - 3) {
            put_set(p, &set, rule, between);
            set.count = 0;
        }
        bool ok = schema_chars_add(&set, code, p->dfa->atoms[a + 1] - 1);
        assert(ok);
    }
    put_set(p, &set, rule, between);
}

static enum err write_pair(struct product *p, uint32_t pair)
{
    struct schema_compiler *c = p->dfa->c;
    const char *between = "";
    uint32_t next, before;

    schema_rule_open(c, p->rules[pair]);
    for (size_t a = 0; a < p->dfa->atoms_count; a++) {
        bool told = !follow(p, pair, a, &next) || p->rules[next] <= REACHED;
        for (size_t k = 0; k < a && !told; k++)
            told = follow(p, pair, k, &before) && before == next;
        if (!told)
            put_step(p, pair, a, p->rules[next], &between);
    }
    if (ends(p, pair)) {
        schema_put(c, between);
        schema_put(c, p->wanted->name ? "\"\\\"\"" : "\"\"");
    }
    return schema_rule_end(c);
}

enum err schema_dfa_write(struct schema_dfa *dfa, const struct schema_wanted *wanted,
                          uint32_t *rule)
{
    struct product p = {.dfa = dfa, .wanted = wanted};

    *rule = SCHEMA_NEVER;
    if (dfa->count == 0)
        return ERR_OK;
    p.width = (size_t)(wanted->max != SCHEMA_FOREVER ? wanted->max : wanted->min) + 1;
    if (dfa->count * p.width > PRODUCT_MAX)
        return too_large(dfa);
    p.rules = arena_alloc_array(&dfa->arena, dfa->count * p.width, sizeof(*p.rules));
    p.queue = arena_alloc_array(&dfa->arena, dfa->count * p.width, sizeof(*p.queue));
    if (p.rules == NULL || p.queue == NULL)
        return no_room(dfa);
    TRY(reach(&p));
    TRY(reserve(&p));
    for (size_t i = 0; i < p.count; i++)
        if (p.rules[p.queue[i]] > REACHED)
            TRY(write_pair(&p, p.queue[i]));
    *rule = p.rules[0] > REACHED ? p.rules[0] : SCHEMA_NEVER;
    return ERR_OK;
}
