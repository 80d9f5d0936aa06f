/*
 * token_control.c: see tokens_impl.h.
 *
 * Overlap is a question about pairs of tokens, but first characters rule out nearly all pairs: a
 * token can begin inside another only if that one contains its first character after its own first.
 * Vocabularies with thousands of control tokens take a few milliseconds.
 */
#include "chat/tokens_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "engine/engine.h"

enum { TOKEN_BYTES_MAX = 1024, TEXTS_BYTES_MAX = 64 << 20 };

/* A token that is found by its text, control or not. */
struct special {
    size_t begin, len; /* in the texts */
    int32_t token;
    unsigned traits;
};

struct token_controls {
    struct token_control *entries;
    size_t count, longest; /* longest: bytes of one */
    char *texts;
    bool first[256]; /* bytes that some entry begins with */
    bool spare_words, strip;
};

/* All special tokens, while the set is built. */
struct scan {
    const struct engine *engine;
    struct buf texts;
    struct special *specials;
    size_t count, cap;
    bool first[256], inner[256]; /* bytes that a special begins with; that occur later in one */
    bool space_first;            /* some special begins with white space */
    bool unread;                 /* some special token is too long to be examined */
};

/* ---- reading the vocabulary ---- */

static bool add_special(struct scan *scan, int32_t token, unsigned traits)
{
    char text[TOKEN_BYTES_MAX];
    size_t len = engine_token_bytes(scan->engine, token, true, text, sizeof(text));

    if (len == 0 || len > sizeof(text)) {
        scan->unread |= len > 0;
        return true;
    }
    if (!mem_try_reserve(&scan->specials, scan->count + 1, &scan->cap, sizeof(*scan->specials)))
        return false;
    scan->specials[scan->count++] = (struct special){scan->texts.len, len, token, traits};
    scan->first[(unsigned char)text[0]] = true;
    for (size_t i = 1; i < len; i++)
        scan->inner[(unsigned char)text[i]] = true;
    scan->space_first |= str_is_space(text[0]);
    return buf_append(&scan->texts, text, len) == ERR_OK;
}

static bool read_vocabulary(struct scan *scan)
{
    for (uint32_t token = 0; token < engine_facts(scan->engine)->vocab; token++) {
        unsigned traits = engine_token_traits(scan->engine, (int32_t)token);
        if ((traits & (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_MARKER)) &&
            !add_special(scan, (int32_t)token, traits))
            return false;
    }
    return true;
}

/* ---- safe to cut? ---- */

static struct str special_text(const struct scan *scan, const struct special *special)
{
    return (struct str){buf_str(&scan->texts) + special->begin, special->len};
}

/* Is some proper suffix of `a` a proper prefix of `b`? */
static bool continues(struct str a, struct str b)
{
    for (size_t k = 1; k < a.len && k < b.len; k++)
        if (memcmp(a.ptr + a.len - k, b.ptr, k) == 0)
            return true;
    return false;
}

static bool conflicts(struct str control, struct str other)
{
    return continues(control, other) || continues(other, control) ||
           (other.len >= control.len && str_find(other, control) != SIZE_MAX);
}

static bool may_conflict(const struct scan *scan, struct str text)
{
    bool may = scan->inner[(unsigned char)text.ptr[0]];

    for (size_t i = 1; i < text.len; i++)
        may |= scan->first[(unsigned char)text.ptr[i]];
    return may;
}

static bool is_safe(const struct scan *scan, const struct special *special)
{
    struct str text = special_text(scan, special);

    if ((special->traits & ENGINE_TOKEN_STRIP_LEFT) || str_is_space(text.ptr[0]) ||
        str_is_space(text.ptr[text.len - 1]) ||
        ((special->traits & ENGINE_TOKEN_STRIP_RIGHT) && scan->space_first))
        return false;
    if (!may_conflict(scan, text))
        return true;
    for (size_t i = 0; i < scan->count; i++)
        if (&scan->specials[i] == special ? continues(text, text)
                                          : conflicts(text, special_text(scan, &scan->specials[i])))
            return false;
    return true;
}

/* ---- the set ---- */

static int compare_entries(const void *a, const void *b)
{
    return str_compare(((const struct token_control *)a)->text,
                       ((const struct token_control *)b)->text);
}

/* An entry that begins with another sorts after it, and so do all entries between them, which begin
 * with it as well. The shorter one is not a safe place to cut; markers that are not entries were
 * compared before. */
static void link_parents(struct token_controls *set)
{
    for (size_t i = 0; i < set->count; i++) {
        int32_t parent = (int32_t)i - 1;
        while (parent >= 0 && !str_starts(set->entries[i].text, set->entries[parent].text))
            parent = set->entries[parent].parent;
        set->entries[i].parent = parent;
        if (parent >= 0)
            set->entries[parent].cut = false;
        if (parent >= 0 && str_eq(set->entries[i].text, set->entries[parent].text))
            set->entries[i].cut = false;
    }
}

bool token_words_end(struct str text, size_t at)
{
    return at > 0 && at + 1 < text.len && text.ptr[at] == ' ' && str_is_letter(text.ptr[at - 1]) &&
           str_is_letter(text.ptr[at + 1]);
}

static bool spares_words(struct str text, unsigned traits)
{
    if ((traits & ENGINE_TOKEN_STRIP_RIGHT) && str_is_letter(text.ptr[text.len - 1]))
        return false;
    for (size_t i = 1; i < text.len; i++)
        if (str_is_letter(text.ptr[i - 1]) && text.ptr[i] == ' ')
            return false;
    return true;
}

static bool begins_a_marker(const struct scan *scan, struct str text)
{
    for (size_t i = 0; i < scan->count; i++)
        if ((scan->specials[i].traits & ENGINE_TOKEN_MARKER) &&
            str_starts(special_text(scan, &scan->specials[i]), text))
            return true;
    return false;
}

static enum err fill(struct token_controls *set, struct scan *scan, unsigned traits)
{
    bool cut = traits == ENGINE_TOKEN_CONTROL;

    if (!read_vocabulary(scan))
        return ERR_NOMEM;
    set->entries = mem_try_alloc_array(scan->count, sizeof(*set->entries));
    if (set->entries == NULL)
        return ERR_NOMEM;
    set->spare_words = !scan->unread;
    for (size_t i = 0; i < scan->count; i++) {
        const struct special *special = &scan->specials[i];
        struct str text = special_text(scan, special);
        set->spare_words &= spares_words(text, special->traits);
        set->strip |= special->traits & (ENGINE_TOKEN_STRIP_LEFT | ENGINE_TOKEN_STRIP_RIGHT);
        if (!(special->traits & traits))
            continue;
        set->longest = MAX(set->longest, text.len);
        set->first[(unsigned char)text.ptr[0]] = true;
        set->entries[set->count++] = (struct token_control){
            .text = text,
            .token = special->token,
            .cut = cut && is_safe(scan, special) && !begins_a_marker(scan, text),
            .marker = special->traits & ENGINE_TOKEN_MARKER,
            .strips = special->traits & ENGINE_TOKEN_STRIP_RIGHT};
    }
    qsort(set->entries, set->count, sizeof(*set->entries), compare_entries);
    link_parents(set);
    set->texts = buf_take(&scan->texts); /* must not move: the entries point into it */
    return ERR_OK;
}

enum err token_controls_create(const struct engine *engine, unsigned traits,
                               struct token_controls **out)
{
    struct token_controls *set = mem_alloc(sizeof(*set));
    struct scan scan = {.engine = engine};

    buf_init(&scan.texts, TEXTS_BYTES_MAX);
    enum err err = fill(set, &scan, traits);
    buf_fini(&scan.texts);
    mem_free(scan.specials);
    if (err != ERR_OK)
        token_controls_destroy(&set);
    *out = set;
    return err;
}

void token_controls_destroy(struct token_controls **controls)
{
    if (*controls == NULL)
        return;
    mem_free((*controls)->entries);
    mem_free((*controls)->texts);
    mem_free(*controls);
    *controls = NULL;
}

/* ---- finding ---- */

/* The longest entry that the text begins with. Any such entry is either the last one that does not
 * sort after the text, or one of its parents. */
static const struct token_control *match(const struct token_controls *set, struct str text)
{
    size_t low = 0, high = set->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_compare(set->entries[middle].text, text) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (int32_t i = (int32_t)low - 1; i >= 0; i = set->entries[i].parent)
        if (str_starts(text, set->entries[i].text))
            return &set->entries[i];
    return NULL;
}

size_t token_controls_find(const struct token_controls *controls, struct str text, size_t at,
                           const struct token_control **found)
{
    for (; at < text.len; at++) {
        if (!controls->first[(unsigned char)text.ptr[at]])
            continue;
        *found = match(controls, str_skip(text, at));
        if (*found != NULL)
            return at;
    }
    *found = NULL;
    return SIZE_MAX;
}

bool token_controls_alone(const struct token_controls *controls, struct str text, size_t begin,
                          const struct token_control *control)
{
    const struct token_control *shorter = token_controls_shorter(controls, control), *other;
    size_t end = begin + control->text.len;
    bool spaced = str_is_space(text.ptr[begin]) || str_is_space(text.ptr[end - 1]);

    if (control->strips || (spaced && controls->strip) || /* another may take its white space */
        (shorter != NULL && str_eq(shorter->text, control->text)))
        return false;
    for (size_t at = begin - MIN(begin, controls->longest); at < end; at++) {
        if (!controls->first[(unsigned char)text.ptr[at]])
            continue;
        other = match(controls, str_skip(text, at));
        if (other != NULL && at + other->text.len > (at < begin ? begin : end))
            return false;
    }
    return true;
}

const struct token_control *token_controls_shorter(const struct token_controls *controls,
                                                   const struct token_control *control)
{
    return control->parent < 0 ? NULL : &controls->entries[control->parent];
}

bool token_controls_spare_words(const struct token_controls *controls)
{
    return controls->spare_words;
}

bool token_controls_strip(const struct token_controls *controls)
{
    return controls->strip;
}

size_t token_controls_count(const struct token_controls *controls)
{
    return controls->count;
}

const struct token_control *token_controls_get(const struct token_controls *controls, size_t i)
{
    return &controls->entries[i];
}
