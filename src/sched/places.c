/* places.c: one pass over the bytes of a prompt. */
#include "sched/places.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"

enum {
    HEAD_MAX = 28, /* bytes of a line that give its kind */
    LABEL_MAX = 24,
    APART = 8, /* tokens between two places, unless the second one is settled */
    PIECE_MAX = 256,
};

struct finder {
    const struct places_text *text;
    struct places *places;
    size_t cap;
    uint32_t newlines; /* in the white space that ends here; 0: the line has text */
    bool newline;      /* this token has one */
    bool template;     /* the line has a control token: it is not the client's */
    bool open;         /* the last place still needs its kind: */
    bool blank;        /* there is a blank line before it */
    char head[HEAD_MAX];
    size_t head_len;
    uint32_t settled; /* end of the window that has a settled place */
};

static bool is_label(const char *head, size_t len)
{
    if (len == 0 || !isalpha((unsigned char)head[0]))
        return false;
    for (size_t i = 1; i < len && i <= LABEL_MAX; i++) {
        if (head[i] == ':')
            return true;
        if (!isalnum((unsigned char)head[i]) && strchr(" _-", head[i]) == NULL)
            return false;
    }
    return false;
}

static bool is_item(const char *head, size_t len)
{
    size_t digits = 0;

    while (digits < len && isdigit((unsigned char)head[digits]))
        digits++;
    if (digits > 0 && digits < len)
        return strchr(".)", head[digits]) != NULL;
    return (len >= 2 && strchr("-*+", head[0]) != NULL && head[1] == ' ') ||
           (len >= 1 && strchr("{[", head[0]) != NULL) ||
           (len >= 3 && memcmp(head, "\xE2\x80\xA2", 3) == 0);
}

static bool starts(const char *head, size_t len, const char *with)
{
    return len >= strlen(with) && memcmp(head, with, strlen(with)) == 0;
}

static enum place_kind kind_of(const char *head, size_t len, bool blank)
{
    for (; len > 0 && strchr(" \t", head[0]) != NULL; head++)
        len--;
    if (starts(head, len, "#") || starts(head, len, "---") || starts(head, len, "===") ||
        starts(head, len, "***"))
        return PLACE_HEADING;
    if (starts(head, len, "```") || starts(head, len, "~~~"))
        return PLACE_FENCE;
    if (len >= 2 && head[0] == '<' && (isalpha((unsigned char)head[1]) || head[1] == '/'))
        return PLACE_TAG;
    if (is_item(head, len))
        return PLACE_ITEM;
    if (!blank)
        return PLACE_LINE;
    return is_label(head, len) ? PLACE_LABEL : PLACE_PARAGRAPH;
}

static void close_place(struct finder *finder)
{
    struct places *places = finder->places;
    struct place *last = &places->list[places->count - 1];

    finder->open = false;
    last->kind = (uint8_t)kind_of(finder->head, finder->head_len, finder->blank);
    if (places->count < 2 || last->settled || last->at >= last[-1].at + APART)
        return;
    /* Of two lines that are this near, the one that says more. */
    if (last->kind < last[-1].kind && !last[-1].settled)
        last[-1] = *last;
    places->count--;
}

static void add_byte(struct finder *finder, char byte)
{
    bool space = byte == ' ' || byte == '\t' || byte == '\r';

    if (finder->open && byte != '\n' && finder->head_len < HEAD_MAX)
        finder->head[finder->head_len++] = byte;
    if (byte == '\n') {
        finder->newline = true;
        if (finder->newlines++ == 0 && finder->open)
            close_place(finder);
    } else if (!space) {
        finder->newlines = 0;
    }
}

static bool add_place(struct finder *finder, uint32_t at)
{
    struct places *places = finder->places;
    bool blank = finder->newlines > 1;

    if (finder->open && finder->blank) /* more white space */
        return true;
    if (!finder->open) {
        if (!mem_try_reserve(&places->list, places->count + 1, &finder->cap, sizeof(*places->list)))
            return false;
        places->list[places->count++] = (struct place){.settled = false};
    }
    struct place *place = &places->list[places->count - 1];
    place->at = at;
    place->settled = blank && at >= finder->settled;
    if (place->settled)
        finder->settled = at - at % finder->text->window + finder->text->window;
    finder->open = true;
    finder->blank = blank;
    finder->head_len = 0;
    return true;
}

/* False: no memory. */
static bool add_token(struct finder *finder, uint32_t index)
{
    const struct places_text *text = finder->text;
    char bytes[PIECE_MAX];
    size_t len =
        MIN(engine_token_bytes(text->engine, text->tokens[index], false, bytes, sizeof(bytes)),
            sizeof(bytes));

    finder->newline = false;
    if (len == 0) { /* a control token: messages begin and end there, and marks say so */
        if (finder->open)
            close_place(finder);
        finder->template = true;
        finder->newlines = 0;
        return true;
    }
    for (size_t i = 0; i < len; i++)
        add_byte(finder, bytes[i]);
    if (finder->newlines == 0 || !finder->newline)
        return true;
    if (finder->template) {
        finder->template = false;
        finder->newlines = 0;
        return true;
    }
    return add_place(finder, index + 1);
}

/* Parts are places wherever a line begins. */
static bool add_parts(struct finder *finder)
{
    const struct places_text *text = finder->text;
    struct places *places = finder->places;

    for (size_t i = 0; i < text->marks_count; i++) {
        const struct mark *mark = &text->marks[i];
        if (mark->kind != MARK_PART || mark->at == 0 || mark->at >= text->count)
            continue;
        size_t next = places->count;
        while (next > 0 && places->list[next - 1].at >= mark->at)
            next--;
        if (next < places->count && places->list[next].at == mark->at) {
            places->list[next].kind = PLACE_PART;
            continue;
        }
        if (!mem_try_reserve(&places->list, places->count + 1, &finder->cap, sizeof(*places->list)))
            return false;
        memmove(&places->list[next + 1], &places->list[next],
                (places->count++ - next) * sizeof(*places->list));
        places->list[next] = (struct place){.at = (uint32_t)mark->at, .kind = PLACE_PART};
    }
    return true;
}

enum err places_find(const struct places_text *text, struct places *places)
{
    struct finder finder = {.text = text, .places = places};
    bool found = true;

    *places = (struct places){0};
    for (uint32_t i = 0; found && i < text->count; i++)
        found = add_token(&finder, i);
    if (found && finder.open)
        close_place(&finder);
    if (found && add_parts(&finder))
        return ERR_OK;
    places_fini(places);
    return ERR_NOMEM;
}

void places_fini(struct places *places)
{
    mem_free(places->list);
    *places = (struct places){0};
}
