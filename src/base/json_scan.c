/*
 * json_scan.c: a pushdown automaton over bytes; the stack is one bit per open bracket (object or
 * array).
 *
 *      VALUE --"--> STRING --"--> AFTER           AFTER --,--> KEY | VALUE
 *      AFTER --} ]--> AFTER (one level up)        VALUE --[--> VALUE_FIRST
 *      VALUE --{--> KEY_FIRST --"--> STRING --"--> COLON --:--> VALUE     (the string is a name)
 *      VALUE --digit--> numbers                   VALUE --t f n--> LITERAL
 */
#include "base/json_scan.h"

#include <assert.h>
#include <string.h>

enum state {
    VALUE,
    VALUE_FIRST, /* a value, or the end of an empty array */
    KEY,
    KEY_FIRST,
    COLON,
    AFTER, /* a value inside brackets */
    STRING,
    ESCAPE,
    HEX,
    LOW_BACKSLASH, /* the second half of a surrogate pair */
    LOW_U,
    LITERAL,
    MINUS,
    ZERO,
    DIGITS,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    EXPONENT_DIGITS,
    END,
};

/* MORE with the byte unread: the number before it ended. */
enum { AGAIN = JSON_SCAN_BAD + 1 };

void json_scan_init(struct json_scan *scan)
{
    *scan = (struct json_scan){.state = VALUE};
}

static int go(struct json_scan *scan, enum state state)
{
    scan->state = state;
    return JSON_SCAN_MORE;
}

static bool in_object(const struct json_scan *scan)
{
    unsigned level = scan->depth - 1;

    return (scan->is_object[level / 64] >> (level % 64)) & 1;
}

static int value_ended(struct json_scan *scan)
{
    scan->state = scan->depth > 0 ? AFTER : END;
    return scan->depth > 0 ? JSON_SCAN_MORE : JSON_SCAN_DONE;
}

static int open_bracket(struct json_scan *scan, bool object)
{
    if (scan->depth == JSON_SCAN_DEPTH_MAX)
        return JSON_SCAN_BAD;
    uint64_t bit = UINT64_C(1) << (scan->depth % 64);
    uint64_t *word = &scan->is_object[scan->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    scan->depth++;
    return go(scan, object ? KEY_FIRST : VALUE_FIRST);
}

static int close_bracket(struct json_scan *scan, bool object)
{
    if (scan->depth == 0 || in_object(scan) != object)
        return JSON_SCAN_BAD;
    scan->depth--;
    return value_ended(scan);
}

static int literal(struct json_scan *scan, const char *rest)
{
    scan->literal = rest;
    return go(scan, LITERAL);
}

static int begin_value(struct json_scan *scan, char c)
{
    scan->key = false;
    switch (c) {
    case '{':
        return open_bracket(scan, true);
    case '[':
        return open_bracket(scan, false);
    case '"':
        return go(scan, STRING);
    case 't':
        return literal(scan, "rue");
    case 'f':
        return literal(scan, "alse");
    case 'n':
        return literal(scan, "ull");
    case '-':
        return go(scan, MINUS);
    case '0':
        return go(scan, ZERO);
    default:
        scan->state = DIGITS;
        return c >= '1' && c <= '9' ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    }
}

/* A number can end in three of its states; the byte after it is then read again in state AFTER. */
static int number_byte(struct json_scan *scan, char c)
{
    bool may_end = scan->state == ZERO || scan->state == DIGITS || scan->state == FRACTION ||
                   scan->state == EXPONENT_DIGITS;
    bool whole = scan->state == ZERO || scan->state == DIGITS;

    if (str_is_digit(c) && scan->state != ZERO) {
        if (scan->state == MINUS)
            scan->state = c == '0' ? ZERO : DIGITS;
        else if (scan->state == POINT)
            scan->state = FRACTION;
        else if (scan->state == EXPONENT || scan->state == EXPONENT_SIGN)
            scan->state = EXPONENT_DIGITS;
        return JSON_SCAN_MORE;
    }
    if (c == '.' && whole)
        return go(scan, POINT);
    if ((c == 'e' || c == 'E') && (whole || scan->state == FRACTION))
        return go(scan, EXPONENT);
    if ((c == '+' || c == '-') && scan->state == EXPONENT)
        return go(scan, EXPONENT_SIGN);
    if (!may_end || str_is_digit(c))
        return JSON_SCAN_BAD;
    return value_ended(scan) == JSON_SCAN_DONE ? JSON_SCAN_DONE : AGAIN;
}

static int hex_byte(struct json_scan *scan, char c)
{
    int value = str_hex(c);

    if (value < 0)
        return JSON_SCAN_BAD;
    scan->unit = (uint16_t)(scan->unit << 4 | value);
    if (++scan->digits < 4)
        return JSON_SCAN_MORE;
    bool low = scan->unit >= 0xdc00 && scan->unit <= 0xdfff;
    if (low != scan->high)
        return JSON_SCAN_BAD;
    scan->high = scan->unit >= 0xd800 && scan->unit <= 0xdbff;
    return go(scan, scan->high ? LOW_BACKSLASH : STRING);
}

static int string_byte(struct json_scan *scan, char c)
{
    switch (scan->state) {
    case STRING:
        if (c == '\\')
            scan->state = ESCAPE;
        if (c != '"')
            return JSON_SCAN_MORE;
        if (!scan->key)
            return value_ended(scan);
        return go(scan, COLON);
    case LOW_BACKSLASH:
        scan->state = LOW_U;
        return c == '\\' ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    case HEX:
        return hex_byte(scan, c);
    default: /* ESCAPE, LOW_U */
        if (c == 'u') {
            scan->digits = 0;
            scan->unit = 0;
            return go(scan, HEX);
        }
        if (scan->state == LOW_U || c == '\0' || strchr("\"\\/bfnrt", c) == NULL)
            return JSON_SCAN_BAD;
        return go(scan, STRING);
    }
}

static int structure_byte(struct json_scan *scan, char c)
{
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        return JSON_SCAN_MORE;
    switch (scan->state) {
    case VALUE_FIRST:
        if (c == ']')
            return close_bracket(scan, false);
        return begin_value(scan, c);
    case VALUE:
        return begin_value(scan, c);
    case KEY_FIRST:
    case KEY:
        if (c == '}' && scan->state == KEY_FIRST)
            return close_bracket(scan, true);
        scan->key = true;
        scan->state = STRING;
        return c == '"' ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    case COLON:
        scan->state = VALUE;
        return c == ':' ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    default: /* AFTER */
        if (c == ',')
            return go(scan, in_object(scan) ? KEY : VALUE);
        return c == '}' || c == ']' ? close_bracket(scan, c == '}') : JSON_SCAN_BAD;
    }
}

static int scan_byte(struct json_scan *scan, char c)
{
    switch (scan->state) {
    case STRING:
    case ESCAPE:
    case HEX:
    case LOW_BACKSLASH:
    case LOW_U:
        return string_byte(scan, c);
    case LITERAL:
        if (c != *scan->literal)
            return JSON_SCAN_BAD;
        return *++scan->literal == '\0' ? value_ended(scan) : JSON_SCAN_MORE;
    case VALUE:
    case VALUE_FIRST:
    case KEY:
    case KEY_FIRST:
    case COLON:
    case AFTER:
        return structure_byte(scan, c);
    default:
        return number_byte(scan, c);
    }
}

enum json_scan_result json_scan_text(struct json_scan *scan, struct str text, size_t *used,
                                     struct buf *out)
{
    size_t at = 0;
    size_t copied = 0;
    int result = JSON_SCAN_MORE;

    assert(scan->state != END);
    while (at < text.len && result == JSON_SCAN_MORE) {
        char c = text.ptr[at];
        bool raw_control = scan->state == STRING && (unsigned char)c < 0x20;
        bool number = scan->state >= MINUS;
        result = scan_byte(scan, c);
        if (result == AGAIN) {
            result = JSON_SCAN_MORE;
            continue;
        }
        if (result == JSON_SCAN_BAD || (result == JSON_SCAN_DONE && number))
            break; /* the byte is not part of it */
        if (raw_control && out != NULL) {
            buf_append(out, text.ptr + copied, at - copied);
            json_scan_escape(out, (struct str){&c, 1});
            copied = at + 1;
        }
        at++;
    }
    if (out != NULL)
        buf_append(out, text.ptr + copied, at - copied);
    *used = at;
    return (enum json_scan_result)result;
}

/* At the end of the text: is the value complete? Only a top-level number can be complete without
 * DONE. */
static bool json_scan_complete(const struct json_scan *scan)
{
    return scan->state == END ||
           (scan->depth == 0 && (scan->state == ZERO || scan->state == DIGITS ||
                                 scan->state == FRACTION || scan->state == EXPONENT_DIGITS));
}

bool json_scan_valid(struct str text)
{
    struct json_scan scan;
    size_t used;

    json_scan_init(&scan);
    text = str_trim(text);
    return json_scan_text(&scan, text, &used, NULL) != JSON_SCAN_BAD && used == text.len &&
           json_scan_complete(&scan);
}

void json_scan_escape(struct buf *out, struct str text)
{
    static const char hex[] = "0123456789abcdef";
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    size_t copied = 0;

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        buf_append(out, text.ptr + copied, i - copied);
        copied = i + 1;
        const char *name = NULL;
        for (size_t k = 0; k + 1 < sizeof(named); k += 2)
            if ((unsigned char)named[k] == c)
                name = named + k + 1;
        char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        if (name != NULL)
            escape[1] = *name;
        buf_append(out, escape, name != NULL ? 2 : sizeof(escape));
    }
    buf_append(out, text.ptr + copied, text.len - copied);
}
