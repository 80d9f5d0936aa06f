/*
 * wrap.c: the wordwrap filter: Python's textwrap, as Jinja calls it, for each line of a text.
 *
 * A line is cut into chunks: runs of white space, words, parts of words up to a hyphen, long
 * dashes. Chunks are added to a line as long as they fit; white space at the ends of lines is
 * dropped. Positions are characters, so the line is kept as an array of them.
 */
#include <string.h>

#include "jinja/object.h"
#include "jinja/strings.h"
#include "jinja/unicode.h"

struct line {
    struct jinja_run *run;
    struct jinja_value text;
    uint32_t *codes;
    uint32_t *offsets; /* count + 1 entries */
    int64_t count;
    int64_t width;
    bool break_words, break_hyphens;
    struct jinja_builder *out;
    const struct jinja_value *newline;
    bool first; /* no line was written yet */
};

static uint32_t code_at(const struct line *line, int64_t at)
{
    return at >= 0 && at < line->count ? line->codes[at] : 0;
}

static bool is_blank(uint32_t code) /* textwrap's definition of white space */
{
    return code == ' ' || (code >= '\t' && code <= '\r');
}

static bool is_word(uint32_t code)
{
    return code == '_' || (jinja_char_props(code) & JINJA_CHAR_ALNUM) != 0;
}

static bool is_letter(uint32_t code)
{
    return is_word(code) && !(jinja_char_props(code) & JINJA_CHAR_DECIMAL);
}

static bool is_punct(uint32_t code)
{
    return is_word(code) || (code != 0 && code < 0x80 && strchr("!\"'&.,?", (int)code) != NULL);
}

/* The end of a run of two or more dashes between words, beginning at `at`; `at` if there is none.
 * */
static int64_t dash_end(const struct line *line, int64_t at)
{
    int64_t end = at;

    /* A dash is no punctuation here: only the first of a run is followed to its end. */
    while (is_punct(code_at(line, at - 1)) && code_at(line, end) == '-')
        end++;
    return end - at >= 2 && end < line->count && is_word(code_at(line, end)) ? end : at;
}

/* A hyphen at `at` after which a word may be broken. */
static bool is_hyphen(const struct line *line, int64_t at)
{
    bool behind = (is_letter(code_at(line, at - 2)) && is_letter(code_at(line, at - 1))) ||
                  (is_letter(code_at(line, at - 3)) && code_at(line, at - 2) == '-' &&
                   is_punct(code_at(line, at - 1)));
    int64_t next = at + 2 + (code_at(line, at + 2) == '-');

    return code_at(line, at) == '-' && behind && is_letter(code_at(line, at + 1)) &&
           is_letter(code_at(line, next));
}

static int64_t chunk_end(const struct line *line, int64_t at)
{
    int64_t end = at;

    if (is_blank(code_at(line, at))) {
        while (end < line->count && is_blank(line->codes[end]))
            end++;
        return end;
    }
    if (line->break_hyphens && dash_end(line, at) > at)
        return dash_end(line, at);
    for (end = at + 1; end < line->count && !is_blank(line->codes[end]); end++) {
        if (!line->break_hyphens)
            continue;
        if (is_hyphen(line, end))
            return end + 1;
        if (dash_end(line, end) > end)
            return end;
    }
    return end;
}

static bool all_space(const struct line *line, int64_t begin, int64_t end)
{
    while (begin < end && jinja_char_is_space(line->codes[begin]))
        begin++;
    return begin == end;
}

static bool put_line(struct line *line, int64_t begin, int64_t end)
{
    if (!line->first)
        jinja_build_value(line->out, line->newline);
    line->first = false;
    return jinja_build_cut(line->out, &line->text, line->offsets[begin], line->offsets[end]);
}

/* Where a chunk longer than a line is cut: at `room` characters, or after a hyphen before that. */
static int64_t break_chunk(const struct line *line, int64_t begin, int64_t end, int64_t room)
{
    bool other = false;

    if (!line->break_hyphens || end - begin <= room)
        return begin + room;
    int64_t hyphen = begin + room - 1;
    while (hyphen > begin && line->codes[hyphen] != '-')
        hyphen--;
    for (int64_t i = begin; i < hyphen; i++)
        other = other || line->codes[i] != '-';
    return hyphen > begin && other ? hyphen + 1 : begin + room;
}

static bool wrap_line(struct line *line)
{
    int64_t at = 0, end = line->count > 0 ? chunk_end(line, 0) : 0; /* the next chunk */
    bool any = false;

    while (at < line->count) {
        if (any && all_space(line, at, end)) {
            at = end;
            end = at < line->count ? chunk_end(line, at) : at;
        }
        int64_t begin = at, last = at; /* of the line; where its last chunk begins */
        if (!jinja_spend(line->run, 64))
            return false;
        while (at < line->count && end - begin <= line->width) {
            last = at;
            at = end;
            end = at < line->count ? chunk_end(line, at) : at;
        }
        if (at < line->count && end - at > line->width) {
            int64_t room = line->width - (at - begin);
            if (line->break_words) {
                last = at; /* even if nothing of it fits: white space before it then stays */
                if (room > 0)
                    at = break_chunk(line, at, end, room);
            } else if (!line->break_words && at == begin) {
                last = at;
                at = end;
                end = at < line->count ? chunk_end(line, at) : at;
            }
        }
        int64_t stop = at > last && all_space(line, last, at) ? last : at;
        if (stop > begin) {
            any = true;
            if (!put_line(line, begin, stop))
                return false;
        }
    }
    return true;
}

static bool load_line(struct line *line, const struct jinja_value *text)
{
    const char *at = text->text, *end = at + text->len;

    line->text = *text;
    line->count = jinja_length(text);
    line->codes = jinja_alloc(line->run, ((size_t)line->count + 1) * sizeof(*line->codes));
    line->offsets = jinja_alloc(line->run, ((size_t)line->count + 1) * sizeof(*line->offsets));
    if (line->codes == NULL || line->offsets == NULL || !jinja_spend(line->run, text->len * 8))
        return false;
    for (int64_t i = 0; i < line->count; i++) {
        line->offsets[i] = (uint32_t)(at - text->text);
        line->codes[i] = utf8_next(&at, end);
    }
    line->offsets[line->count] = (uint32_t)text->len;
    return true;
}

/* width, break_long_words, wrapstring, break_on_hyphens */
BUILTIN_SIGNATURE(jinja_filter_wordwrap, struct jinja_value)
{
    struct jinja_value newline = jinja_str(STR("\n")), lines;
    struct jinja_builder builder = {.run = run};
    struct line line = {.run = run, .width = 79, .out = &builder, .newline = &newline};

    if (self->kind != JINJA_STR)
        return jinja_fail(run, "wordwrap: expected a string");
    if (args[0].kind != JINJA_MISSING && !jinja_to_int(run, &args[0], &line.width))
        return false;
    line.break_words = args[1].kind == JINJA_MISSING || jinja_value_true(&args[1]);
    line.break_hyphens = args[3].kind == JINJA_MISSING || jinja_value_true(&args[3]);
    if (args[2].kind == JINJA_STR)
        newline = args[2];
    if (!jinja_str_lines(run, self, false, &lines))
        return false;
    for (size_t i = 0; i < lines.list->count; i++) {
        if (line.width <= 0)
            return jinja_fail(run, "invalid width (must be > 0)");
        if (i > 0)
            jinja_build_value(&builder, &newline);
        line.first = true;
        if (!load_line(&line, &lines.list->items[i]) || !wrap_line(&line))
            return false;
    }
    return jinja_build_finish(&builder, out);
}
