/*
 * template_marks.c: finds where messages begin and end, from the iterations of the template's
 * loops.
 *
 * A template writes messages in a loop over them, and the text up to the beginning of an iteration
 * is a function of the messages before it, unless the template looks ahead; then the text itself
 * changes as well. Iterations that write nothing are passes that count or search. A message that is
 * not written in exactly one iteration has no marks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "chat/neutral.h"
#include "chat/template_impl.h"

static int compare_objects(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct chat_round *)a)->object;
    uintptr_t y = (uintptr_t)((const struct chat_round *)b)->object;

    return (x > y) - (x < y);
}

enum err chat_rounds_init(struct chat_rounds *rounds, const struct chat_shape *shape,
                          const struct buf *text, struct arena *arena)
{
    *rounds = (struct chat_rounds){.count = shape->item_count, .text = text};
    rounds->rounds = arena_alloc_array(arena, shape->item_count, sizeof(*rounds->rounds));
    if (rounds->rounds == NULL)
        return arena->err;
    for (size_t i = 0; i < shape->item_count; i++)
        rounds->rounds[i] =
            (struct chat_round){.object = shape->items[i].object, .item = (uint32_t)i};
    qsort(rounds->rounds, rounds->count, sizeof(*rounds->rounds), compare_objects);
    return ERR_OK;
}

void chat_rounds_on_round(void *arg, const struct jinja_value *item, bool end)
{
    struct chat_rounds *rounds = arg;
    struct chat_round key = {.object = item->dict};

    if (item->kind != JINJA_DICT)
        return;
    struct chat_round *round =
        bsearch(&key, rounds->rounds, rounds->count, sizeof(key), compare_objects);
    if (round == NULL)
        return;
    if (!end && round->depth++ == 0)
        round->open = rounds->text->len;
    if (end && --round->depth == 0 && rounds->text->len > round->open) {
        round->begin = round->open;
        round->end = rounds->text->len;
        round->writes++;
    }
}

/* The marks under construction. */
struct marks {
    const struct chat_render *render;
    size_t answered; /* items up to the last answer */
    struct mark *marks;
    size_t count;
};

static void add(struct marks *building, struct mark mark)
{
    if (mark.at <= building->render->text.len &&
        !building->render->tmpl->mark_off[mark.kind][mark.role])
        building->marks[building->count++] = mark;
}

/* At the same place, ends come before begins. */
static int compare_marks(const void *a, const void *b)
{
    static const int order[] = {
        [MARK_MESSAGE_END] = 0, [MARK_SYSTEM_END] = 1, [MARK_MESSAGE_BEGIN] = 2,
        [MARK_TRANSIENT] = 3,   [MARK_PART] = 3,       [MARK_CUT] = 3,
        [MARK_GENERATION] = 4};
    const struct mark *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return order[x->kind] != order[y->kind] ? order[x->kind] - order[y->kind]
                                            : (x->message > y->message) - (x->message < y->message);
}

size_t chat_marks_end(const struct chat_render *render)
{
    uint32_t last = (uint32_t)render->rounds.count - 1;

    for (size_t i = 0; i < render->rounds.count; i++)
        if (render->rounds.rounds[i].item == last && render->rounds.rounds[i].writes == 1)
            return render->rounds.rounds[i].end;
    return SIZE_MAX;
}

/* Text of the client that may be gone next turn. Before the last answer it has stayed. */
static void add_transient(struct marks *building, const struct chat_round *round, struct mark mark)
{
    struct str text = {building->render->text.ptr + round->begin, round->end - round->begin};
    bool may_go =
        round->item >= building->answered && (mark.role == ROLE_USER || mark.role == ROLE_TOOL);
    size_t at = may_go ? neutral_find_transient(text) : SIZE_MAX;

    mark.kind = MARK_TRANSIENT;
    mark.at = round->begin + at;
    if (at != SIZE_MAX)
        add(building, mark);
}

/* Where the client's own text of a message begins. */
static size_t text_begin(const struct chat_render *render, const struct chat_round *round)
{
    uint32_t message = render->shape->items[round->item].message;

    for (size_t i = 0; i < render->span_count; i++)
        if (render->spans[i].begin >= round->begin &&
            chat_shape_message_of(render->shape, render->spans[i].origin) == message)
            return MIN(render->spans[i].begin, round->end);
    return round->end;
}

/* The end of a text of the client that begins at `at` or later; SIZE_MAX: templates may write it
 * otherwise than it came. */
static size_t text_end(const struct marks *building, const struct chat_round *round, size_t at,
                       struct str text)
{
    text = str_trim(text); /* as many templates do */
    if (at == SIZE_MAX)
        return at;
    size_t found = str_find((struct str){building->render->text.ptr + at, round->end - at}, text);
    return found == SIZE_MAX ? found : at + found + text.len;
}

static void add_cut(struct marks *building, const struct chat_round *round, struct mark mark)
{
    const struct message *message = &building->render->request->messages[mark.message];

    if (message->cut_parts == 0 || message->cut_parts > message->parts_count)
        return;
    mark.kind = MARK_CUT;
    mark.at = text_begin(building->render, round);
    for (size_t i = 0; i < message->cut_parts; i++) {
        struct str text = message->parts[i].text;
        if (i + 1 == message->cut_parts)
            text.len = MIN(text.len, message->cut_bytes);
        mark.at = text_end(building, round, mark.at, text);
    }
    add(building, mark);
}

/* Where the last parts of a message begin: a document is often asked about more than once. */
static void add_parts(struct marks *building, const struct chat_round *round, struct mark mark)
{
    const struct message *message = &building->render->request->messages[mark.message];
    size_t begin = text_begin(building->render, round);

    mark.kind = MARK_PART;
    mark.at = begin;
    for (size_t i = 0; i + 1 < message->parts_count; i++) {
        mark.at = text_end(building, round, mark.at, message->parts[i].text);
        if (i + 1 + PARTS_MARKED >= message->parts_count && mark.at > begin)
            add(building, mark);
    }
    for (size_t i = 0; i < message->blocks_count && message->parts_count == 1; i++) {
        struct str text = {message->parts[0].text.ptr, message->blocks[i]};
        mark.at = text_end(building, round, begin, text);
        add(building, mark);
    }
}

static void add_message(struct marks *building, const struct chat_round *round)
{
    const struct chat_render *render = building->render;
    const struct chat_item *item = &render->shape->items[round->item];
    bool last = round->item + 1 == render->rounds.count;
    struct mark mark = {round->begin, MARK_MESSAGE_BEGIN, item->message, item->role};

    if (round->writes != 1 || item->message == CHAT_FROM_TOOLS)
        return;
    add(building, mark);
    if (render->request->transient)
        add_transient(building, round, mark);
    add_cut(building, round, mark);
    add_parts(building, round, mark);
    if (last && render->open)
        return;
    mark.kind = MARK_MESSAGE_END;
    /* An iteration that also opens the answer ends where the opening begins. */
    mark.at = last && render->tmpl->generation_twice && render->generation < round->end
                  ? render->generation
                  : round->end;
    add(building, mark);
}

static bool is_preamble(const struct chat_shape *shape, uint32_t message)
{
    return message < shape->leading || message == CHAT_FROM_TOOLS;
}

/* Where system text and tools end if they come before all other text of the client. */
static size_t preamble_end(const struct chat_render *render)
{
    const struct chat_shape *shape = render->shape;
    size_t end = 0;

    for (size_t i = 0; i < render->span_count; i++) {
        const struct jinja_span *span = &render->spans[i];
        uint32_t message = chat_shape_message_of(shape, span->origin);
        if (is_preamble(shape, message)) {
            end = span->end;
        } else if (message != CHAT_FROM_ELSEWHERE) {
            struct str text = {render->text.ptr + span->begin, render->text.len - span->begin};
            bool folded = shape->folded.len > 0 && str_starts(text, shape->folded);
            return folded ? span->begin + shape->folded.len : end;
        }
    }
    return end;
}

/* Where the first message after the preamble begins; the generation prompt if there is none. 0:
 * unknown. */
static size_t first_begin(const struct chat_render *render)
{
    const struct chat_round *first = NULL;

    for (size_t i = 0; i < render->rounds.count; i++) {
        const struct chat_round *round = &render->rounds.rounds[i];
        if ((first == NULL || round->item < first->item) &&
            !is_preamble(render->shape, render->shape->items[round->item].message))
            first = round;
    }
    if (first == NULL)
        return render->generation == SIZE_MAX ? 0 : render->generation;
    return first->writes == 1 ? first->begin : 0;
}

static void add_system_end(struct marks *building)
{
    size_t begin = first_begin(building->render);
    size_t preamble = building->render->tmpl->preamble_moves ? 0 : preamble_end(building->render);
    uint32_t leading = building->render->shape->leading;
    struct mark mark = {preamble > begin ? preamble : begin, MARK_SYSTEM_END,
                        leading > 0 ? leading - 1 : 0, ROLE_SYSTEM};

    /* BOS alone is not a preamble. */
    if (mark.at > strlen(building->render->tmpl->bos))
        add(building, mark);
}

enum err chat_marks_make(const struct chat_render *render, struct arena *arena,
                         struct chat_text *out)
{
    const struct chat_item *items = render->shape->items;
    const struct chat_item *last = &items[render->rounds.count - 1];
    struct marks building = {.render = render, .answered = render->rounds.count};

    while (building.answered > 0 && items[building.answered - 1].role != ROLE_ASSISTANT)
        building.answered--;
    building.marks = arena_alloc_array(arena, (4 + PARTS_MARKED) * render->rounds.count + 2,
                                       sizeof(*building.marks));
    if (building.marks == NULL)
        return arena->err;
    for (size_t i = 0; i < render->rounds.count; i++)
        add_message(&building, &render->rounds.rounds[i]);
    add_system_end(&building);
    if (render->generation < render->text.len)
        add(&building,
            (struct mark){render->generation, MARK_GENERATION, last->message, last->role});
    qsort(building.marks, building.count, sizeof(*building.marks), compare_marks);
    out->marks = building.marks;
    out->mark_count = building.count;
    return ERR_OK;
}
