/*
 * schema_regex.c: pattern -> tree -> rules.
 *
 *      ^(ab|c[0-9])+$     SEQ( BEGIN, REPEAT{1,}( ALT( SEQ(a, b), SEQ(c, [0-9]) ) ), END )
 *
 *      parse    recursive descent; nodes from the compiler's arena
 *      trim     anchors are allowed only at the ends of the whole or of its alternatives; a missing
 *               one means "anything"
 *      prepare  children first: repeated nodes and inner ALTs become rules, so that rules hold no
 *               groups
 *      put      the body of a rule, a plain sequence
 *
 * The language is ECMAScript's, by code points. Characters are written as in JSON: a quote as \", a
 * line feed as \n. Control characters without a short escape are never generated, except where a
 * pattern names one alone.
 */
#include <assert.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/schema_chars.h"
#include "grammar/schema_impl.h"

enum { PATTERN_BYTES_MAX = 4096, REGEX_DEPTH_MAX = 24, LOOSE_MAX = 16 };

struct regex {
    struct schema_compiler *c;
    const struct schema_place *place;
    const char *begin, *at, *end;
    unsigned depth;
};

static enum err bad(struct regex *r, enum err code, const char *what)
{
    return schema_refuse(r->c, r->place, code, "pattern, at byte %zu: %s",
                         (size_t)(r->at - r->begin), what);
}

static enum err make(struct regex *r, enum schema_node_kind kind, struct schema_node **node)
{
    *node = arena_alloc(&r->c->arena, sizeof(**node));
    if (*node == NULL)
        return schema_no_memory(r->c);
    (*node)->kind = kind;
    (*node)->last = &(*node)->first;
    return ERR_OK;
}

static void add_child(struct schema_node *parent, struct schema_node *child)
{
    *parent->last = child;
    parent->last = &child->next;
}

/* ---- parse: characters ---- */

static bool at_text(const struct regex *r, const char *text)
{
    size_t len = strlen(text);

    return (size_t)(r->end - r->at) >= len && memcmp(r->at, text, len) == 0;
}

static bool take_text(struct regex *r, const char *text)
{
    if (!at_text(r, text))
        return false;
    r->at += strlen(text);
    return true;
}

static bool add_spaces(struct schema_chars *set)
{
    static const struct schema_range spaces[] = {
        {0x09, 0x0D},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF},
    };
    bool ok = true;

    for (size_t i = 0; i < COUNT_OF(spaces); i++)
        ok = ok && schema_chars_add(set, spaces[i].low, spaces[i].high);
    return ok;
}

/* \d \w \s and their complements, added to the set; false if `letter` is none of them. */
static bool add_named(char letter, struct schema_chars *set, bool *ok)
{
    struct schema_chars named = {.count = 0};
    char lower = letter | 0x20;

    *ok = true;
    if (lower == 'd')
        *ok = schema_chars_add(&named, '0', '9');
    else if (lower == 'w')
        *ok = schema_chars_add(&named, '0', '9') && schema_chars_add(&named, 'A', 'Z') &&
              schema_chars_add(&named, 'a', 'z') && schema_chars_add(&named, '_', '_');
    else if (lower == 's')
        *ok = add_spaces(&named);
    else
        return false;
    if (letter != lower)
        *ok = *ok && schema_chars_complement(&named);
    *ok = *ok && schema_chars_add_all(set, &named);
    return true;
}

static enum err take_hex(struct regex *r, int digits, uint32_t *code)
{
    for (*code = 0; digits > 0; digits--, r->at++) {
        int digit = r->at < r->end ? str_hex(*r->at) : -1;
        if (digit < 0)
            return bad(r, ERR_INVALID, "an escape with too few hexadecimal digits");
        *code = *code * 16 + (uint32_t)digit;
    }
    if (*code >= 0xD800 && *code <= 0xDFFF)
        return bad(r, ERR_UNSUPPORTED, "write the character itself instead of surrogates");
    return ERR_OK;
}

/* The character after a backslash, which has been read. */
static enum err take_escape(struct regex *r, uint32_t *code)
{
    static const char letters[] = "nrtfv", codes[] = "\n\r\t\f\v";
    char k = *r->at;
    const char *found = k != '\0' ? strchr(letters, k) : NULL;

    if (found != NULL) {
        *code = (unsigned char)codes[found - letters];
        r->at++;
        return ERR_OK;
    }
    if (k == 'x' || k == 'u') {
        r->at++;
        return take_hex(r, k == 'x' ? 2 : 4, code);
    }
    if (k >= '1' && k <= '9')
        return bad(r, ERR_UNSUPPORTED, "back references cannot be enforced; write the text out");
    if (k == 'b' || k == 'B')
        return bad(r, ERR_UNSUPPORTED, "\\b and \\B cannot be enforced; leave them out");
    if (k == 'p' || k == 'P')
        return bad(r, ERR_UNSUPPORTED, "\\p is not supported; use a class such as [A-Za-z]");
    if (str_is_letter(k) || k == '0')
        return bad(r, ERR_UNSUPPORTED, "unknown escape");
    *code = utf8_next(&r->at, r->end);
    return ERR_OK;
}

static enum err take_class_char(struct regex *r, uint32_t *code)
{
    if (r->at == r->end)
        return bad(r, ERR_INVALID, "this class has no end");
    if (*r->at != '\\') {
        *code = utf8_next(&r->at, r->end);
        return ERR_OK;
    }
    if (++r->at == r->end)
        return bad(r, ERR_INVALID, "the pattern ends with a backslash");
    if (*r->at == 'b') { /* a backspace, only in a class */
        r->at++;
        *code = '\b';
        return ERR_OK;
    }
    return take_escape(r, code);
}

/* One element of a class: \d, x or x-y. */
static enum err take_class_item(struct regex *r, struct schema_chars *set)
{
    uint32_t low, high;
    bool ok;

    if (r->end - r->at >= 2 && *r->at == '\\' && add_named(r->at[1], set, &ok)) {
        r->at += 2;
        return ok ? ERR_OK : bad(r, ERR_LIMIT, "the class has too many parts");
    }
    TRY(take_class_char(r, &low));
    high = low;
    if (r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']') {
        r->at++;
        if (r->end - r->at >= 2 && *r->at == '\\' && strchr("dDwWsS", r->at[1]) && r->at[1])
            return bad(r, ERR_INVALID, "a range cannot end with a class");
        TRY(take_class_char(r, &high));
    }
    if (high < low)
        return bad(r, ERR_INVALID, "the end of this range is before its beginning");
    if (!schema_chars_add(set, low, high))
        return bad(r, ERR_LIMIT, "the class has too many parts");
    return ERR_OK;
}

static enum err take_class(struct regex *r, struct schema_chars *set)
{
    bool negated = take_text(r, "^");

    while (r->at < r->end && *r->at != ']')
        TRY(take_class_item(r, set));
    if (!take_text(r, "]"))
        return bad(r, ERR_INVALID, "this class has no end");
    if (negated && !schema_chars_complement(set))
        return bad(r, ERR_LIMIT, "the class has too many parts");
    return ERR_OK;
}

/* A character, an escape, a class or '.'. */
static enum err take_chars(struct regex *r, struct schema_chars *set)
{
    uint32_t code;
    bool ok = true;

    if (take_text(r, "["))
        return take_class(r, set);
    if (take_text(r, ".")) {
        ok = schema_chars_add(set, '\n', '\n') && schema_chars_add(set, '\r', '\r') &&
             schema_chars_add(set, 0x2028, 0x2029) && schema_chars_complement(set);
        assert(ok);
        return ERR_OK;
    }
    if (*r->at == '\\') {
        if (++r->at == r->end)
            return bad(r, ERR_INVALID, "the pattern ends with a backslash");
        if (add_named(*r->at, set, &ok)) {
            r->at++;
            assert(ok);
            return ERR_OK;
        }
        TRY(take_escape(r, &code));
    } else {
        code = utf8_next(&r->at, r->end);
    }
    ok = schema_chars_add(set, code, code);
    assert(ok);
    return ERR_OK;
}

/* ---- parse: structure ---- */

static bool take_number(struct regex *r, uint32_t *number)
{
    const char *begin = r->at;

    for (*number = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        *number = MIN(*number * 10 + (uint32_t)(*r->at - '0'), SCHEMA_REPEAT_MAX + 1);
    return r->at > begin;
}

/* {m}, {m,} or {m,n}; anything else after '{' is literal text, as in ECMAScript's web mode. */
static bool take_braces(struct regex *r, uint32_t *min, uint32_t *max)
{
    const char *begin = r->at;

    if (take_text(r, "{") && take_number(r, min)) {
        *max = *min;
        if (take_text(r, ",") && !take_number(r, max))
            *max = SCHEMA_FOREVER;
        if (take_text(r, "}"))
            return true;
    }
    r->at = begin;
    return false;
}

static bool at_repetition(const struct regex *r)
{
    struct regex ahead = *r;
    uint32_t min, max;

    return at_text(r, "*") || at_text(r, "+") || at_text(r, "?") || take_braces(&ahead, &min, &max);
}

static enum err parse_alternatives(struct regex *r, struct schema_node **node);

static enum err parse_group(struct regex *r, struct schema_node **node)
{
    if (at_text(r, "?=") || at_text(r, "?!") || at_text(r, "?<=") || at_text(r, "?<!"))
        return bad(r, ERR_UNSUPPORTED,
                   "look-around cannot be enforced; say what is allowed instead");
    if (take_text(r, "?<") || take_text(r, "?P<")) {
        while (r->at < r->end && *r->at != '>')
            r->at++;
        if (!take_text(r, ">"))
            return bad(r, ERR_INVALID, "the name of this group has no end");
    } else if (!take_text(r, "?:") && at_text(r, "?")) {
        return bad(r, ERR_UNSUPPORTED, "only (...), (?:...) and (?<name>...) are supported");
    }
    if (++r->depth > REGEX_DEPTH_MAX)
        return bad(r, ERR_LIMIT, "groups are nested deeper than 24");
    TRY(parse_alternatives(r, node));
    r->depth--;
    return take_text(r, ")") ? ERR_OK : bad(r, ERR_INVALID, "this group has no end");
}

static enum err parse_atom(struct regex *r, struct schema_node **node)
{
    if (take_text(r, "("))
        return parse_group(r, node);
    if (take_text(r, "^"))
        return make(r, SCHEMA_NODE_BEGIN, node);
    if (take_text(r, "$"))
        return make(r, SCHEMA_NODE_END, node);
    if (at_repetition(r))
        return bad(r, ERR_INVALID, "there is nothing to repeat here");
    TRY(make(r, SCHEMA_NODE_CHARS, node));
    (*node)->chars = arena_alloc(&r->c->arena, sizeof(*(*node)->chars));
    if ((*node)->chars == NULL)
        return schema_no_memory(r->c);
    return take_chars(r, (*node)->chars);
}

static enum err parse_repeated(struct regex *r, struct schema_node **node)
{
    uint32_t min = 0, max = SCHEMA_FOREVER;
    struct schema_node *child;

    TRY(parse_atom(r, node));
    if (take_text(r, "*"))
        min = 0;
    else if (take_text(r, "+"))
        min = 1;
    else if (take_text(r, "?"))
        max = 1;
    else if (!take_braces(r, &min, &max))
        return ERR_OK;
    take_text(r, "?"); /* lazy: matches the same texts */
    if (at_repetition(r))
        return bad(r, ERR_INVALID, "a repetition of a repetition; put a group around the first");
    if (max < min)
        return bad(r, ERR_INVALID, "the largest number of repetitions is below the smallest");
    if (min > SCHEMA_REPEAT_MAX || (max != SCHEMA_FOREVER && max > SCHEMA_REPEAT_MAX))
        return bad(r, ERR_LIMIT, "too many repetitions");
    child = *node;
    TRY(make(r, SCHEMA_NODE_REPEAT, node));
    (*node)->min = min;
    (*node)->max = max;
    add_child(*node, child);
    return ERR_OK;
}

static enum err parse_sequence(struct regex *r, struct schema_node **node)
{
    TRY(make(r, SCHEMA_NODE_SEQ, node));
    while (r->at < r->end && *r->at != '|' && *r->at != ')') {
        struct schema_node *child;
        TRY(parse_repeated(r, &child));
        add_child(*node, child);
    }
    /* A group with a single child is not a level. */
    if ((*node)->first != NULL && (*node)->first->next == NULL)
        *node = (*node)->first;
    return ERR_OK;
}

static enum err parse_alternatives(struct regex *r, struct schema_node **node)
{
    struct schema_node *first;

    TRY(parse_sequence(r, &first));
    *node = first;
    if (r->at == r->end || *r->at != '|')
        return ERR_OK;
    TRY(make(r, SCHEMA_NODE_ALT, node));
    add_child(*node, first);
    while (take_text(r, "|")) {
        struct schema_node *child;
        TRY(parse_sequence(r, &child));
        add_child(*node, child);
    }
    return ERR_OK;
}

/* ---- trim ---- */

static enum err make_anything(struct regex *r, struct schema_node **node)
{
    struct schema_node *child;

    TRY(make(r, SCHEMA_NODE_CHARS, &child));
    child->rule = SCHEMA_RULE_CHAR;
    TRY(make(r, SCHEMA_NODE_REPEAT, node));
    (*node)->max = SCHEMA_FOREVER;
    add_child(*node, child);
    return ERR_OK;
}

/* One alternative of the whole: without its anchors, with "anything" where one is missing, unless
 * the pattern must match all of the text. */
static enum err trim_sequence(struct regex *r, struct schema_node *node,
                              struct schema_node **trimmed)
{
    struct schema_node *child = node->kind == SCHEMA_NODE_SEQ ? node->first : node, *next;
    bool begins = child != NULL && child->kind == SCHEMA_NODE_BEGIN, ends = false;

    assert(node->next == NULL);
    TRY(make(r, SCHEMA_NODE_SEQ, trimmed));
    if (!begins && !r->c->plain) {
        TRY(make_anything(r, &next));
        add_child(*trimmed, next);
    }
    for (child = begins ? child->next : child; child != NULL; child = next) {
        next = child->next;
        child->next = NULL;
        ends = child->kind == SCHEMA_NODE_END && next == NULL;
        if (!ends)
            add_child(*trimmed, child);
    }
    if (!ends && !r->c->plain) {
        TRY(make_anything(r, &next));
        add_child(*trimmed, next);
    }
    return ERR_OK;
}

static enum err trim(struct regex *r, struct schema_node **top)
{
    struct schema_node *all, *next;

    if ((*top)->kind != SCHEMA_NODE_ALT)
        return trim_sequence(r, *top, top);
    TRY(make(r, SCHEMA_NODE_ALT, &all));
    for (struct schema_node *child = (*top)->first; child != NULL; child = next) {
        struct schema_node *trimmed;
        next = child->next;
        child->next = NULL;
        TRY(trim_sequence(r, child, &trimmed));
        add_child(all, trimmed);
    }
    *top = all;
    return ERR_OK;
}

/* ---- lengths ---- */

static uint32_t add_length(uint32_t a, uint32_t b)
{
    return a == SCHEMA_FOREVER || b == SCHEMA_FOREVER || a + b < a ? SCHEMA_FOREVER : a + b;
}

static uint32_t multiply_length(uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0)
        return 0;
    return a == SCHEMA_FOREVER || b > SCHEMA_FOREVER / a ? SCHEMA_FOREVER : a * b;
}

static void lengths(const struct schema_node *node, uint32_t *min, uint32_t *max)
{
    bool alternative = node->kind == SCHEMA_NODE_ALT;

    *min = node->kind == SCHEMA_NODE_CHARS;
    *max = *min;
    for (const struct schema_node *child = node->first; child != NULL; child = child->next) {
        uint32_t low, high;
        lengths(child, &low, &high);
        *min = !alternative ? add_length(*min, low) : child == node->first ? low : MIN(*min, low);
        *max = alternative ? MAX(*max, high) : add_length(*max, high);
    }
    if (node->kind == SCHEMA_NODE_REPEAT) {
        *min = multiply_length(*min, node->min);
        *max = multiply_length(*max, node->max);
    }
}

/* ---- prepare and put ---- */

/* The only character of a set, or UINT32_MAX. */
static uint32_t only_char(const struct schema_node *node)
{
    const struct schema_chars *set = node->chars;

    if (node->kind != SCHEMA_NODE_CHARS || set == NULL || set->count != 1 ||
        set->ranges[0].low != set->ranges[0].high)
        return UINT32_MAX;
    return set->ranges[0].low;
}

/* Without control characters, except tabs and line ends. */
static bool keep_text(struct schema_chars *set)
{
    return schema_chars_complement(set) && schema_chars_add(set, 0, '\t' - 1) &&
           schema_chars_add(set, '\n' + 1, '\r' - 1) && schema_chars_add(set, '\r' + 1, ' ' - 1) &&
           schema_chars_complement(set);
}

static enum err write_class_rule(struct regex *r, struct schema_node *node)
{
    static const char escaped[] = "\"\\\b\f\n\r\t";
    struct schema_chars raw = *node->chars;
    struct schema_compiler *c = r->c;
    const char *between = "";

    if (!(c->plain ? keep_text(&raw) : schema_chars_keep_raw(&raw)))
        return bad(r, ERR_LIMIT, "a class has too many parts");
    TRY(schema_rule_begin(c, &node->rule));
    if (raw.count > 0) {
        schema_put_ranges(c, &raw);
        between = "|";
    }
    for (const char *at = escaped; *at != '\0'; at++) {
        if (c->plain || !schema_chars_has(node->chars, (unsigned char)*at))
            continue;
        schema_put(c, between);
        buf_append_char(c->out, '"');
        schema_put_json_char(c, (unsigned char)*at);
        schema_put(c, "\"");
        between = "|";
    }
    if (*between == '\0')
        return bad(r, ERR_UNSUPPORTED, "a class allows no character that can be generated");
    return schema_rule_end(c);
}

static void put(struct regex *r, const struct schema_node *node);

static void put_char(struct regex *r, uint32_t code)
{
    buf_append_char(r->c->out, '"');
    if (r->c->plain)
        schema_put_char(r->c, code);
    else
        schema_put_json_char(r->c, code);
    schema_put(r->c, "\"");
}

static void put_children(struct regex *r, const struct schema_node *node, const char *between)
{
    for (const struct schema_node *child = node->first; child != NULL; child = child->next) {
        if (child != node->first)
            schema_put(r->c, between);
        put(r, child);
    }
}

static void put_sequence(struct regex *r, const struct schema_node *node)
{
    if (node->first == NULL)
        schema_put(r->c, "\"\"");
    put_children(r, node, "");
}

static void put(struct regex *r, const struct schema_node *node)
{
    if (node->rule != 0)
        schema_put_rule(r->c, node->rule);
    else if (node->kind == SCHEMA_NODE_CHARS)
        put_char(r, only_char(node));
    else if (node->kind == SCHEMA_NODE_SEQ)
        put_sequence(r, node);
    else
        assert(!"prepare made a rule of it");
}

static enum err prepare(struct regex *r, struct schema_node *node, bool inner);

/* Makes a rule for the node, if it has none. */
static enum err make_rule(struct regex *r, struct schema_node *node)
{
    uint32_t rule;

    if (node->rule != 0)
        return ERR_OK;
    TRY(schema_rule_begin(r->c, &rule));
    if (node->kind == SCHEMA_NODE_ALT)
        put_children(r, node, "|");
    else
        put(r, node);
    TRY(schema_rule_end(r->c));
    node->rule = rule;
    return ERR_OK;
}

static enum err prepare_repeat(struct regex *r, struct schema_node *node)
{
    TRY(make_rule(r, node->first));
    return schema_repeat(r->c, node->first->rule, node->min, node->max, &node->rule);
}

static enum err prepare(struct regex *r, struct schema_node *node, bool inner)
{
    for (struct schema_node *child = node->first; child != NULL; child = child->next)
        TRY(prepare(r, child, true));
    switch (node->kind) {
    case SCHEMA_NODE_CHARS:
        return node->rule == 0 && only_char(node) == UINT32_MAX ? write_class_rule(r, node)
                                                                : ERR_OK;
    case SCHEMA_NODE_ALT:
        return inner ? make_rule(r, node) : ERR_OK;
    case SCHEMA_NODE_REPEAT:
        return prepare_repeat(r, node);
    case SCHEMA_NODE_SEQ:
        return ERR_OK;
    default:
        assert(!"is_plain");
        return ERR_OK;
    }
}

/* ---- the whole ---- */

/* Whether rules can follow the tree: no anchors inside, and no repeated group that can be empty. */
static bool is_plain(const struct schema_node *node)
{
    uint32_t low = 1, high;

    if (node->kind == SCHEMA_NODE_BEGIN || node->kind == SCHEMA_NODE_END)
        return false;
    if (node->kind == SCHEMA_NODE_REPEAT)
        lengths(node->first, &low, &high);
    if (low == 0 && node->max > 1)
        return false;
    for (const struct schema_node *child = node->first; child != NULL; child = child->next)
        if (!is_plain(child))
            return false;
    return true;
}

/* Adjusts the count of the only class that is repeated without end, if everything else has one
 * length. `loose`: or a few, of which the longest counts. */
static bool fit_count(struct schema_node *top, uint32_t min, uint32_t max, bool loose)
{
    struct schema_node *repeat = NULL;
    uint32_t shortest = 0, longest = 0, low, high;

    for (struct schema_node *child = top->first; child != NULL; child = child->next) {
        bool class = child->kind == SCHEMA_NODE_REPEAT && child->first->kind == SCHEMA_NODE_CHARS;
        lengths(child, &low, &high);
        if (class && low != high && repeat == NULL && (!loose || high == SCHEMA_FOREVER))
            repeat = child;
        else if (low != high && (!loose || high > LOOSE_MAX))
            return false;
        else
            shortest += low, longest += high;
    }
    if (top->kind != SCHEMA_NODE_SEQ || repeat == NULL || max < longest)
        return false;
    repeat->min = MAX(repeat->min, min > shortest ? min - shortest : 0);
    repeat->max = MIN(repeat->max, max == SCHEMA_FOREVER ? max : max - longest);
    return repeat->min <= repeat->max;
}

enum err schema_parse_regex(struct schema_compiler *c, const struct schema_place *place,
                            struct str pattern, struct schema_node **top)
{
    struct regex r = {.c = c, .place = place, .begin = pattern.ptr, .at = pattern.ptr};

    r.end = r.begin + pattern.len;
    if (pattern.len > PATTERN_BYTES_MAX)
        return bad(&r, ERR_LIMIT, "it is longer than 4096 bytes");
    TRY(parse_alternatives(&r, top));
    if (r.at != r.end)
        return bad(&r, ERR_INVALID, "this ')' closes no group");
    return ERR_OK;
}

/* The tree as rules; *done is false if that cannot be done. */
static enum err compile_tree(struct schema_compiler *c, const struct schema_texts *texts,
                             struct schema_counts counts, bool loose, uint32_t *rule, bool *done)
{
    struct regex r = {.c = c, .place = texts->place, .begin = texts->pattern.ptr};
    struct schema_node *top;
    uint32_t low, high;

    *rule = SCHEMA_NEVER;
    TRY(schema_parse_regex(c, texts->place, texts->pattern, &top));
    TRY(trim(&r, &top));
    lengths(top, &low, &high);
    bool never = counts.min > high || counts.max < low;
    *done = is_plain(top) && (never || (low >= counts.min && high <= counts.max) ||
                              fit_count(top, counts.min, counts.max, loose));
    if (never || !*done)
        return ERR_OK;
    r.at = r.end = texts->pattern.ptr + texts->pattern.len;
    TRY(prepare(&r, top, false));
    TRY(make_rule(&r, top));
    *rule = top->rule;
    return ERR_OK;
}

static enum err compile_dfa(struct schema_compiler *c, const struct schema_texts *patterns,
                            size_t count, uint32_t min, uint32_t max, uint32_t *rule)
{
    struct schema_wanted wanted = {.labels = UINT32_MAX >> (32 - count), .min = min, .max = max};
    struct schema_dfa *dfa;

    enum err err = schema_dfa_create(c, patterns, count, &dfa);
    if (err == ERR_OK)
        err = schema_dfa_write(dfa, &wanted, rule);
    schema_dfa_destroy(&dfa);
    return err;
}

struct schema_text {
    struct schema_text *next;
    struct str pattern;
    uint32_t min, max, rule;
};

/* The same pattern often stands in many places: it becomes rules once. */
static enum err remember(struct schema_compiler *c, struct str pattern, uint32_t min, uint32_t max,
                         uint32_t rule)
{
    struct schema_text *text = arena_alloc(&c->arena, sizeof(*text));

    if (text == NULL)
        return schema_no_memory(c);
    *text = (struct schema_text){c->texts, pattern, min, max, rule};
    c->texts = text;
    return ERR_OK;
}

enum err schema_compile_regex(struct schema_compiler *c, const struct schema_texts *patterns,
                              size_t count, uint32_t min, uint32_t max, uint32_t *rule)
{
    struct schema_counts counts = {.min = min, .max = max};
    bool done = false;

    assert(count > 0 && count <= SCHEMA_LABELS_MAX);
    for (struct schema_text *text = c->texts; text != NULL && count == 1; text = text->next)
        if (str_eq(text->pattern, patterns->pattern) && text->min == min && text->max == max) {
            *rule = text->rule;
            return ERR_OK;
        }
    if (count == 1)
        TRY(compile_tree(c, patterns, counts, false, rule, &done));
    if (!done) {
        enum err err = compile_dfa(c, patterns, count, min, max, rule);
        if (err == ERR_UNSUPPORTED && count == 1) /* a little less than the schema allows */
            TRY(compile_tree(c, patterns, counts, true, rule, &done));
        if (!done)
            TRY(err);
    }
    return count == 1 ? remember(c, patterns->pattern, min, max, *rule) : ERR_OK;
}
