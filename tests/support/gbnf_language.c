/*
 * gbnf_language.c: a tree of alternatives and items; matching by sets of positions, with a memo for
 * each rule and position.
 */
#include "support/gbnf_language.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "support/test.h"

enum {
    RULES_MAX = 8192,
    FOREVER = 1 << 30,
    EXTRA_MAX = 3,
    GROWTH_DEPTH = 12,
    HEIGHT_NONE = 1 << 20
};

enum item_kind { ITEM_CHARS, ITEM_RULE, ITEM_GROUP };

struct range {
    uint32_t low, high;
};

struct item {
    enum item_kind kind;
    struct item *next;
    struct range *ranges; /* of one character */
    size_t ranges_count;
    bool negated;
    size_t rule;
    struct way *ways;
    int min, max;
};

struct way {
    struct way *next;
    struct item *items;
    int height;
};

struct rule {
    struct str name;
    struct way *ways;
    bool defined;
    int height; /* of the lowest tree of rules that ends */
};

struct language {
    struct arena arena;
    struct rule rules[RULES_MAX];
    size_t count;
    const char *at;
    /* matching */
    uint32_t *codes;
    size_t codes_count;
    bool ***memo; /* [rule][position] -> ends */
    struct arena match_arena;
};

static void *take(struct arena *arena, size_t size)
{
    void *memory = arena_alloc(arena, size);

    assert_non_null(memory);
    return memory;
}

/* ---- reading ---- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

static void skip_blanks(struct language *l, bool newlines)
{
    while (*l->at == ' ' || *l->at == '\t' || (newlines && (*l->at == '\n' || *l->at == '\r')))
        l->at++;
}

static size_t rule_index(struct language *l, struct str name)
{
    for (size_t i = 0; i < l->count; i++)
        if (str_eq(l->rules[i].name, name))
            return i;
    assert_true(l->count < RULES_MAX);
    l->rules[l->count] = (struct rule){.name = name, .height = HEIGHT_NONE};
    return l->count++;
}

static struct str read_word(struct language *l)
{
    const char *begin = l->at;

    while (is_word(*l->at))
        l->at++;
    return (struct str){begin, (size_t)(l->at - begin)};
}

static uint32_t read_char(struct language *l)
{
    if (*l->at != '\\')
        return utf8_next(&l->at, l->at + strnlen(l->at, 4));
    char kind = l->at[1];
    l->at += 2;
    size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    uint32_t code = 0;
    for (size_t i = 0; i < digits; i++, l->at++) {
        char c = *l->at;
        assert_true(c != '\0' && strchr("0123456789abcdefABCDEF", c) != NULL);
        code = code * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return digits        ? code
           : kind == 'n' ? '\n'
           : kind == 't' ? '\t'
           : kind == 'r' ? '\r'
                         : (uint32_t)kind;
}

static struct item *new_item(struct language *l, enum item_kind kind)
{
    struct item *item = take(&l->arena, sizeof(*item));

    item->kind = kind;
    item->min = item->max = 1;
    return item;
}

static struct way *read_ways(struct language *l, bool nested);

static struct item *read_class(struct language *l)
{
    struct item *item = new_item(l, ITEM_CHARS);
    struct range ranges[512];

    l->at++;
    item->negated = *l->at == '^';
    l->at += item->negated;
    while (*l->at != ']') {
        assert_true(*l->at != '\0' && item->ranges_count < COUNT_OF(ranges));
        struct range range = {.low = read_char(l)};
        range.high = range.low;
        if (l->at[0] == '-' && l->at[1] != ']') {
            l->at++;
            range.high = read_char(l);
        }
        assert_true(range.low <= range.high);
        ranges[item->ranges_count++] = range;
    }
    l->at++;
    item->ranges = take(&l->arena, (item->ranges_count + 1) * sizeof(ranges[0]));
    memcpy(item->ranges, ranges, item->ranges_count * sizeof(ranges[0]));
    return item;
}

/* A literal is a group of one way with one item for each character, so that a repetition applies to
 * all of it. */
static struct item *read_literal(struct language *l)
{
    struct item *group = new_item(l, ITEM_GROUP), **last;

    group->ways = take(&l->arena, sizeof(*group->ways));
    last = &group->ways->items;
    for (l->at++; *l->at != '"'; last = &(*last)->next) {
        assert_true(*l->at != '\0');
        *last = new_item(l, ITEM_CHARS);
        (*last)->ranges = take(&l->arena, sizeof(struct range));
        (*last)->ranges_count = 1;
        (*last)->ranges[0].low = (*last)->ranges[0].high = read_char(l);
    }
    l->at++;
    return group;
}

static int read_number(struct language *l)
{
    int number = 0;

    assert_true(*l->at >= '0' && *l->at <= '9');
    while (*l->at >= '0' && *l->at <= '9')
        number = number * 10 + (*l->at++ - '0');
    return number;
}

static void read_repetition(struct language *l, struct item *item)
{
    char kind = *l->at;

    if (kind == '\0' || strchr("*+?{", kind) == NULL)
        return;
    l->at++;
    item->min = kind == '+';
    item->max = kind == '?' ? 1 : FOREVER;
    if (kind != '{')
        return;
    item->min = item->max = read_number(l);
    if (*l->at == ',') {
        l->at++;
        item->max = *l->at == '}' ? FOREVER : read_number(l);
    }
    assert_int_equal(*l->at, '}');
    l->at++;
}

static struct item *read_item(struct language *l)
{
    struct item *item;

    if (*l->at == '"') {
        item = read_literal(l);
    } else if (*l->at == '[') {
        item = read_class(l);
    } else if (*l->at == '(') {
        l->at++;
        item = new_item(l, ITEM_GROUP);
        item->ways = read_ways(l, true);
        assert_int_equal(*l->at, ')');
        l->at++;
    } else {
        item = new_item(l, ITEM_RULE);
        struct str name = read_word(l);
        if (name.len == 0)
            fail_msg("expected an item at '%.40s'", l->at);
        item->rule = rule_index(l, name);
    }
    read_repetition(l, item);
    return item;
}

static struct way *read_ways(struct language *l, bool nested)
{
    struct way *first = NULL, **last = &first;

    for (;; last = &(*last)->next, l->at++) {
        struct item **item;
        *last = take(&l->arena, sizeof(**last));
        item = &(*last)->items;
        for (skip_blanks(l, nested); *l->at && strchr("|)\n", *l->at) == NULL;
             skip_blanks(l, nested)) {
            *item = read_item(l);
            item = &(*item)->next;
        }
        if (*l->at != '|')
            return first;
    }
}

static void read_rules(struct language *l)
{
    for (skip_blanks(l, true); *l->at != '\0'; skip_blanks(l, true)) {
        size_t index = rule_index(l, read_word(l));
        skip_blanks(l, false);
        if (strncmp(l->at, "::=", 3) != 0)
            fail_msg("expected '::=' at '%.40s'", l->at);
        l->at += 3;
        assert_false(l->rules[index].defined);
        l->rules[index].defined = true;
        l->rules[index].ways = read_ways(l, false);
    }
    for (size_t i = 0; i < l->count; i++)
        if (!l->rules[i].defined)
            fail_msg("rule '" STR_FMT "' is not defined", STR_ARG(l->rules[i].name));
}

/* ---- heights ---- */

static int measure_ways(struct language *l, struct way *ways);

static int measure_item(struct language *l, struct item *item)
{
    int height = item->kind == ITEM_CHARS  ? 0
                 : item->kind == ITEM_RULE ? l->rules[item->rule].height + 1
                                           : measure_ways(l, item->ways);

    return item->min == 0 ? 0 : height;
}

static int measure_ways(struct language *l, struct way *ways)
{
    int lowest = HEIGHT_NONE;

    for (struct way *way = ways; way != NULL; way = way->next) {
        way->height = 0;
        for (struct item *item = way->items; item != NULL; item = item->next) {
            int height = measure_item(l, item);
            way->height = MAX(way->height, height);
        }
        lowest = MIN(lowest, way->height);
    }
    return lowest;
}

static void measure(struct language *l)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < l->count; i++) {
            int height = measure_ways(l, l->rules[i].ways);
            changed |= height < l->rules[i].height;
            l->rules[i].height = MIN(height, l->rules[i].height);
        }
    }
}

struct language *language_create(const char *gbnf)
{
    struct language *language = mem_alloc(sizeof(*language));

    arena_init(&language->arena, 1 << 28);
    language->at = gbnf;
    read_rules(language);
    measure(language);
    return language;
}

void language_destroy(struct language **language)
{
    arena_fini(&(*language)->arena);
    mem_free(*language);
    *language = NULL;
}

/* ---- writing ---- */

static bool in_ranges(const struct item *item, uint32_t code)
{
    bool in = false;

    for (size_t i = 0; i < item->ranges_count; i++)
        in |= code >= item->ranges[i].low && code <= item->ranges[i].high;
    return in != item->negated;
}

static void generate_char(const struct item *item, uint64_t *seed, struct buf *out)
{
    struct range range = {0, 0x10FFFF};
    char bytes[4];
    uint32_t code;

    do {
        if (!item->negated)
            range = item->ranges[test_random_below(seed, item->ranges_count)];
        /* The ends of a range are where mistakes are; else readable ones. */
        uint32_t high = test_random_below(seed, 4) ? MIN(range.high, range.low + 93) : range.high;
        code = test_random_below(seed, 4) == 0
                   ? (test_random_below(seed, 2) ? range.low : range.high)
                   : range.low + (uint32_t)test_random_below(seed, high - range.low + 1);
    } while (!in_ranges(item, code) || (code >= 0xD800 && code <= 0xDFFF));
    buf_append(out, bytes, utf8_encode(code, bytes));
}

static void generate_ways(struct language *l, const struct way *ways, uint64_t *seed, int depth,
                          struct buf *out);

static void generate_item(struct language *l, const struct item *item, uint64_t *seed, int depth,
                          struct buf *out)
{
    int room = MIN(item->max - item->min, EXTRA_MAX), times = item->min;

    if (depth < GROWTH_DEPTH && room > 0)
        times += (int)test_random_below(seed, (uint64_t)room + 1);
    if (depth < GROWTH_DEPTH && item->kind == ITEM_CHARS && item->max < 64 &&
        test_random_below(seed, 4) == 0)
        times = item->max;
    for (int i = 0; i < times; i++) {
        if (item->kind == ITEM_CHARS)
            generate_char(item, seed, out);
        else
            generate_ways(l, item->kind == ITEM_RULE ? l->rules[item->rule].ways : item->ways, seed,
                          depth + (item->kind == ITEM_RULE), out);
    }
}

/* Any way at first; from GROWTH_DEPTH on the lowest. */
static void generate_ways(struct language *l, const struct way *ways, uint64_t *seed, int depth,
                          struct buf *out)
{
    const struct way *chosen = NULL;
    int lowest = HEIGHT_NONE;
    uint64_t seen = 0;

    for (const struct way *way = ways; way != NULL; way = way->next)
        lowest = MIN(lowest, way->height);
    assert_true(lowest < HEIGHT_NONE);
    for (const struct way *way = ways; way != NULL; way = way->next)
        if (way->height < HEIGHT_NONE && (depth < GROWTH_DEPTH || way->height == lowest) &&
            test_random_below(seed, ++seen) == 0)
            chosen = way;
    for (const struct item *item = chosen->items; item != NULL; item = item->next)
        generate_item(l, item, seed, depth, out);
}

bool language_is_endless(struct language *language, const char *root)
{
    return language->rules[rule_index(language, str_from(root))].height >= HEIGHT_NONE;
}

void language_generate(struct language *language, const char *root, uint64_t *seed, struct buf *out)
{
    size_t rule = rule_index(language, str_from(root));

    generate_ways(language, language->rules[rule].ways, seed, 0, out);
}

/* ---- matching ---- */

static bool *new_set(struct language *l)
{
    return take(&l->match_arena, l->codes_count + 1);
}

static void match_ways(struct language *l, const struct way *ways, size_t at, bool *ends);

static void match_once(struct language *l, const struct item *item, size_t at, bool *ends)
{
    if (item->kind == ITEM_GROUP) {
        match_ways(l, item->ways, at, ends);
    } else if (item->kind == ITEM_CHARS) {
        if (at < l->codes_count && in_ranges(item, l->codes[at]))
            ends[at + 1] = true;
    } else {
        bool **memo = &l->memo[item->rule][at];
        if (*memo == NULL) {
            bool *own = new_set(l);
            match_ways(l, l->rules[item->rule].ways, at, own);
            *memo = own;
        }
        for (size_t i = at; i <= l->codes_count; i++)
            ends[i] |= (*memo)[i];
    }
}

static bool *match_item(struct language *l, const struct item *item, const bool *begins)
{
    bool *now = new_set(l), *ends = new_set(l);

    memcpy(now, begins, l->codes_count + 1);
    for (int times = 0; times <= item->max; times++) {
        bool *next = new_set(l), grown = false;
        for (size_t i = 0; times >= item->min && i <= l->codes_count; i++) {
            grown |= now[i] && !ends[i];
            ends[i] |= now[i];
        }
        if (times == item->max || (times >= item->min && !grown))
            break;
        for (size_t i = 0; i <= l->codes_count; i++)
            if (now[i])
                match_once(l, item, i, next);
        now = next;
    }
    return ends;
}

static void match_ways(struct language *l, const struct way *ways, size_t at, bool *ends)
{
    for (const struct way *way = ways; way != NULL; way = way->next) {
        bool *now = new_set(l), any = true;
        now[at] = true;
        for (const struct item *item = way->items; item != NULL && any; item = item->next) {
            now = match_item(l, item, now);
            any = memchr(now, true, l->codes_count + 1) != NULL;
        }
        for (size_t i = 0; i <= l->codes_count; i++)
            ends[i] |= now[i];
    }
}

bool language_matches(struct language *l, const char *root, struct str text)
{
    const char *at = text.ptr, *end = at + text.len;
    size_t rule = rule_index(l, str_from(root));

    arena_init(&l->match_arena, (size_t)1 << 31);
    l->codes = take(&l->match_arena, (text.len + 1) * sizeof(*l->codes));
    for (l->codes_count = 0; at < end;)
        l->codes[l->codes_count++] = utf8_next(&at, end);
    l->memo = take(&l->match_arena, l->count * sizeof(*l->memo));
    for (size_t i = 0; i < l->count; i++)
        l->memo[i] = take(&l->match_arena, (l->codes_count + 1) * sizeof(*l->memo[i]));
    bool *ends = new_set(l);
    match_ways(l, l->rules[rule].ways, 0, ends);
    bool matches = ends[l->codes_count];
    arena_fini(&l->match_arena);
    return matches;
}
