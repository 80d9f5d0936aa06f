/*
 * toolcall_literal.c: a recursive reader of text that may end anywhere. It starts again at the
 * beginning of the literal when more text arrives, which keeps it simple. Literals are short,
 * except for strings, which are skipped quickly.
 */
#include <string.h>

#include "base/attr.h"
#include "base/json_scan.h"
#include "output/toolcall_impl.h"

struct reader {
    struct str text; /* the unread part */
    struct str quote;
    struct buf *out;
    unsigned depth;
};

static enum marker_match read_value(struct reader *reader);

static void skip(struct reader *reader, size_t n)
{
    reader->text = str_skip(reader->text, n);
}

static void skip_space(struct reader *reader)
{
    skip(reader, marker_space(reader->text));
}

size_t tc_literal_name(struct str text)
{
    static const char others[] = "_.-";
    size_t len = 0;

    while (len < text.len) {
        char c = text.ptr[len];
        if (!(str_is_letter(c) || str_is_digit(c) || (c != '\0' && strchr(others, c) != NULL) ||
              (unsigned char)c >= 0x80))
            break;
        len++;
    }
    return len;
}

static void append_codepoint(struct buf *out, uint32_t code)
{
    if (code < 0x80) {
        json_scan_escape(out, (struct str){(char[]){(char)code}, 1});
    } else if (code < 0x10000) {
        buf_appendf(out, "\\u%04x", (unsigned)code);
    } else {
        code -= 0x10000;
        buf_appendf(out, "\\u%04x\\u%04x", 0xd800u + (code >> 10), 0xdc00u + (code & 0x3ff));
    }
}

/* \x41, \u0041, \U00000041: reads the digits after the letter. */
static enum marker_match read_hex(struct reader *reader, size_t digits)
{
    uint32_t code = 0;

    for (size_t i = 0; i < digits; i++) {
        if (i == reader->text.len)
            return MARKER_PART;
        int digit = str_hex(reader->text.ptr[i]);
        if (digit < 0)
            return MARKER_NO;
        code = code << 4 | (uint32_t)digit;
    }
    if (code > 0x10ffff)
        return MARKER_NO;
    skip(reader, digits);
    append_codepoint(reader->out, code);
    return MARKER_YES;
}

static enum marker_match read_escape(struct reader *reader)
{
    /* The slash is a JSON escape: models mix the two. */
    static const char plain[] = "n\nt\tr\rb\bf\fa\av\v0\0\\\\''\"\"//";

    skip(reader, 1);
    if (reader->text.len == 0)
        return MARKER_PART;
    char c = reader->text.ptr[0];
    skip(reader, 1);
    if (c == '\n') /* a line continuation */
        return MARKER_YES;
    if (c == 'x' || c == 'u' || c == 'U')
        return read_hex(reader, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    for (size_t i = 0; i + 1 < sizeof(plain); i += 2) {
        if (plain[i] == c) {
            json_scan_escape(reader->out, (struct str){plain + i + 1, 1});
            return MARKER_YES;
        }
    }
    /* Python keeps the backslash of an unknown escape. */
    json_scan_escape(reader->out, (struct str){(char[]){'\\', c}, 2});
    return MARKER_YES;
}

/* Reads the text up to `end`, with or without escapes. */
static enum marker_match read_string(struct reader *reader, struct str end, bool escapes)
{
    buf_append_char(reader->out, '"');
    for (;;) {
        struct str stops[] = {end, escapes ? STR("\\") : STR_NONE};
        struct marker_hit hit = marker_find(reader->text, stops, COUNT_OF(stops));
        if (hit.which < 0)
            return MARKER_PART;
        json_scan_escape(reader->out, (struct str){reader->text.ptr, hit.at});
        skip(reader, hit.at);
        if (hit.which == 0)
            break;
        enum marker_match match = read_escape(reader);
        if (match != MARKER_YES)
            return match;
    }
    skip(reader, end.len);
    buf_append_char(reader->out, '"');
    return MARKER_YES;
}

static enum marker_match read_quoted(struct reader *reader)
{
    char c = reader->text.ptr[0];
    struct str one = {reader->text.ptr, 1};
    struct str three = c == '"' ? STR("\"\"\"") : STR("'''");

    switch (marker_match(reader->text, three)) {
    case MARKER_YES:
        skip(reader, 3);
        return read_string(reader, three, true);
    case MARKER_PART:
        /* '' at the end of the text is an empty string or the beginning of ''' */
        return MARKER_PART;
    default:
        skip(reader, 1);
        return read_string(reader, one, true);
    }
}

/* A number without zeros before it; its sign is written. */
static struct str without_zeros(struct buf *out, struct str word)
{
    struct str digits = str_skip(word, word.len > 0 && word.ptr[0] == '-');

    if (digits.len < 2 || digits.ptr[0] != '0' || !str_is_digit(digits.ptr[1]))
        return word;
    if (digits.len < word.len)
        buf_append_char(out, '-');
    while (digits.len > 1 && digits.ptr[0] == '0' && str_is_digit(digits.ptr[1]))
        digits = str_skip(digits, 1);
    return digits;
}

static enum marker_match read_word(struct reader *reader)
{
    static const struct {
        struct str word, json;
    } words[] = {
        {STR("True"), STR("true")}, {STR("False"), STR("false")}, {STR("None"), STR("null")},
        {STR("true"), STR("true")}, {STR("false"), STR("false")}, {STR("null"), STR("null")},
    };
    size_t len = tc_literal_name(reader->text);
    if (len < reader->text.len && reader->text.ptr[len] == '+') /* 1e+3 */
        len += 1 + tc_literal_name(str_skip(reader->text, len + 1));
    struct str word = {reader->text.ptr, len};

    if (len == reader->text.len)
        return MARKER_PART;
    skip(reader, len);
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (str_eq(words[i].word, word)) {
            buf_append(reader->out, words[i].json.ptr, words[i].json.len);
            return MARKER_YES;
        }
    }
    if (reader->quote.len == 0) /* 07 */
        word = without_zeros(reader->out, word);
    bool number = word.len > 0 && json_scan_valid(word);
    if (!number && (reader->quote.len == 0 || len == 0))
        return MARKER_NO;
    if (!number)
        buf_append_char(reader->out, '"');
    buf_append(reader->out, word.ptr, word.len);
    if (!number)
        buf_append_char(reader->out, '"');
    return MARKER_YES;
}

/* A key of a dict and the colon after it. */
static enum marker_match read_key(struct reader *reader)
{
    char c = reader->text.ptr[0];
    enum marker_match match;

    if (c == '"' || c == '\'') {
        match = read_quoted(reader);
    } else if (reader->quote.len > 0 && c == reader->quote.ptr[0]) {
        match = marker_match(reader->text, reader->quote);
        if (match == MARKER_YES) {
            skip(reader, reader->quote.len);
            match = read_string(reader, reader->quote, false);
        }
    } else {
        size_t len = tc_literal_name(reader->text);
        match = len == reader->text.len ? MARKER_PART : len > 0 ? MARKER_YES : MARKER_NO;
        if (match == MARKER_YES) {
            buf_append_char(reader->out, '"');
            buf_append(reader->out, reader->text.ptr, len);
            buf_append_char(reader->out, '"');
            skip(reader, len);
        }
    }
    if (match != MARKER_YES)
        return match;
    skip_space(reader);
    if (reader->text.len == 0)
        return MARKER_PART;
    if (reader->text.ptr[0] != ':')
        return MARKER_NO;
    skip(reader, 1);
    buf_append_char(reader->out, ':');
    return MARKER_YES;
}

/* {'a', 'b'}: what follows the first item is no colon. */
static enum marker_match is_set(const struct reader *reader)
{
    struct reader ahead = *reader;
    size_t begin = reader->out->len;

    skip_space(&ahead);
    if (ahead.text.len == 0)
        return MARKER_PART;
    bool quoted = ahead.text.ptr[0] == '"' || ahead.text.ptr[0] == '\'';
    enum marker_match match = quoted ? read_quoted(&ahead) : read_word(&ahead);
    buf_truncate(reader->out, begin);
    if (match != MARKER_YES)
        return match;
    skip_space(&ahead);
    if (ahead.text.len == 0)
        return MARKER_PART;
    return ahead.text.ptr[0] == ',' || ahead.text.ptr[0] == '}' ? MARKER_YES : MARKER_NO;
}

/* A list, a tuple, a set or a dict, after its first bracket. */
static enum marker_match read_items(struct reader *reader, char close)
{
    enum marker_match set = close == '}' && reader->quote.len == 0 ? is_set(reader) : MARKER_NO;
    bool dict = close == '}' && set != MARKER_YES;

    if (set == MARKER_PART)
        return set;
    buf_append_char(reader->out, dict ? '{' : '[');
    for (bool first = true;; first = false) {
        skip_space(reader);
        if (reader->text.len == 0)
            return MARKER_PART;
        if (reader->text.ptr[0] == close)
            break;
        if (!first)
            buf_append_char(reader->out, ',');
        enum marker_match match = dict ? read_key(reader) : MARKER_YES;
        if (match == MARKER_YES)
            match = read_value(reader);
        if (match != MARKER_YES)
            return match;
        skip_space(reader);
        if (reader->text.len == 0)
            return MARKER_PART;
        if (reader->text.ptr[0] != ',' && reader->text.ptr[0] != close)
            return MARKER_NO;
        if (reader->text.ptr[0] == ',')
            skip(reader, 1);
    }
    skip(reader, 1);
    buf_append_char(reader->out, dict ? '}' : ']');
    return MARKER_YES;
}

static enum marker_match read_brackets(struct reader *reader)
{
    char open = reader->text.ptr[0];

    if (reader->depth == TC_LITERAL_DEPTH_MAX)
        return MARKER_NO;
    reader->depth++;
    skip(reader, 1);
    enum marker_match match = read_items(reader, open == '{' ? '}' : open == '[' ? ']' : ')');
    reader->depth--;
    return match;
}

static enum marker_match read_value(struct reader *reader)
{
    skip_space(reader);
    if (reader->text.len == 0)
        return MARKER_PART;
    if (reader->quote.len > 0) {
        enum marker_match match = marker_match(reader->text, reader->quote);
        if (match == MARKER_PART)
            return MARKER_PART;
        if (match == MARKER_YES) {
            skip(reader, reader->quote.len);
            return read_string(reader, reader->quote, false);
        }
    }
    switch (reader->text.ptr[0]) {
    case '"':
    case '\'':
        return read_quoted(reader);
    case '{':
    case '[':
    case '(':
        return read_brackets(reader);
    default:
        return read_word(reader);
    }
}

enum marker_match tc_literal(struct str text, struct str quote, struct buf *out, size_t *used)
{
    struct reader reader = {.text = text, .quote = quote, .out = out};
    size_t begin = out->len;
    enum marker_match match = read_value(&reader);

    *used = text.len - reader.text.len;
    /* Lone surrogates can be written but are not valid text. */
    if (match == MARKER_YES && out->err == ERR_OK &&
        !json_scan_valid((struct str){out->data + begin, out->len - begin}))
        return MARKER_NO;
    return match;
}
