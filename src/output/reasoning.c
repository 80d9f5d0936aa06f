/*
 * reasoning.c: a few states over held text.
 *
 *      START --opening (or the prompt)--> THOUGHT --closing--> GAP --> ANSWER
 *        |--anything else--> ANSWER        |  ^----opening that is a control token----'
 *        `--anything else--> HELD --closing--> GAP    (`whole`; without a closing: ANSWER)
 *                                          `--opening of a call--> QUOTE --closing--> GAP
 *                                                                    `--the end--> ANSWER
 *
 * Text is held back only while it may be a marker, white space next to one, or a call that a thought
 * quotes. A copy of the thought is kept in case nothing closes it (see the header). If it grows
 * beyond the limit the copy is dropped, not the thought.
 */
#include "output/reasoning.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "output/marker.h"

enum { SLICE_BYTES = 4096, THOUGHT_BYTES_MAX = 256 << 10 };

enum state { START, HELD, RAW, THOUGHT, QUOTE, GAP, ANSWER };

struct format {
    struct reasoning_marks marks;
    struct str shown[2]; /* a template that contains these uses the format */
};

static const struct format formats[REASONING_COUNT] = {
    [REASONING_HARMONY] = {.shown = {STR("<|channel|>"), STR("analysis")}},
    [REASONING_KIMI] = {{.open = STR("<|open|>think<|sep|>"),
                         .close = STR("<|close|>think<|sep|>"),
                         .wraps = {STR("<|open|>response<|sep|>"), STR("<|close|>response<|sep|>"),
                                   STR("<|close|>message<|sep|>")},
                         .wraps_open = 1,
                         .control = true},
                        {STR("'<|open|>'"), STR("'<|sep|>'")}},
    /* a stray opening or closing is dropped */
    [REASONING_GEMMA] = {{.open = STR("<|channel>thought"),
                          .close = STR("<channel|>"),
                          .wraps = {STR("<|channel>"), STR("<channel|>")},
                          .unnamed = STR("<|channel>"),
                          .control = true},
                         {STR("<|channel>"), STR("<channel|>")}},
    [REASONING_COHERE] = {{.open = STR("<|START_THINKING|>"),
                           .close = STR("<|END_THINKING|>"),
                           .wraps = {STR("<|START_RESPONSE|>"), STR("<|START_TEXT|>"),
                                     STR("<|END_RESPONSE|>"), STR("<|END_TEXT|>")},
                           .wraps_open = 2,
                           .control = true},
                          {STR("<|START_THINKING|>")}},
    [REASONING_APERTUS] = {{.open = STR("<|inner_prefix|>"),
                            .close = STR("<|inner_suffix|>"),
                            .control = true},
                           {STR("<|inner_prefix|>")}},
    [REASONING_SOLAR] = {{.open = STR("<|think|>"),
                          .close = STR("<|end|>"),
                          .wraps = {STR("<|content|>"), STR("<|begin|>assistant"), STR("<|end|>")},
                          .wraps_open = 1,
                          .control = true},
                         {STR("<|begin|>assistant"), STR("<|think|>")}},
    [REASONING_MINICPM] = {{.open = STR("<|thought_start|>"),
                            .close = STR("<|thought_end|>"),
                            .control = true},
                           {STR("<|thought_start|>")}},
    [REASONING_SEED] = {{.open = STR("<seed:think>"), .close = STR("</seed:think>")},
                        {STR("<seed:think>")}},
    [REASONING_MINIMAX] = {{.open = STR("<mm:think>"), .close = STR("</mm:think>")},
                           {STR("<mm:think>")}},
    [REASONING_MISTRAL] = {{.open = STR("[THINK]"), .close = STR("[/THINK]"), .control = true},
                           {STR("[THINK]")}},
    [REASONING_APRIEL] = {{.open = STR("Here are my reasoning steps:\n"),
                           .close = STR("[BEGIN FINAL RESPONSE]"),
                           .wraps = {STR("[END FINAL RESPONSE]")}},
                          {STR("[BEGIN FINAL RESPONSE]")}},
    [REASONING_HUNYUAN] = {{.open = STR("<think>"),
                            .close = STR("</think>"),
                            .wraps = {STR("<answer>"), STR("</answer>")},
                            .wraps_open = 1},
                           {STR("<answer>"), STR("</think>")}},
    [REASONING_THINK] = {{.open = STR("<think>"), .close = STR("</think>")}, {STR("</think>")}},
    [REASONING_THINKING] = {{.open = STR("<thinking>"), .close = STR("</thinking>")},
                            {STR("<thinking>"), STR("</thinking>")}},
    /* no thoughts: Llama 4 encloses its calls, or what it says before them */
    [REASONING_LLAMA] = {{.wraps = {STR("<|python_start|>"), STR("<|python_end|>")}},
                         {STR("<|python_start|>"), STR("<|python_end|>")}},
};

struct reasoning {
    const struct reasoning_marks *marks;
    struct reasoning_options options;
    output_event_fn *fn;
    void *arg;
    struct buf in; /* undecided text, from `at` on */
    size_t at;
    size_t limit;       /* of the thought, and of a quote */
    size_t seen;        /* bytes of a quote that are known not to close the thought */
    struct buf thought; /* copy of the open thought; its error says that it was dropped */
    enum state state;
    /* just after an opening: the prompt's (in START) or the text's (in THOUGHT) */
    bool behind_open;
    bool unopened; /* a thought may have begun without its opening */
    bool over;
    bool cut; /* over before the model ended it */
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

/* As if the prompt had opened the thought: the name may follow. */
static void open_unnamed(struct reasoning *reasoning, size_t before)
{
    reasoning->at += before + reasoning->marks->unnamed.len;
    reasoning->state = START;
    reasoning->behind_open = true;
}

/* Each step returns whether it made progress; false: more text is needed. */
static bool step_start(struct reasoning *reasoning)
{
    const struct reasoning_marks *marks = reasoning->marks;
    struct str text = rest(reasoning);
    size_t space = marker_space(text);
    struct str after = str_skip(text, space);
    enum marker_match open = marker_match(after, marks->open);
    enum marker_match close = marker_match(after, marks->close);

    if (reasoning->behind_open) { /* in the prompt; models may repeat it */
        reasoning->unopened = false;
        reasoning->at += space;
        if (open == MARKER_PART && !reasoning->over)
            return false;
        reasoning->at += open == MARKER_YES ? marks->open.len : 0;
        reasoning->state = THOUGHT;
        reasoning->behind_open = open == MARKER_YES;
        return true;
    }
    if (space <= MARKER_SPACE_MAX && open != MARKER_YES && close != MARKER_YES &&
        (open == MARKER_PART || close == MARKER_PART) && !reasoning->over)
        return false;
    if (open == MARKER_NO && close != MARKER_YES && marks->unnamed.len > 0 &&
        marker_match(after, marks->unnamed) == MARKER_YES) {
        open_unnamed(reasoning, space);
        return true;
    }
    reasoning->state = reasoning->unopened && reasoning->options.whole ? HELD : ANSWER;
    if (space > MARKER_SPACE_MAX || (open != MARKER_YES && close != MARKER_YES))
        return true;
    reasoning->unopened = false;
    reasoning->at += space + (open == MARKER_YES ? marks->open.len : marks->close.len);
    reasoning->state = open == MARKER_YES ? THOUGHT : GAP;
    reasoning->behind_open = open == MARKER_YES;
    return true;
}

/* A thought that stays in place begins with its opening, even if the prompt wrote it: as there,
 * with the white space after it. Not if the answer comes at once. */
static bool step_raw(struct reasoning *reasoning)
{
    const struct reasoning_marks *marks = reasoning->marks;
    struct str text = rest(reasoning);
    struct str after = str_skip(text, marker_space(text));
    bool opened = reasoning->thought.len > 0 && after.len > 0;

    if (after.len == 0 && !reasoning->over)
        return false;
    for (size_t i = 0; i < marks->wraps_open; i++) {
        enum marker_match match = marker_match(after, marks->wraps[i]);
        if (match == MARKER_PART && !reasoning->over)
            return false;
        opened &= match != MARKER_YES;
    }
    if (opened)
        emit(reasoning, OUTPUT_CONTENT,
             (struct str){buf_str(&reasoning->thought), reasoning->thought.len});
    reasoning->state = ANSWER;
    return true;
}

/* What ends a thought, or may: its closing, the opening of the answer, the opening of a call. */
enum { ENDS_MAX = 1 + REASONING_WRAPS_MAX + REASONING_OPENERS_MAX };

static size_t ends_of(const struct reasoning *reasoning, struct str ends[ENDS_MAX])
{
    const struct reasoning_marks *marks = reasoning->marks;
    size_t count = 0;

    ends[count++] = marks->close;
    for (size_t i = 0; i < marks->wraps_open; i++)
        ends[count++] = marks->wraps[i];
    for (size_t i = 0; i < reasoning->options.call_openers_count; i++)
        ends[count++] = reasoning->options.call_openers[i];
    return count;
}

static bool close_thought(struct reasoning *reasoning, size_t mark)
{
    reasoning->at += marker_space(rest(reasoning)) + mark;
    buf_clear(&reasoning->thought);
    reasoning->state = GAP;
    return true;
}

static bool step_thought(struct reasoning *reasoning)
{
    struct str ends[ENDS_MAX];
    size_t count = ends_of(reasoning, ends);

    if (reasoning->behind_open) { /* white space after the opening */
        reasoning->at += marker_space(rest(reasoning));
        if (rest(reasoning).len == 0)
            return false;
        reasoning->behind_open = false;
    }
    struct str text = rest(reasoning);
    struct marker_hit hit = marker_find(text, ends, count);
    if (hit.which < 0) {
        thought(reasoning, reasoning->over ? text.len : marker_before_space(text, hit.at));
        return false;
    }
    thought(reasoning, marker_before_space(text, hit.at));
    if (hit.which <= (int)reasoning->marks->wraps_open)
        return close_thought(reasoning, hit.which == 0 ? ends[0].len : 0);
    reasoning->seen = marker_space(rest(reasoning));
    reasoning->state = QUOTE;
    return true;
}

/* From the opening of a call, and the white space before it, to the closing of the thought. */
static bool step_quote(struct reasoning *reasoning)
{
    struct str text = rest(reasoning), close = reasoning->marks->close;
    struct marker_hit hit = marker_find(str_skip(text, reasoning->seen), &close, 1);

    reasoning->seen += hit.at;
    bool quote = reasoning->seen <= reasoning->limit; /* decided by the text, not by its pieces */
    if (hit.which == 0 && quote) {
        thought(reasoning, marker_before_space(text, reasoning->seen));
        return close_thought(reasoning, close.len);
    }
    if (!reasoning->over && quote)
        return false;
    if (reasoning->cut && quote) {
        thought(reasoning, text.len);
        return false;
    }
    return close_thought(reasoning, 0);
}

/* Text that is a thought if it is closed. A call, or a mention of the opening, shows that it is not. */
static bool step_held(struct reasoning *reasoning)
{
    struct str ends[2 + REASONING_OPENERS_MAX] = {reasoning->marks->close, reasoning->marks->open};

    for (size_t i = 0; i < reasoning->options.call_openers_count; i++)
        ends[2 + i] = reasoning->options.call_openers[i];
    struct str text = rest(reasoning);
    struct marker_hit hit = marker_find(str_skip(text, reasoning->seen), ends, COUNT_OF(ends));
    reasoning->seen += hit.at;
    if (hit.which < 0 && !reasoning->over && reasoning->seen <= reasoning->limit)
        return false;
    reasoning->state = ANSWER;
    if (hit.which != 0)
        return true;
    size_t space = marker_space(text);
    reasoning->at += space;
    reasoning->unopened = false;
    thought(reasoning, marker_before_space(rest(reasoning), reasoning->seen - space));
    return close_thought(reasoning, reasoning->marks->close.len);
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
    const struct reasoning_marks *marks = reasoning->marks;
    bool opens = marks->control && reasoning->options.mode != REASONING_RAW;
    enum { CLOSE = 1 + REASONING_WRAPS_MAX, MENTION };
    struct str found[1 + MENTION] = {opens ? marks->open : STR_NONE};

    memcpy(found + 1, marks->wraps, sizeof(marks->wraps));
    if (reasoning->unopened) {
        found[CLOSE] = marks->close;
        found[MENTION] = opens ? STR_NONE : marks->open;
    }
    if (reasoning->options.mode == REASONING_RAW)
        for (size_t i = 1; i < COUNT_OF(found); i++)
            if (str_eq(found[i], marks->close) || str_starts(marks->open, found[i]))
                found[i] = STR_NONE;
    struct str text = rest(reasoning);
    struct marker_hit hit = marker_find(text, found, COUNT_OF(found));
    if (hit.which < 0 && reasoning->over && found[0].len > 0) {
        /* The end of the text may be a mark that another one begins with. */
        found[0] = STR_NONE;
        hit = marker_find(text, found, COUNT_OF(found));
    }
    if (hit.which < 0) {
        answer(reasoning, reasoning->over ? text.len : hit.at);
        return false;
    }
    answer(reasoning, hit.at);
    if (reasoning->options.in_call != NULL && reasoning->options.in_call(reasoning->arg)) {
        answer(reasoning, 1);
        return true;
    }
    reasoning->unopened &= hit.which != CLOSE && hit.which != MENTION;
    if (hit.which == MENTION) {
        answer(reasoning, found[hit.which].len);
        return true;
    }
    if (str_eq(found[hit.which], marks->unnamed)) {
        open_unnamed(reasoning, 0);
        return true;
    }
    reasoning->at += found[hit.which].len;
    reasoning->behind_open = hit.which == 0;
    reasoning->state = hit.which == 0 ? THOUGHT : ANSWER;
    return true;
}

static enum err run(struct reasoning *reasoning)
{
    static bool (*const steps[])(struct reasoning *) = {
        [START] = step_start, [HELD] = step_held, [RAW] = step_raw,      [THOUGHT] = step_thought,
        [QUOTE] = step_quote, [GAP] = step_gap,   [ANSWER] = step_answer};

    if (reasoning->state == RAW) /* `thought` is the opening, and must be whole */
        TRY(reasoning->thought.err);
    while (steps[reasoning->state](reasoning))
        ;
    buf_consume(&reasoning->in, reasoning->at);
    reasoning->at = 0;
    return reasoning->in.err;
}

enum reasoning_format reasoning_detect(struct str template_text)
{
    for (int i = REASONING_NONE + 1; i < REASONING_LEARNED; i++) {
        const struct str *shown = formats[i].shown;
        if (str_find(template_text, shown[0]) != SIZE_MAX &&
            (shown[1].len == 0 || str_find(template_text, shown[1]) != SIZE_MAX))
            return (enum reasoning_format)i;
    }
    return REASONING_NONE;
}

const struct reasoning_marks *reasoning_row(enum reasoning_format format,
                                            const struct reasoning_marks *learned)
{
    assert((unsigned)format < REASONING_COUNT);
    assert(format != REASONING_LEARNED || learned != NULL);
    return format == REASONING_LEARNED ? learned : &formats[format].marks;
}

bool reasoning_is_open(const struct reasoning_marks *marks, struct str prompt_tail)
{
    struct str open = str_trim(marks->open);

    return open.len > 0 && str_ends(str_trim(prompt_tail), open);
}

bool reasoning_is_closed(const struct reasoning_marks *marks, struct str prompt_tail)
{
    return marks->close.len > 0 && str_ends(str_trim(prompt_tail), marks->close);
}

/* Keeps the opening at the end of the prompt, to repeat it. */
static void begin_raw(struct reasoning *reasoning, struct str tail)
{
    struct str open = str_trim(reasoning->marks->open), at = tail;

    reasoning->state = RAW;
    if (!reasoning->behind_open)
        return;
    for (size_t found; (found = str_find(at, open)) != SIZE_MAX;) {
        tail = str_skip(at, found);
        at = str_skip(at, found + open.len);
    }
    buf_append(&reasoning->thought, tail.ptr, tail.len);
}

struct reasoning *reasoning_create(const struct reasoning_options *options, output_event_fn *fn,
                                   void *arg)
{
    assert(options->call_openers_count <= REASONING_OPENERS_MAX);
    struct reasoning *reasoning = mem_alloc(sizeof(*reasoning));
    size_t limit = options->thought_bytes_max;
    reasoning->options = *options;
    reasoning->options.prompt_tail = STR_NONE;
    reasoning->marks = options->marks;
    reasoning->fn = fn;
    reasoning->arg = arg;
    reasoning->limit = limit > 0 ? limit : THOUGHT_BYTES_MAX;
    buf_init(&reasoning->in, reasoning->limit + 2 * SLICE_BYTES);
    buf_init(&reasoning->thought, reasoning->limit);
    reasoning->behind_open = reasoning_is_open(reasoning->marks, options->prompt_tail);
    reasoning->unopened = reasoning->marks->close.len > 0 && reasoning->marks->open.len > 0 &&
                          options->mode != REASONING_RAW &&
                          !reasoning_is_closed(reasoning->marks, options->prompt_tail);
    if (reasoning->marks->close.len == 0)
        reasoning->state = ANSWER;
    else if (options->mode == REASONING_RAW)
        begin_raw(reasoning, options->continues ? STR_NONE : options->prompt_tail);
    else if (options->continues)
        reasoning->state = THOUGHT;
    if (options->continues)
        reasoning->unopened = reasoning->behind_open = false;
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

bool reasoning_in_thought(const struct reasoning *reasoning)
{
    return reasoning->state == THOUGHT;
}

enum err reasoning_push(struct reasoning *reasoning, struct str text)
{
    assert(!reasoning->over);
    while (text.len > 0) {
        size_t n = MIN(text.len, SLICE_BYTES);
        TRY(buf_append(&reasoning->in, text.ptr, n));
        TRY(run(reasoning));
        text = str_skip(text, n);
    }
    return ERR_OK;
}

enum err reasoning_finish(struct reasoning *reasoning, bool cut)
{
    assert(!reasoning->over);
    reasoning->over = true;
    reasoning->cut = cut;
    TRY(run(reasoning));
    /* see "never closed" in the header */
    if (reasoning->state == THOUGHT && !cut && reasoning->thought.err == ERR_OK)
        emit(reasoning, OUTPUT_CONTENT,
             (struct str){buf_str(&reasoning->thought), reasoning->thought.len});
    return ERR_OK;
}
