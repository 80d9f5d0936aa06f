/*
 * reasoning.c: three states over held text.
 *
 *      START --opening (or the prompt)--> THOUGHT --closing--> GAP --> ANSWER
 *        `--anything else--> ANSWER          ^---opening that is a control token---'
 *
 * Text is held back only while it may be a marker, or white space next to one. A copy of the
 * thought is kept in case nothing closes it (see the header). If it grows beyond the limit the copy
 * is dropped, not the thought.
 */
#include "output/reasoning.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "output/marker.h"

enum { SLICE_BYTES = 4096, THOUGHT_BYTES_MAX = 256 << 10 };

enum state { START, THOUGHT, GAP, ANSWER };

struct format {
    struct str open;
    struct str close;
    struct str wrap[2];  /* markup around the answer, dropped */
    bool control;        /* markers are control tokens */
    struct str shown[2]; /* a template that contains these uses the format */
};

#define S(literal)                     \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }

static const struct format formats[REASONING_COUNT] = {
    [REASONING_HARMONY] = {.shown = {S("<|channel|>"), S("analysis")}},
    [REASONING_GEMMA] = {.open = S("<|channel>thought\n"),
                         .close = S("<channel|>"),
                         .control = true,
                         .shown = {S("<|channel>"), S("<channel|>")}},
    [REASONING_COHERE] = {.open = S("<|START_THINKING|>"),
                          .close = S("<|END_THINKING|>"),
                          .wrap = {S("<|START_RESPONSE|>"), S("<|END_RESPONSE|>")},
                          .control = true,
                          .shown = {S("<|START_THINKING|>")}},
    [REASONING_SEED] = {.open = S("<seed:think>"),
                        .close = S("</seed:think>"),
                        .shown = {S("<seed:think>")}},
    [REASONING_MISTRAL] = {.open = S("[THINK]"),
                           .close = S("[/THINK]"),
                           .control = true,
                           .shown = {S("[THINK]")}},
    [REASONING_APRIEL] = {.open = S("Here are my reasoning steps:\n"),
                          .close = S("[BEGIN FINAL RESPONSE]"),
                          .wrap = {S("[END FINAL RESPONSE]")},
                          .shown = {S("[BEGIN FINAL RESPONSE]")}},
    [REASONING_THINK] = {.open = S("<think>"), .close = S("</think>"), .shown = {S("</think>")}},
    [REASONING_THINKING] = {.open = S("<thinking>"),
                            .close = S("</thinking>"),
                            .shown = {S("<thinking>"), S("</thinking>")}},
};

struct reasoning {
    const struct format *format;
    struct reasoning_options options;
    output_event_fn *fn;
    void *arg;
    struct buf in; /* undecided text, from `at` on */
    size_t at;
    struct buf thought; /* copy of the open thought; its error says that it was dropped */
    enum state state;
    /* just after an opening: the prompt's (in START) or the text's (in THOUGHT) */
    bool behind_open;
    bool over;
};

static struct str rest(const struct reasoning *reasoning)
{
    return (struct str){buf_str(&reasoning->in) + reasoning->at, reasoning->in.len - reasoning->at};
}

static void emit(struct reasoning *reasoning, enum output_event_type type, struct str text)
{
    struct output_event event = {.type = type, .text = text};

    if (text.len > 0)
        reasoning->fn(&event, reasoning->arg);
}

static void thought(struct reasoning *reasoning, size_t n)
{
    struct str text = {rest(reasoning).ptr, n};

    buf_append(&reasoning->thought, text.ptr, text.len);
    if (reasoning->options.mode == REASONING_SPLIT)
        emit(reasoning, OUTPUT_REASONING, text);
    reasoning->at += n;
}

static void answer(struct reasoning *reasoning, size_t n)
{
    emit(reasoning, OUTPUT_CONTENT, (struct str){rest(reasoning).ptr, n});
    reasoning->at += n;
}

/* Each step returns whether it made progress; false: more text is needed. */
static bool step_start(struct reasoning *reasoning)
{
    const struct format *format = reasoning->format;
    struct str text = rest(reasoning);
    size_t space = marker_space(text);
    struct str after = marker_skip(text, space);
    enum marker_match open = marker_match(after, format->open);
    enum marker_match close = marker_match(after, format->close);

    if (reasoning->behind_open) { /* in the prompt; models may repeat it */
        reasoning->at += space;
        if (open == MARKER_PART && !reasoning->over)
            return false;
        reasoning->at += open == MARKER_YES ? format->open.len : 0;
        reasoning->state = THOUGHT;
        reasoning->behind_open = open == MARKER_YES;
        return true;
    }
    if (space <= MARKER_SPACE_MAX && open != MARKER_YES && close != MARKER_YES &&
        (open == MARKER_PART || close == MARKER_PART) && !reasoning->over)
        return false;
    reasoning->state = ANSWER;
    if (space > MARKER_SPACE_MAX || (open != MARKER_YES && close != MARKER_YES))
        return true;
    reasoning->at += space + (open == MARKER_YES ? format->open.len : format->close.len);
    reasoning->state = open == MARKER_YES ? THOUGHT : GAP;
    reasoning->behind_open = open == MARKER_YES;
    return true;
}

static bool step_thought(struct reasoning *reasoning)
{
    struct str ends[1 + REASONING_OPENERS_MAX] = {reasoning->format->close};
    size_t count = 1;

    if (reasoning->behind_open) { /* white space after the opening */
        reasoning->at += marker_space(rest(reasoning));
        if (rest(reasoning).len == 0)
            return false;
        reasoning->behind_open = false;
    }
    if (reasoning->options.call_openers_control)
        for (size_t i = 0; i < reasoning->options.call_openers_count; i++)
            ends[count++] = reasoning->options.call_openers[i];
    struct str text = rest(reasoning);
    struct marker_hit hit = marker_find(text, ends, count);
    if (hit.which < 0) {
        thought(reasoning, reasoning->over ? text.len : marker_before_space(text, hit.at));
        return false;
    }
    thought(reasoning, marker_before_space(text, hit.at));
    reasoning->at += marker_space(rest(reasoning));
    reasoning->at += hit.which == 0 ? ends[0].len : 0;
    buf_clear(&reasoning->thought);
    reasoning->state = GAP;
    return true;
}

static bool step_gap(struct reasoning *reasoning)
{
    reasoning->at += marker_space(rest(reasoning));
    if (rest(reasoning).len == 0)
        return false;
    reasoning->state = ANSWER;
    return true;
}

static bool step_answer(struct reasoning *reasoning)
{
    const struct format *format = reasoning->format;
    struct str marks[] = {format->control ? format->open : STR_NONE, format->wrap[0],
                          format->wrap[1]};
    struct str text = rest(reasoning);
    struct marker_hit hit = marker_find(text, marks, COUNT_OF(marks));

    if (hit.which < 0) {
        answer(reasoning, reasoning->over ? text.len : hit.at);
        return false;
    }
    answer(reasoning, hit.at);
    reasoning->at += marks[hit.which].len;
    reasoning->behind_open = hit.which == 0;
    reasoning->state = hit.which == 0 ? THOUGHT : ANSWER;
    return true;
}

static enum err run(struct reasoning *reasoning)
{
    static bool (*const steps[])(struct reasoning *) = {
        [START] = step_start, [THOUGHT] = step_thought, [GAP] = step_gap, [ANSWER] = step_answer};

    while (steps[reasoning->state](reasoning))
        ;
    buf_consume(&reasoning->in, reasoning->at);
    reasoning->at = 0;
    return reasoning->in.err;
}

enum reasoning_format reasoning_detect(struct str template_text)
{
    for (int i = REASONING_NONE + 1; i < REASONING_COUNT; i++) {
        const struct str *shown = formats[i].shown;
        if (str_find(template_text, shown[0]) != SIZE_MAX &&
            (shown[1].len == 0 || str_find(template_text, shown[1]) != SIZE_MAX))
            return (enum reasoning_format)i;
    }
    return REASONING_NONE;
}

bool reasoning_is_open(enum reasoning_format format, struct str prompt_tail)
{
    assert((unsigned)format < REASONING_COUNT);
    struct str open = str_trim(formats[format].open);
    return open.len > 0 && str_ends(str_trim(prompt_tail), open);
}

bool reasoning_is_closed(enum reasoning_format format, struct str prompt_tail)
{
    assert((unsigned)format < REASONING_COUNT);
    struct str close = formats[format].close;
    return close.len > 0 && str_ends(str_trim(prompt_tail), close);
}

struct reasoning_markers reasoning_markers(enum reasoning_format format)
{
    assert((unsigned)format < REASONING_COUNT);
    return (struct reasoning_markers){formats[format].open, formats[format].close};
}

struct reasoning *reasoning_create(const struct reasoning_options *options, output_event_fn *fn,
                                   void *arg)
{
    assert((unsigned)options->format < REASONING_COUNT);
    assert(options->call_openers_count <= REASONING_OPENERS_MAX);
    struct reasoning *reasoning = mem_alloc(sizeof(*reasoning));
    size_t limit = options->thought_bytes_max;
    reasoning->options = *options;
    reasoning->options.prompt_tail = STR_NONE;
    reasoning->format = &formats[options->format];
    reasoning->fn = fn;
    reasoning->arg = arg;
    buf_init(&reasoning->in, 2 * SLICE_BYTES);
    buf_init(&reasoning->thought, limit > 0 ? limit : THOUGHT_BYTES_MAX);
    if (reasoning->format->close.len == 0 || options->mode == REASONING_RAW) {
        reasoning->format = &formats[REASONING_NONE];
        reasoning->state = ANSWER;
    } else {
        reasoning->behind_open = reasoning_is_open(options->format, options->prompt_tail);
    }
    return reasoning;
}

void reasoning_destroy(struct reasoning **reasoning)
{
    if (*reasoning == NULL)
        return;
    buf_fini(&(*reasoning)->in);
    buf_fini(&(*reasoning)->thought);
    mem_free(*reasoning);
    *reasoning = NULL;
}

enum err reasoning_push(struct reasoning *reasoning, struct str text)
{
    assert(!reasoning->over);
    while (text.len > 0) {
        size_t n = MIN(text.len, SLICE_BYTES);
        TRY(buf_append(&reasoning->in, text.ptr, n));
        TRY(run(reasoning));
        text = marker_skip(text, n);
    }
    return ERR_OK;
}

/* See "never closed" in the header. */
static void recover(struct reasoning *reasoning)
{
    struct str text = {buf_str(&reasoning->thought), reasoning->thought.len};
    struct marker_hit hit =
        marker_find(text, reasoning->options.call_openers, reasoning->options.call_openers_count);

    if (reasoning->thought.err == ERR_OK)
        emit(reasoning, OUTPUT_CONTENT, marker_skip(text, hit.which >= 0 ? hit.at : 0));
}

enum err reasoning_finish(struct reasoning *reasoning, bool cut)
{
    assert(!reasoning->over);
    reasoning->over = true;
    TRY(run(reasoning));
    if (reasoning->state == THOUGHT && !cut)
        recover(reasoning);
    return ERR_OK;
}
