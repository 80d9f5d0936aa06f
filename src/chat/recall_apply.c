/*
 * recall_apply.c: composes a rendered prompt and remembered turns into segments.
 *
 *    rendered   ...<|im_end|>\n |<|im_start|>assistant\n  Hi.  <|im_end|>\n| <|im_start|>user\n...
 *                               begin                                    end   of the place
 *    composed   TEXT ------------------------------------|TOKENS--------|TEXT "\n" ------------
 *                               opening                   with their end  rest
 *
 * HISTORY identifies everything before a place: a hash of texts and tokens in turn, each followed
 * by its length, so that it can be parsed from its end in only one way and every prefix has its own
 * hash. An opening that the template would not write today is part of the text.
 *
 * A place whose opening or end cannot be found is left to the template: a wrong seam would be worse
 * than a miss.
 */
#include <assert.h>

#include "base/mem.h"
#include "chat/recall_impl.h"

/* An opening that differs from the rendered message must share at least this much with it;
 * otherwise the two are unrelated. */
enum { OPENING_COMMON_MIN = 8 };

struct composer {
    struct recall *recall;
    const struct recall_prompt *prompt;
    struct recall_plan *plan;
    struct hash256_state history;
    uint64_t run;  /* bytes of text since the last tokens */
    size_t at;     /* offset in the rendered text: composed up to here */
    size_t hashed; /* ... and hashed up to here */
};

/* ---- history ---- */

static void hash_run(struct composer *composer, struct str text)
{
    hash256_update(&composer->history, text.ptr, text.len);
    composer->run += text.len;
}

static void hash_up_to(struct composer *composer, size_t end)
{
    assert(end >= composer->hashed);
    hash_run(composer,
             (struct str){composer->prompt->text.ptr + composer->hashed, end - composer->hashed});
    composer->hashed = end;
}

static void hash_tokens(struct composer *composer, const int32_t *tokens, size_t count)
{
    hash256_update_u64(&composer->history, composer->run);
    for (size_t i = 0; i < count; i++)
        hash256_update_u32(&composer->history, (uint32_t)tokens[i]);
    hash256_update_u64(&composer->history, count);
    composer->run = 0;
}

static struct hash256 history_at(struct composer *composer, size_t at)
{
    hash_up_to(composer, at);
    struct hash256_state state = composer->history;
    hash256_update_u64(&state, composer->run);
    return hash256_final(&state);
}

/* ---- one place ---- */

static struct str cut(struct str text, size_t begin, size_t end)
{
    return (struct str){text.ptr + begin, end - begin};
}

/* Where the marker is at the end of the text, ignoring white space; SIZE_MAX if it is not there. */
static size_t find_at_end(struct str text, struct str marker)
{
    struct str head = text;

    while (!str_ends(head, marker)) {
        if (head.len == 0 || str_trim(cut(head, head.len - 1, head.len)).len > 0)
            return SIZE_MAX;
        head.len--;
    }
    return head.len - marker.len;
}

/* Where the text continues after the turn, and how many of its tokens are used. */
struct seam {
    size_t rest;
    size_t tokens;
};

/* The template ends the message with the sampled token, or begins the next message with it, or has
 * its own end marker. */
static bool find_seam(const struct recall_prompt *prompt, const struct recall_place *place,
                      const struct recall_entry *entry, struct seam *seam)
{
    struct str rendered = cut(prompt->text, place->begin, place->end);
    bool ended = entry->end.len > 0;
    size_t at = ended ? find_at_end(rendered, entry->end) : SIZE_MAX;

    if (at != SIZE_MAX) {
        *seam = (struct seam){place->begin + at + entry->end.len, entry->tokens_count};
        return true;
    }
    seam->tokens = entry->tokens_count - (ended ? 1 : 0);
    seam->rest = place->end;
    if (ended && str_starts(cut(prompt->text, place->end, prompt->text.len), entry->end))
        return true;
    at = prompt->end.len > 0 ? find_at_end(rendered, prompt->end) : SIZE_MAX;
    seam->rest = place->begin + at;
    return at != SIZE_MAX;
}

/* The thought comes before the content. */
static bool shows_thought(struct str rendered, const struct recall_place *place,
                          const struct recall_entry *entry)
{
    struct str content = str_trim(place->message.content);

    if (entry->reasoning.len == 0)
        return true;
    for (size_t end = rendered.len; content.len > 0 && end >= content.len; end--) {
        if (str_ends(cut(rendered, 0, end), content)) {
            rendered.len = end - content.len;
            break;
        }
    }
    return str_find(rendered, entry->reasoning) != SIZE_MAX;
}

/* See "the template agrees" in the header. */
static bool template_agrees(const struct recall_prompt *prompt, const struct recall_place *place,
                            const struct recall_entry *entry)
{
    struct str rendered = cut(prompt->text, place->begin, place->end);
    bool thought = shows_thought(rendered, place, entry);

    if ((thought && str_starts(rendered, entry->opening)) || prompt->keep)
        return true;
    return (thought || place->message.reasoning.ptr == NULL) && !place->user_since;
}

static bool is_same(const struct recall_message *message, const struct hash256 *digest,
                    const struct recall_entry *entry)
{
    struct hash256 thought = recall_thought_hash(message->reasoning);

    return hash256_eq(digest, &entry->digest) &&
           (message->reasoning.ptr == NULL || hash256_eq(&thought, &entry->thought));
}

/* Returns a reference, or NULL. */
static struct recall_entry *find(struct composer *composer, const struct recall_place *place,
                                 const struct hash256 *digest)
{
    const struct hash256 *space = &composer->prompt->space;
    uint64_t *wait_ns = composer->prompt->wait_ns;
    struct recall_entry *entry =
        recall_find_message(composer->recall, space, &place->message, wait_ns);

    if (entry != NULL)
        return entry;
    struct hash256 history = history_at(composer, place->begin);
    struct hash256 key = recall_key(space, &history, digest);
    return recall_find_key(composer->recall, &key, wait_ns);
}

static enum recall_outcome check_turn(const struct recall_prompt *prompt,
                                      const struct recall_place *place,
                                      const struct hash256 *digest,
                                      const struct recall_entry *entry, struct seam *seam)
{
    struct str rendered = cut(prompt->text, place->begin, place->end);
    size_t common = str_common(entry->opening, rendered);

    if (!is_same(&place->message, digest, entry))
        return RECALL_DIFFERENT;
    if (common < MIN(entry->opening.len, OPENING_COMMON_MIN) ||
        !find_seam(prompt, place, entry, seam))
        return RECALL_NO_PLACE;
    return template_agrees(prompt, place, entry) ? RECALL_HIT : RECALL_THOUGHT_LEFT_OUT;
}

/* ---- segments ---- */

static void add_segment(struct composer *composer, struct recall_segment segment)
{
    if (segment.type == RECALL_TOKENS ? segment.tokens_count > 0 : segment.text.len > 0)
        composer->plan->segments[composer->plan->segments_count++] = segment;
}

static void add_text(struct composer *composer, size_t end)
{
    size_t begin = composer->at;

    hash_up_to(composer, end);
    add_segment(composer, (struct recall_segment){.type = RECALL_TEXT,
                                                  .begin = begin,
                                                  .end = end,
                                                  .text = cut(composer->prompt->text, begin, end)});
    composer->at = end;
}

static void add_turn(struct composer *composer, const struct recall_place *place,
                     const struct recall_entry *entry, const struct seam *seam)
{
    struct str rendered = cut(composer->prompt->text, place->begin, place->end);
    bool shown = str_starts(rendered, entry->opening);
    size_t begin = place->begin + (shown ? MIN(entry->opening.len, seam->rest - place->begin) : 0);

    add_text(composer, begin);
    if (!shown) {
        add_segment(composer, (struct recall_segment){.type = RECALL_OPENING,
                                                      .begin = begin,
                                                      .end = begin,
                                                      .text = entry->opening});
        hash_run(composer, entry->opening);
    }
    add_segment(composer, (struct recall_segment){.type = RECALL_TOKENS,
                                                  .begin = begin,
                                                  .end = seam->rest,
                                                  .tokens = entry->tokens,
                                                  .tokens_count = seam->tokens});
    hash_tokens(composer, entry->tokens, seam->tokens);
    composer->at = composer->hashed = seam->rest;
}

static enum recall_outcome compose_place(struct composer *composer,
                                         const struct recall_place *place)
{
    struct hash256 digest = recall_digest(&place->message);
    struct recall_entry *entry = find(composer, place, &digest);
    struct seam seam;

    if (entry == NULL)
        return RECALL_UNKNOWN;
    enum recall_outcome outcome = check_turn(composer->prompt, place, &digest, entry, &seam);
    if (outcome != RECALL_HIT) {
        recall_release(composer->recall, &entry, 1);
        return outcome;
    }
    add_turn(composer, place, entry, &seam);
    composer->plan->held[composer->plan->held_count++] = entry;
    composer->plan->hits++;
    return RECALL_HIT;
}

/* Places come from marks, and marks come from an untrusted template. */
static bool fits(const struct composer *composer, const struct recall_place *place)
{
    return place->begin >= composer->at && place->begin >= composer->hashed &&
           place->begin <= place->end && place->end <= composer->prompt->opening_begin;
}

static void compose(struct composer *composer)
{
    const struct recall_prompt *prompt = composer->prompt;

    for (size_t i = 0; i < prompt->places_count; i++)
        composer->plan->outcomes[i] = fits(composer, &prompt->places[i])
                                          ? compose_place(composer, &prompt->places[i])
                                          : RECALL_NO_PLACE;
    composer->plan->history = history_at(composer, prompt->opening_begin);
    add_text(composer, prompt->text.len);
}

enum err recall_apply(struct recall *recall, const struct recall_prompt *prompt,
                      struct recall_plan *plan)
{
    struct composer composer = {.recall = recall, .prompt = prompt, .plan = plan};
    size_t count = prompt->places_count;

    assert(prompt->opening_begin <= prompt->text.len);
    *plan = (struct recall_plan){.recall = recall};
    plan->segments = mem_try_alloc_array(3 * count + 1, sizeof(*plan->segments));
    plan->outcomes = mem_try_alloc_array(count, sizeof(*plan->outcomes));
    plan->held = mem_try_alloc_array(count, sizeof(struct recall_entry *));
    if (plan->segments == NULL || plan->outcomes == NULL || plan->held == NULL) {
        recall_plan_fini(plan);
        return ERR_NOMEM;
    }
    hash256_init(&composer.history);
    compose(&composer);
    recall_count(recall, plan->outcomes, count);
    return ERR_OK;
}

void recall_plan_fini(struct recall_plan *plan)
{
    if (plan->held_count > 0)
        recall_release(plan->recall, plan->held, plan->held_count);
    mem_free(plan->held);
    mem_free(plan->outcomes);
    mem_free(plan->segments);
    *plan = (struct recall_plan){0};
}
