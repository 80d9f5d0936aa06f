/*
 * lex.c: Jinja's lexer, without its regular expressions.
 *
 * Outside tags it searches for the next "{{", "{%" or "{#"; the text before it is data. White space
 * around a tag is removed depending on how the tag begins and ends:
 *
 *      text {%- ...   drops all white space before it     ... -%} text   drops all after it
 *      text {%+ ...   drops nothing                       ... +%} text   drops nothing
 *      text {% ...    lstrip_blocks: blanks of the line   ... %} text    trim_blocks: one line end
 *
 * The last row applies to blocks and comments, not to "{{ }}". Inside a tag, "}}" and "%}" end it
 * only if no bracket is open, so that {{ {'a': {}} }} works.
 */
#include <assert.h>
#include <string.h>

#include "jinja/parse.h"
#include "jinja/unicode.h"

enum { BRACKETS_MAX = 256 };

struct lexer {
    struct arena *arena;
    struct str source;
    size_t at;
    struct jinja_tokens tokens;
    bool line_starting; /* the text read last ended a line */
    char brackets[BRACKETS_MAX];
    size_t bracket_count;
    struct jinja_error *error;
    enum err err;
};

static const char *const token_names[] = {
#define X(kind, name) name,
    JINJA_TOKEN_TABLE(X)
#undef X
};

#define FAIL(lexer, pos, ...)                                                              \
    ((lexer)->err =                                                                        \
         jinja_error_at((lexer)->error, ERR_INVALID, (lexer)->source, (pos), __VA_ARGS__), \
     false)

static bool fail_memory(struct lexer *lexer)
{
    lexer->err = jinja_error_at(lexer->error, lexer->arena->err, lexer->source, lexer->at,
                                "the template is too large");
    return false;
}

static bool add(struct lexer *lexer, struct jinja_token token)
{
    struct jinja_tokens *tokens = &lexer->tokens;
    void *items = arena_push(lexer->arena, tokens->items, tokens->count, sizeof(token));

    if (items == NULL)
        return fail_memory(lexer);
    tokens->items = items;
    tokens->items[tokens->count++] = token;
    return true;
}

static bool starts(const struct lexer *lexer, size_t at, const char *text)
{
    size_t len = strlen(text);

    return lexer->source.len - at >= len && memcmp(lexer->source.ptr + at, text, len) == 0;
}

static size_t skip_space(const struct lexer *lexer, size_t at)
{
    const char *text = lexer->source.ptr, *end = text + lexer->source.len;

    return (size_t)(jinja_skip_space(text + at, end, true) - text);
}

static size_t rstrip(const char *text, size_t len)
{
    return (size_t)(jinja_skip_space_back(text, text + len, true) - text);
}

/* Remembers whether reading up to `at` ended a line. */
static void advance(struct lexer *lexer, size_t at)
{
    assert(at > lexer->at && at <= lexer->source.len);
    lexer->line_starting = lexer->source.ptr[at - 1] == '\n';
    lexer->at = at;
}

/* ---- data between tags ---- */

/* The end of a tag that closes with `close` at `at`; 0 if it does not. `trims`: trim_blocks applies
 * to it. */
static size_t tag_end(const struct lexer *lexer, size_t at, const char *close, bool trims)
{
    if (starts(lexer, at, "-") && starts(lexer, at + 1, close))
        return skip_space(lexer, at + 3);
    if (trims && starts(lexer, at, "+") && starts(lexer, at + 1, close))
        return at + 3;
    if (!starts(lexer, at, close))
        return 0;
    return trims && starts(lexer, at + 2, "\n") ? at + 3 : at + 2;
}

/* Adds the data from lexer->at to `end`, trimmed according to the sign of the tag after it. */
static bool add_data(struct lexer *lexer, size_t end, char sign, bool lstrip)
{
    const char *text = lexer->source.ptr + lexer->at;
    size_t len = end - lexer->at;

    if (sign == '-') {
        len = rstrip(text, len);
    } else if (sign != '+' && lstrip) {
        const char *newline = len > 0 ? memrchr(text, '\n', len) : NULL;
        size_t line = newline ? (size_t)(newline - text) + 1 : 0;
        if ((line > 0 || lexer->line_starting) && line + rstrip(text + line, len - line) == line)
            len = line;
    }
    if (len == 0)
        return true;
    return add(lexer, (struct jinja_token){
                          .kind = TOKEN_DATA, .pos = (uint32_t)lexer->at, .text = {text, len}});
}

static char sign_at(const struct lexer *lexer, size_t at)
{
    return starts(lexer, at, "-") ? '-' : starts(lexer, at, "+") ? '+' : 0;
}

/* The offset after `word`, which may have white space around it; 0 if it is not there. */
static size_t word_end(const struct lexer *lexer, size_t at, const char *word)
{
    at = skip_space(lexer, at);
    return starts(lexer, at, word) ? skip_space(lexer, at + strlen(word)) : 0;
}

/* {% raw %} ... {% endraw %}, with `body` after the first tag. */
static bool lex_raw(struct lexer *lexer, size_t tag, size_t body)
{
    advance(lexer, body);
    for (size_t at = body; at < lexer->source.len; at++) {
        if (!starts(lexer, at, "{%"))
            continue;
        char sign = sign_at(lexer, at + 2);
        size_t close = word_end(lexer, at + 2 + (sign != 0), "endraw");
        size_t end = close ? tag_end(lexer, close, "%}", true) : 0;
        if (end == 0)
            continue;
        if (!add_data(lexer, at, sign, true))
            return false;
        advance(lexer, end);
        return true;
    }
    return FAIL(lexer, tag, "Missing end of raw directive");
}

static bool lex_comment(struct lexer *lexer, size_t tag, size_t body)
{
    for (size_t at = body; at < lexer->source.len; at++) {
        size_t end = tag_end(lexer, at, "#}", true);
        if (end != 0) {
            advance(lexer, end);
            return true;
        }
    }
    return FAIL(lexer, tag, "Missing end of comment tag");
}

/* The offset of the next tag; the length of the source if there is none. */
static size_t find_tag(const struct lexer *lexer)
{
    size_t at = lexer->at;

    while (at + 1 < lexer->source.len) {
        const char *brace = memchr(lexer->source.ptr + at, '{', lexer->source.len - at - 1);
        if (brace == NULL)
            break;
        at = (size_t)(brace - lexer->source.ptr);
        if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#')
            return at;
        at++;
    }
    return lexer->source.len;
}

/* Data up to the next tag and the beginning of that tag; comments and raw blocks as a whole. */
static bool lex_root(struct lexer *lexer, char *inside)
{
    size_t tag = find_tag(lexer);

    *inside = 0;
    if (tag == lexer->source.len) {
        if (!add_data(lexer, tag, '+', false))
            return false;
        lexer->at = tag;
        return true;
    }
    char type = lexer->source.ptr[tag + 1];
    char sign = sign_at(lexer, tag + 2);
    size_t body = tag + 2 + (sign != 0);
    if (!add_data(lexer, tag, sign, type != '{'))
        return false;
    if (type == '#')
        return lex_comment(lexer, tag, body);
    size_t raw = type == '%' ? word_end(lexer, body, "raw") : 0;
    size_t raw_end = 0;
    if (raw != 0) /* Jinja does no trim_blocks after {% raw %} */
        raw_end = starts(lexer, raw, "-%}")  ? skip_space(lexer, raw + 3)
                  : starts(lexer, raw, "%}") ? raw + 2
                                             : 0;
    if (raw_end != 0)
        return lex_raw(lexer, tag, raw_end);
    advance(lexer, body);
    *inside = type;
    return add(lexer,
               (struct jinja_token){.kind = type == '{' ? TOKEN_VARIABLE_BEGIN : TOKEN_BLOCK_BEGIN,
                                    .pos = (uint32_t)tag});
}

/* ---- inside tags ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (!first && is_digit(c));
}

static char char_at(const struct lexer *lexer, size_t at)
{
    return at < lexer->source.len ? lexer->source.ptr[at] : '\0';
}

static int digit_value(char c, int base)
{
    int value = is_digit(c)            ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : 99;

    return value < base ? value : -1;
}

/* Digits, with single underscores between them; `at` if there are none. */
static size_t digits_end(const struct lexer *lexer, size_t at, int base)
{
    size_t end = at;

    for (;;) {
        size_t next = end > at && char_at(lexer, end) == '_' ? end + 1 : end;
        if (digit_value(char_at(lexer, next), base) < 0)
            return end;
        end = next + 1;
    }
}

/* The end of a float that begins at `at`; 0 if there is none. */
static size_t float_end(const struct lexer *lexer, size_t at)
{
    size_t end = digits_end(lexer, at, 10);
    bool is_float = false;

    if (at > 0 && char_at(lexer, at - 1) == '.')
        return 0; /* foo.0.1 */
    if (char_at(lexer, end) == '.' && is_digit(char_at(lexer, end + 1))) {
        end = digits_end(lexer, end + 1, 10);
        is_float = true;
    }
    if ((char_at(lexer, end) | 0x20) == 'e') {
        size_t digits = end + 1;
        if (char_at(lexer, digits) == '+' || char_at(lexer, digits) == '-')
            digits++;
        size_t exponent = digits_end(lexer, digits, 10);
        if (exponent > digits)
            return exponent;
    }
    return is_float ? end : 0;
}

static bool lex_float(struct lexer *lexer, size_t end)
{
    struct jinja_token token = {.kind = TOKEN_FLOAT, .pos = (uint32_t)lexer->at};
    char digits[STR_F64_BYTES_MAX];
    size_t len = 0;

    for (size_t at = lexer->at; at < end && len < sizeof(digits); at++)
        if (lexer->source.ptr[at] != '_')
            digits[len++] = lexer->source.ptr[at];
    if (!str_to_f64((struct str){digits, len}, &token.number))
        return FAIL(lexer, lexer->at, "this number cannot be represented");
    advance(lexer, end);
    return add(lexer, token);
}

static bool lex_integer(struct lexer *lexer)
{
    struct jinja_token token = {.kind = TOKEN_INTEGER, .pos = (uint32_t)lexer->at};
    char mark = (char)(char_at(lexer, lexer->at + 1) | 0x20);
    bool zero = char_at(lexer, lexer->at) == '0';
    int base = !zero ? 10 : mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 1;
    size_t from = lexer->at + (base == 10 || base == 1 ? 0 : 2), end;

    /* An underscore may follow the prefix. A zero is followed by zeros only: 007 is 00 and then an
     * unexpected 7. */
    end = from > lexer->at && char_at(lexer, from) == '_' ? from + 1 : from;
    end = digits_end(lexer, end, base);
    if (end == from || char_at(lexer, end - 1) == '_') {
        end = lexer->at + 1; /* "0x" without digits is a zero and a name */
        base = 1;
        from = lexer->at;
    }
    for (size_t at = from; at < end; at++) {
        if (lexer->source.ptr[at] == '_')
            continue;
        int digit = base == 1 ? 0 : digit_value(lexer->source.ptr[at], base);
        if (__builtin_mul_overflow(token.integer, base, &token.integer) ||
            __builtin_add_overflow(token.integer, digit, &token.integer))
            return FAIL(lexer, lexer->at, "integers beyond 64 bits are not supported");
    }
    advance(lexer, end);
    return add(lexer, token);
}

/* Reads exactly `count` hexadecimal digits. */
static bool hex_value(struct str text, size_t at, size_t count, uint32_t *out)
{
    *out = 0;
    if (text.len - at < count)
        return false;
    for (size_t i = at; i < at + count; i++) {
        int digit = digit_value(text.ptr[i], 16);
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

static int simple_escape(char c)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *at = c != '\0' ? strchr(from, c) : NULL;

    return at ? to[at - from] : -1;
}

/* Decodes the escape after a backslash at text.ptr[*at] and moves *at past it; writes to `out` and
 * adds to *len. */
static bool unescape(struct str text, size_t *at, char *out, size_t *len)
{
    char c = text.ptr[*at];
    size_t hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;

    if (c == '\n') {
        (*at)++;
        return true;
    }
    if (simple_escape(c) >= 0) {
        out[(*len)++] = (char)simple_escape(c);
        (*at)++;
        return true;
    }
    if (hex > 0) {
        if (!hex_value(text, *at + 1, hex, &code))
            return false;
        *at += 1 + hex;
    } else if (c >= '0' && c <= '7') {
        for (size_t i = 0; i < 3 && *at < text.len && text.ptr[*at] >= '0' && text.ptr[*at] <= '7';
             i++)
            code = code * 8 + (uint32_t)(text.ptr[(*at)++] - '0');
    } else {
        if (c == 'N')
            return false; /* \N{...}: character names are not supported */
        out[(*len)++] = '\\';
        return true;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return false;
    *len += utf8_encode(code, out + *len);
    return true;
}

static bool lex_string(struct lexer *lexer)
{
    size_t begin = lexer->at + 1, end = begin, len = 0;
    char quote = lexer->source.ptr[lexer->at];
    bool escaped = false;

    while (end < lexer->source.len && lexer->source.ptr[end] != quote) {
        escaped = escaped || lexer->source.ptr[end] == '\\';
        end += lexer->source.ptr[end] == '\\' ? 2 : 1;
    }
    if (end >= lexer->source.len)
        return FAIL(lexer, lexer->at, "unexpected char '%c': a string that is not closed", quote);
    struct str text = {lexer->source.ptr + begin, end - begin};
    if (escaped) {
        /* An escape is never shorter than its meaning. */
        char *out = arena_alloc(lexer->arena, text.len + 4);
        if (out == NULL)
            return fail_memory(lexer);
        for (size_t at = 0; at < text.len;) {
            char c = text.ptr[at++];
            if (c != '\\')
                out[len++] = c;
            else if (!unescape(text, &at, out, &len))
                return FAIL(lexer, begin + at - 1, "an escape that is not valid or not supported");
        }
        text = (struct str){out, len};
    }
    struct jinja_token token = {.kind = TOKEN_STRING, .pos = (uint32_t)lexer->at, .text = text};
    advance(lexer, end + 1);
    return add(lexer, token);
}

static bool balance(struct lexer *lexer, enum jinja_token_kind kind)
{
    char open = kind == TOKEN_LPAREN     ? ')'
                : kind == TOKEN_LBRACKET ? ']'
                : kind == TOKEN_LBRACE   ? '}'
                                         : 0;

    if (open != 0) {
        if (lexer->bracket_count == BRACKETS_MAX)
            return FAIL(lexer, lexer->at, "too many brackets are open");
        lexer->brackets[lexer->bracket_count++] = open;
        return true;
    }
    if (kind != TOKEN_RPAREN && kind != TOKEN_RBRACKET && kind != TOKEN_RBRACE)
        return true;
    char close = token_names[kind][0];
    if (lexer->bracket_count == 0)
        return FAIL(lexer, lexer->at, "unexpected '%c'", close);
    char expected = lexer->brackets[--lexer->bracket_count];
    if (expected != close)
        return FAIL(lexer, lexer->at, "unexpected '%c', expected '%c'", close, expected);
    return true;
}

static bool lex_operator(struct lexer *lexer)
{
    for (int kind = TOKEN_POW; kind < TOKEN_KIND_COUNT; kind++) {
        if (!starts(lexer, lexer->at, token_names[kind]))
            continue;
        struct jinja_token token = {.kind = (enum jinja_token_kind)kind,
                                    .pos = (uint32_t)lexer->at};
        if (!balance(lexer, token.kind))
            return false;
        advance(lexer, lexer->at + strlen(token_names[kind]));
        return add(lexer, token);
    }
    return FAIL(lexer, lexer->at, "unexpected character");
}

static bool lex_name(struct lexer *lexer)
{
    size_t end = lexer->at;

    while (is_name(char_at(lexer, end), false))
        end++;
    struct jinja_token token = {.kind = TOKEN_NAME,
                                .pos = (uint32_t)lexer->at,
                                .text = {lexer->source.ptr + lexer->at, end - lexer->at}};
    advance(lexer, end);
    return add(lexer, token);
}

/* One token of the open tag, whose kind is *inside; 0 when it ends. */
static bool lex_tag(struct lexer *lexer, char *inside)
{
    size_t space = skip_space(lexer, lexer->at);
    size_t end = 0;

    if (lexer->bracket_count == 0)
        end = *inside == '{' ? tag_end(lexer, lexer->at, "}}", false)
                             : tag_end(lexer, lexer->at, "%}", true);
    if (end != 0) {
        struct jinja_token token = {.kind = *inside == '{' ? TOKEN_VARIABLE_END : TOKEN_BLOCK_END,
                                    .pos = (uint32_t)lexer->at};
        *inside = 0;
        advance(lexer, end);
        return add(lexer, token);
    }
    if (space > lexer->at) {
        advance(lexer, space);
        return true;
    }
    char c = lexer->source.ptr[lexer->at];
    if (is_digit(c)) {
        size_t number = float_end(lexer, lexer->at);
        return number != 0 ? lex_float(lexer, number) : lex_integer(lexer);
    }
    if (is_name(c, true))
        return lex_name(lexer);
    if (c == '\'' || c == '"')
        return lex_string(lexer);
    return lex_operator(lexer);
}

enum err jinja_lex(struct arena *arena, struct str source, struct jinja_tokens *out,
                   struct jinja_error *error)
{
    struct lexer lexer = {.arena = arena, .source = source, .line_starting = true, .error = error};
    char inside = 0;

    while (lexer.at < source.len)
        if (!(inside ? lex_tag(&lexer, &inside) : lex_root(&lexer, &inside)))
            return lexer.err;
    if (!add(&lexer, (struct jinja_token){.kind = TOKEN_EOF, .pos = (uint32_t)source.len}))
        return lexer.err;
    *out = lexer.tokens;
    return ERR_OK;
}

enum err jinja_lex_source(struct arena *arena, struct str source, struct str *out,
                          struct jinja_error *error)
{
    size_t len = 0;

    if (source.len > JINJA_SOURCE_BYTES_MAX)
        return jinja_error_at(error, ERR_LIMIT, STR_NONE, 0, "the template is larger than %d bytes",
                              JINJA_SOURCE_BYTES_MAX);
    if (!utf8_valid(source))
        return jinja_error_at(error, ERR_INVALID, STR_NONE, 0, "the template is not UTF-8");
    char *text = arena_alloc(arena, source.len + 1);
    if (text == NULL)
        return jinja_error_at(error, arena->err, STR_NONE, 0, "no memory for the template");
    for (size_t i = 0; i < source.len; i++) {
        char c = source.ptr[i];
        if (c == '\r' && i + 1 < source.len && source.ptr[i + 1] == '\n')
            continue;
        text[len++] = c == '\r' ? '\n' : c;
    }
    if (len > 0 && text[len - 1] == '\n')
        len--;
    *out = (struct str){text, len};
    return ERR_OK;
}

const char *jinja_token_name(enum jinja_token_kind kind)
{
    assert((unsigned)kind < TOKEN_KIND_COUNT);
    return token_names[kind];
}
