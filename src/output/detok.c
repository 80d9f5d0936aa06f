/*
 * detok.c: a UTF-8 decoder that can stop at any byte and continue later.
 *
 *      empty --lead byte--> partial --last continuation--> append the character
 *        |                     '--any other byte--> append U+FFFD, look at the byte again
 *        '--ASCII: append it; a byte that begins nothing: append U+FFFD
 *
 * The partial sequence is always the beginning of some well-formed character (Unicode, table 3-7),
 * so a broken sequence is replaced by one U+FFFD per maximal subpart: the text that a browser shows
 * for the same bytes, wherever token boundaries fall. Only whole characters are appended to `out`;
 * when memory runs out, the text still ends at a character.
 *
 * Not done here: stop sequences, white-space clean-up, normalisation.
 */
#include "output/detok.h"

#include <assert.h>

#include "base/mem.h"

enum { PIECE_BYTES = 256 }; /* longer tokens are rare */

static const char replacement[] = "\xEF\xBF\xBD";

/* Length of the character that `lead` begins; 0 if it begins none. */
static size_t character_len(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2) /* continuations, and C0, C1: only overlong forms */
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

/* The second byte rules out overlong forms, surrogates and code points beyond Unicode; later bytes
 * all have the same range. */
static bool may_follow(unsigned char lead, size_t position, unsigned char byte)
{
    unsigned char low = 0x80, high = 0xBF;

    if (position == 1) {
        low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : low;
        high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : high;
    }
    return byte >= low && byte <= high;
}

static void check_state(const struct detok *detok)
{
    assert(detok->wait_len < sizeof(detok->wait));
    assert(detok->wait_len == 0 || character_len(detok->wait[0]) > detok->wait_len);
}

static void replace_waiting(struct detok *detok, struct buf *out)
{
    buf_append(out, replacement, sizeof(replacement) - 1);
    detok->wait_len = 0;
}

/* Appends nothing, a character, or a replacement with or without a character; out->err keeps an
 * error. */
static void push_byte(struct detok *detok, unsigned char byte, struct buf *out)
{
    if (detok->wait_len > 0) {
        if (may_follow(detok->wait[0], detok->wait_len, byte)) {
            detok->wait[detok->wait_len++] = byte;
            if (detok->wait_len == character_len(detok->wait[0])) {
                buf_append(out, detok->wait, detok->wait_len);
                detok->wait_len = 0;
            }
            return;
        }
        replace_waiting(detok, out);
    }
    size_t len = character_len(byte);
    if (len == 0)
        replace_waiting(detok, out);
    else if (len == 1)
        buf_append_char(out, (char)byte);
    else
        detok->wait[detok->wait_len++] = byte;
}

static size_t ascii_run(const unsigned char *bytes, size_t len)
{
    size_t run = 0;

    while (run < len && bytes[run] < 0x80)
        run++;
    return run;
}

void detok_init(struct detok *detok, const struct engine *engine, bool control)
{
    *detok = (struct detok){.engine = engine, .control = control};
}

enum err detok_push_bytes(struct detok *detok, const char *bytes, size_t len, struct buf *out)
{
    const unsigned char *at = (const unsigned char *)bytes;

    check_state(detok);
    while (len > 0) {
        /* Most text is ASCII: append a run at once. */
        size_t run = detok->wait_len == 0 ? ascii_run(at, len) : 0;
        if (run > 0) {
            buf_append(out, at, run);
        } else {
            push_byte(detok, *at, out);
            run = 1;
        }
        at += run;
        len -= run;
    }
    check_state(detok);
    return out->err;
}

enum err detok_push(struct detok *detok, token_id token, struct buf *out)
{
    char piece[PIECE_BYTES], *bytes = piece;
    size_t len = engine_token_bytes(detok->engine, token, detok->control, piece, sizeof(piece));

    if (len > sizeof(piece)) {
        bytes = mem_try_alloc(len);
        if (bytes == NULL)
            return ERR_NOMEM;
        size_t again = engine_token_bytes(detok->engine, token, detok->control, bytes, len);
        assert(again == len);
    }
    enum err err = detok_push_bytes(detok, bytes, len, out);
    if (bytes != piece)
        mem_free(bytes);
    return err;
}

enum err detok_finish(struct detok *detok, struct buf *out)
{
    check_state(detok);
    if (detok->wait_len > 0)
        replace_waiting(detok, out);
    return out->err;
}
