/*
 * gbnf.c: reads a grammar into a small tree and checks it.
 *
 *      rule -> alternative -> item -> item
 *                 |             '-> (group) -> alternative -> ...
 *                 '-> alternative -> item
 *
 *      item = literal | class | token | reference | group, with its repetition {min, max}
 *
 * Three passes:
 *   parse    the same dialect and the same arithmetic of repetitions as the inference library, plus
 *            limits
 *   hollow   which rules can be empty, by iteration until nothing changes
 *   measure  depth first along what can begin a rule: a rule met again on the
 *            way begins with itself, and the number of ways bounds how many places one character
 *            can be expected at
 */
#include "engine/gbnf.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/gbnf_impl.h"

enum {
    REPEAT_MAX = 2000, /* the library's own limit */
    REPEATED_MAX = 8,  /* repetitions of one item, as in "a"*+? */
    /* passes; more are needed only for a chain of this many rules, each written before the one
     * it uses */
    HOLLOW_PASSES_MAX = 64,
};

/* The item that a repetition would apply to. */
struct last {
    uint32_t node;
    uint64_t weight;  /* elements it has in its rule; 0 = nothing that could be repeated */
    uint64_t symbols; /* the library's measure of its cost */
    unsigned repeated;
};

/* ---- errors ---- */

static enum err bad(struct parser *p, const char *at, const char *what)
{
    size_t line = 1, column = 1;

    for (const char *c = p->text; c < at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    return err_set(p->info, ERR_INVALID, "grammar, line %zu, column %zu: %s", line, column, what);
}

static enum err too_much(struct parser *p, const char *what, unsigned limit)
{
    return err_set(p->info, ERR_LIMIT, "the grammar has too many %s: at most %u are allowed", what,
                   limit);
}

/* ---- nodes and rules ---- */

static enum err add_node(struct parser *p, enum node_kind kind, uint32_t *index)
{
    if (p->nodes_count == GBNF_NODES_MAX)
        return too_much(p, "parts", GBNF_NODES_MAX);
    if (!mem_try_reserve(&p->nodes, p->nodes_count + 1, &p->nodes_cap, sizeof(*p->nodes)))
        return err_set(p->info, ERR_NOMEM, "no memory to check the grammar");
    *index = p->nodes_count++;
    p->nodes[*index] = (struct node){.kind = kind, .min = 1, .max = 1};
    return ERR_OK;
}

static bool rule_has_name(const struct map_node *node, const void *key)
{
    const struct rule *rule = CONTAINER_OF(node, struct rule, by_name);

    return str_eq(rule->name, *(const struct str *)key);
}

static struct rule *find_rule(struct parser *p, struct str name, uint64_t hash)
{
    struct map_node *node = map_find(&p->names, hash, rule_has_name, &name);

    return node ? CONTAINER_OF(node, struct rule, by_name) : NULL;
}

static enum err get_rule(struct parser *p, struct str name, struct rule **rule)
{
    /* The names live as long as the parser: the address of the rules will do as a seed. */
    uint64_t hash = map_hash(name.ptr, name.len, (uintptr_t)p->rules);

    *rule = find_rule(p, name, hash);
    if (*rule != NULL)
        return ERR_OK;
    if (p->rules_count == GBNF_RULES_MAX)
        return too_much(p, "rules", GBNF_RULES_MAX);
    *rule = &p->rules[p->rules_count++];
    **rule = (struct rule){.name = name, .used_at = name.ptr};
    map_insert(&p->names, &(*rule)->by_name, hash);
    p->symbols++;
    return ERR_OK;
}

/* ---- parse: characters ---- */

static bool is_word(char c)
{
    return str_is_letter(c) || str_is_digit(c) || c == '-';
}

static bool is_newline(char c)
{
    return c == '\n' || c == '\r';
}

static void skip_space(struct parser *p, bool newlines)
{
    for (;;) {
        if (*p->at == '#')
            p->at += strcspn(p->at, "\r\n");
        else if (*p->at == ' ' || *p->at == '\t' || (newlines && is_newline(*p->at)))
            p->at++;
        else
            return;
    }
}

static struct str take_word(struct parser *p)
{
    const char *begin = p->at;

    while (is_word(*p->at))
        p->at++;
    return (struct str){begin, (size_t)(p->at - begin)};
}

static enum err add_range(struct parser *p, struct gbnf_range range)
{
    if (!mem_try_reserve(&p->ranges, p->ranges_count + 1, &p->ranges_cap, sizeof(*p->ranges)))
        return err_set(p->info, ERR_NOMEM, "no memory to check the grammar");
    p->ranges[p->ranges_count++] = range; /* fewer than GBNF_BYTES_MAX */
    return ERR_OK;
}

static enum err take_escape(struct parser *p, const char *begin, uint32_t *c)
{
    static const char kinds[] = "trn\\\"[]xuU", values[] = "\t\r\n\\\"[]";
    const char *kind = *p->at != '\0' ? strchr(kinds, *p->at) : NULL;

    if (kind == NULL)
        return bad(p, begin, "unknown escape; \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\] exist");
    p->at++;
    int digits = *kind == 'x' ? 2 : *kind == 'u' ? 4 : *kind == 'U' ? 8 : 0;
    if (digits == 0)
        *c = (uint32_t)values[kind - kinds];
    else
        *c = 0;
    for (; digits > 0; digits--, p->at++) {
        int digit = str_hex(*p->at);
        if (digit < 0)
            return bad(p, begin, "an escape with too few hexadecimal digits");
        *c = *c << 4 | (uint32_t)digit;
    }
    return ERR_OK;
}

/* One character of a literal or class, escaped or not. */
static enum err take_char(struct parser *p, uint32_t *c)
{
    const char *begin = p->at;
    struct gbnf_char utf8 = {0};

    if (*p->at == '\0')
        return bad(p, begin, "the grammar ends inside a literal or class");
    if (*p->at == '\\') {
        p->at++;
        return take_escape(p, begin, c);
    }
    do {
        if (!gbnf_char_add(&utf8, (unsigned char)*p->at))
            return bad(p, begin, "this character is not UTF-8");
        p->at++;
    } while (utf8.left > 0);
    *c = utf8.value;
    return ERR_OK;
}

/* A literal or a class up to `end`; weight is how many characters it has. */
static enum err take_chars(struct parser *p, char end, struct node *node, uint64_t *weight)
{
    *weight = 0;
    p->at++;
    if (end == ']' && *p->at == '^') {
        p->at++;
        node->negated = true;
    }
    while (*p->at != end) {
        struct gbnf_range range;
        TRY(take_char(p, &range.low));
        range.high = range.low;
        ++*weight;
        if (end == ']' && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            TRY(take_char(p, &range.high));
            ++*weight;
        }
        TRY(add_range(p, range));
    }
    p->at++;
    return ERR_OK;
}

/* A decimal number, saturated just above the largest limit. */
static uint32_t take_number(struct parser *p)
{
    uint32_t n = 0;

    for (; *p->at >= '0' && *p->at <= '9'; p->at++)
        n = MIN(n * 10 + (uint32_t)(*p->at - '0'), REPEAT_MAX + 1);
    return n;
}

/* ---- parse: items ---- */

static enum err parse_alternatives(struct parser *p, bool nested, uint32_t *first);

static enum err add_elements(struct parser *p, uint64_t count)
{
    p->elements += count;
    return p->elements > GBNF_ELEMENTS_MAX ? too_much(p, "elements", GBNF_ELEMENTS_MAX) : ERR_OK;
}

static enum err parse_terminal(struct parser *p, struct last *last)
{
    bool literal = *p->at == '"';
    uint32_t first = p->ranges_count;

    TRY(add_node(p, literal ? NODE_LITERAL : NODE_CLASS, &last->node));
    struct node *node = &p->nodes[last->node];
    if (*p->at == '.') {
        p->at++;
        last->weight = 1;
        TRY(add_range(p, (struct gbnf_range){0, UINT32_MAX}));
    } else {
        TRY(take_chars(p, literal ? '"' : ']', node, &last->weight));
    }
    node->child = first;
    node->ranges_count = p->ranges_count - first;
    node->hollow = last->weight == 0;
    return ERR_OK;
}

/* <[5]> or !<[5]> */
static enum err parse_token(struct parser *p, struct last *last)
{
    const char *begin = p->at;
    uint64_t number = 0;

    TRY(add_node(p, NODE_TOKEN, &last->node));
    struct node *node = &p->nodes[last->node];
    node->negated = *p->at == '!';
    p->at += node->negated;
    if (strncmp(p->at, "<[", 2) != 0)
        return bad(p, begin, "tokens are written as numbers: <[5]>");
    p->at += 2;
    size_t digits = strspn(p->at, "0123456789");
    if (!str_to_u64((struct str){p->at, digits}, &number) || number > INT32_MAX)
        return bad(p, begin, "expected the number of a token");
    p->at += digits;
    if (strncmp(p->at, "]>", 2) != 0)
        return bad(p, p->at, "expected ']>'");
    p->at += 2;
    node->child = (uint32_t)number;
    last->weight = 1;
    return ERR_OK;
}

static enum err parse_reference(struct parser *p, struct last *last)
{
    struct rule *rule;

    TRY(add_node(p, NODE_REFERENCE, &last->node));
    TRY(get_rule(p, take_word(p), &rule));
    p->nodes[last->node].child = (uint32_t)(rule - p->rules);
    last->weight = 1;
    return ERR_OK;
}

static enum err parse_group(struct parser *p, struct last *last)
{
    const char *begin = p->at++;
    uint64_t symbols = p->symbols++;
    uint32_t child;

    if (++p->depth > GBNF_DEPTH_MAX)
        return too_much(p, "groups inside each other", GBNF_DEPTH_MAX);
    skip_space(p, true);
    TRY(add_node(p, NODE_GROUP, &last->node));
    TRY(parse_alternatives(p, true, &child));
    if (*p->at != ')')
        return bad(p, *p->at ? p->at : begin, *p->at ? "expected ')'" : "this group has no end");
    p->at++;
    p->depth--;
    p->nodes[last->node].child = child;
    last->weight = 1;
    last->symbols = p->symbols - symbols;
    return ERR_OK;
}

static enum err parse_item(struct parser *p, bool nested, struct last *last)
{
    *last = (struct last){.symbols = 1};
    if (*p->at == '(')
        TRY(parse_group(p, last));
    else if (is_word(*p->at))
        TRY(parse_reference(p, last));
    else if (*p->at == '<' || *p->at == '!')
        TRY(parse_token(p, last));
    else
        TRY(parse_terminal(p, last));
    skip_space(p, nested);
    return add_elements(p, last->weight);
}

/* ---- parse: repetitions ---- */

static enum err take_braces(struct parser *p, bool nested, uint32_t *min, uint32_t *max)
{
    const char *begin = p->at++;

    skip_space(p, nested);
    if (*p->at < '0' || *p->at > '9')
        return bad(p, p->at, "expected a number");
    *min = *max = take_number(p);
    skip_space(p, nested);
    if (*p->at == ',') {
        p->at++;
        skip_space(p, nested);
        *max = *p->at >= '0' && *p->at <= '9' ? take_number(p) : FOREVER;
        skip_space(p, nested);
    }
    if (*p->at != '}')
        return bad(p, p->at, "expected '}'");
    p->at++;
    if (*min > REPEAT_MAX)
        return bad(p, begin, "more than 2000 repetitions");
    if (*max < *min)
        return bad(p, begin, "the largest number of repetitions is below the smallest");
    if (*max > REPEAT_MAX) /* as the library does */
        *max = FOREVER;
    return ERR_OK;
}

static enum err take_repetition(struct parser *p, bool nested, uint32_t *min, uint32_t *max)
{
    if (*p->at == '{')
        return take_braces(p, nested, min, max);
    *min = *p->at == '+';
    *max = *p->at == '?' ? 1 : FOREVER;
    p->at++;
    return ERR_OK;
}

/* The second repetition of an item repeats a group of it: ("a"{2,3})? is not "a"{0,3}. */
static enum err wrap(struct parser *p, uint32_t index)
{
    uint32_t inner, alternative;

    TRY(add_node(p, NODE_GROUP, &inner));
    TRY(add_node(p, NODE_ALTERNATIVE, &alternative));
    p->nodes[inner] = p->nodes[index];
    p->nodes[alternative].child = inner;
    p->nodes[index] = (struct node){.kind = NODE_GROUP, .child = alternative, .min = 1, .max = 1};
    return ERR_OK;
}

/* S{m,n} is written out: m copies of S in place, and n - m rules (one when there is no end) that
 * each hold S again. */
static enum err parse_repetition(struct parser *p, bool nested, struct last *last)
{
    const char *begin = p->at;
    uint32_t min = 0, max = 0;

    TRY(take_repetition(p, nested, &min, &max));
    skip_space(p, nested);
    if (last->weight == 0)
        return bad(p, begin, "there is nothing to repeat here");
    uint64_t times = max != FOREVER && max > 0 ? max : MAX(min, 1);
    uint64_t optional = max == FOREVER ? 1 : max - min;
    last->symbols *= times;
    if (last->symbols >= REPEAT_MAX)
        return bad(p, begin, "more than 2000 repetitions, groups inside counted");
    TRY(add_elements(p, last->weight * (min + optional) + 3 * optional));
    p->symbols += optional;
    last->weight = last->weight * min + (optional > 0);

    if (++last->repeated > REPEATED_MAX)
        return too_much(p, "repetitions of one item", REPEATED_MAX);
    if (last->repeated > 1)
        TRY(wrap(p, last->node));
    p->nodes[last->node].min = min;
    p->nodes[last->node].max = max;
    return ERR_OK;
}

static enum err parse_alternative(struct parser *p, bool nested, uint32_t alternative)
{
    struct last last = {0};
    uint32_t before = NONE;

    for (;;) {
        char c = *p->at;
        if (c != '\0' && strchr("*+?{", c) != NULL) {
            TRY(parse_repetition(p, nested, &last));
        } else if (c != '\0' && (is_word(c) || strchr("\"[.(<!", c) != NULL)) {
            TRY(parse_item(p, nested, &last));
            if (before == NONE)
                p->nodes[alternative].child = last.node;
            else
                p->nodes[before].next = last.node;
            before = last.node;
        } else {
            return ERR_OK;
        }
    }
}

static enum err parse_alternatives(struct parser *p, bool nested, uint32_t *first)
{
    uint32_t before = NONE;

    for (;;) {
        uint32_t alternative;
        TRY(add_node(p, NODE_ALTERNATIVE, &alternative));
        if (before == NONE)
            *first = alternative;
        else
            p->nodes[before].next = alternative;
        before = alternative;
        TRY(parse_alternative(p, nested, alternative));
        TRY(add_elements(p, 1)); /* its end */
        if (*p->at != '|')
            return ERR_OK;
        p->at++;
        skip_space(p, true);
    }
}

static enum err parse_rule(struct parser *p)
{
    struct rule *rule;
    uint32_t body = NONE;

    if (!is_word(*p->at))
        return bad(p, p->at, "expected the name of a rule (letters, digits and '-')");
    TRY(get_rule(p, take_word(p), &rule));
    skip_space(p, false);
    if (strncmp(p->at, "::=", 3) != 0)
        return bad(p, p->at, "expected '::='");
    p->at += 3;
    skip_space(p, true);
    TRY(parse_alternatives(p, false, &body));
    rule->body = body;
    if (*p->at != '\0' && !is_newline(*p->at))
        return bad(p, p->at, "expected an item, '|' or the end of the line");
    skip_space(p, true);
    return ERR_OK;
}

static enum err parse(struct parser *p, const char *root)
{
    skip_space(p, true);
    while (*p->at != '\0')
        TRY(parse_rule(p));
    for (uint32_t i = 0; i < p->rules_count; i++)
        if (p->rules[i].body == NONE)
            return bad(p, p->rules[i].used_at, "this rule is not defined");
    struct str name = str_from(root);
    if (find_rule(p, name, map_hash(name.ptr, name.len, (uintptr_t)p->rules)) == NULL)
        return err_set(p->info, ERR_INVALID, "the grammar has no rule '%.64s'", root);
    return ERR_OK;
}

/* ---- hollow rules ---- */

static bool alternatives_hollow(struct parser *p, uint32_t first);

static bool item_hollow(struct parser *p, struct node *item)
{
    if (item->kind == NODE_REFERENCE)
        item->hollow = p->rules[item->child].hollow;
    else if (item->kind == NODE_GROUP)
        item->hollow = alternatives_hollow(p, item->child);
    return item->hollow || item->min == 0;
}

/* True when one of them can be empty. Visits all of them, because it also sets `hollow` of each
 * item. */
static bool alternatives_hollow(struct parser *p, uint32_t first)
{
    bool any = false;

    for (uint32_t a = first; a != NONE; a = p->nodes[a].next) {
        bool all = true;
        for (uint32_t i = p->nodes[a].child; i != NONE; i = p->nodes[i].next)
            all &= item_hollow(p, &p->nodes[i]);
        any |= all;
    }
    return any;
}

static enum err find_hollow(struct parser *p)
{
    for (int pass = 0; pass < HOLLOW_PASSES_MAX; pass++) {
        bool changed = false;
        /* Backwards: most rules are written before those that they use. */
        for (uint32_t r = p->rules_count; r-- > 0;) {
            bool hollow = alternatives_hollow(p, p->rules[r].body);
            changed |= hollow != p->rules[r].hollow;
            p->rules[r].hollow = hollow;
        }
        if (!changed)
            return ERR_OK;
    }
    return too_much(p, "empty rules that lead to each other", HOLLOW_PASSES_MAX);
}

/* ---- measure ---- */

static enum err measure_alternatives(struct parser *p, uint32_t first, uint32_t *paths);

static enum err measure_rule(struct parser *p, struct rule *rule, uint32_t *paths)
{
    if (rule->colour == COLOUR_GREY)
        return bad(p, rule->used_at, "this rule begins with itself (left recursion)");
    if (rule->colour == COLOUR_WHITE) {
        rule->colour = COLOUR_GREY;
        TRY(measure_alternatives(p, rule->body, &rule->paths));
        rule->colour = COLOUR_BLACK;
        p->paths_total += rule->paths;
        if (p->paths_total > GBNF_PATHS_TOTAL_MAX)
            return too_much(p, "ways in which its rules begin", GBNF_PATHS_TOTAL_MAX);
    }
    *paths = rule->paths;
    return ERR_OK;
}

static enum err measure_item(struct parser *p, const struct node *item, uint64_t *paths)
{
    uint32_t once = 1;

    if (item->kind == NODE_REFERENCE)
        TRY(measure_rule(p, &p->rules[item->child], &once));
    else if (item->kind == NODE_GROUP)
        TRY(measure_alternatives(p, item->child, &once));
    /* An item that may be empty can also be followed by its own repetition. */
    uint32_t times = item->max == FOREVER ? item->min + 1 : MAX(item->max, 1);
    *paths += (uint64_t)once * (item->hollow ? times : 1);
    return ERR_OK;
}

static enum err measure_alternatives(struct parser *p, uint32_t first, uint32_t *paths)
{
    uint64_t total = 0;

    if (++p->depth > GBNF_CHAIN_MAX)
        return too_much(p, "rules that begin with each other", GBNF_CHAIN_MAX);
    for (uint32_t a = first; a != NONE; a = p->nodes[a].next) {
        bool beginning = true;
        for (uint32_t i = p->nodes[a].child; i != NONE && beginning; i = p->nodes[i].next) {
            TRY(measure_item(p, &p->nodes[i], &total));
            beginning = p->nodes[i].hollow || p->nodes[i].min == 0;
        }
        total += beginning; /* it can be empty: one more path */
    }
    if (total > GBNF_PATHS_MAX)
        return too_much(p, "ways in which one rule begins", GBNF_PATHS_MAX);
    p->depth--;
    *paths = (uint32_t)total;
    return ERR_OK;
}

static enum err measure(struct parser *p)
{
    uint32_t paths;

    assert(p->depth == 0);
    for (uint32_t r = 0; r < p->rules_count; r++)
        TRY(measure_rule(p, &p->rules[r], &paths));
    return ERR_OK;
}

static enum err read_grammar(struct parser *p, const char *root, struct gbnf **program)
{
    uint32_t none;

    p->rules = mem_try_alloc_array(GBNF_RULES_MAX, sizeof(*p->rules));
    if (p->rules == NULL)
        return err_set(p->info, ERR_NOMEM, "no memory to check the grammar");
    TRY(add_node(p, NODE_ALTERNATIVE, &none));
    assert(none == NONE);
    TRY(parse(p, root));
    TRY(find_hollow(p));
    TRY(measure(p));
    return gbnf_translate(p, root, program);
}

enum err gbnf_create(struct gbnf **program, const char *text, const char *root,
                     struct errinfo *info)
{
    struct parser p = {.text = text, .at = text, .info = info};

    *program = NULL;
    if (strnlen(text, GBNF_BYTES_MAX + 1) > GBNF_BYTES_MAX)
        return err_set(info, ERR_LIMIT, "the grammar is larger than %d bytes", GBNF_BYTES_MAX);
    map_init(&p.names);
    enum err err = read_grammar(&p, root, program);
    map_fini(&p.names);
    mem_free(p.rules);
    mem_free(p.nodes);
    mem_free(p.ranges);
    return err;
}

void gbnf_destroy(struct gbnf **program)
{
    if (*program == NULL)
        return;
    mem_free((*program)->ops);
    mem_free((*program)->ranges);
    mem_free(*program);
    *program = NULL;
}

enum err gbnf_check(const char *text, const char *root, struct errinfo *info)
{
    struct gbnf *program;
    enum err err = gbnf_create(&program, text, root, info);

    gbnf_destroy(&program);
    return err;
}
