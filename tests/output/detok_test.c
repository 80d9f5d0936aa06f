#include "output/detok.h"

#include <string.h>

#include "base/mem.h"
#include "engine/engine_ops.h"
#include "support/test.h"

enum { CODE_POINTS = 0x110000, TEXT_MAX = 64 };

/* ---- the oracle: knows UTF-8 only as "what encoding a code point gives" ---- */

/* Bit set of every proper prefix of every character, by its bytes as a big-endian number of 1, 2 or
 * 3 digits. */
static unsigned char *prefixes[4];

static bool is_scalar(uint32_t c)
{
    return c < CODE_POINTS && (c < 0xD800 || c > 0xDFFF);
}

static size_t encode(uint32_t c, unsigned char *out)
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, c >>= 6)
        out[i] = (unsigned char)(0x80 + (c % 64));
    static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = (unsigned char)(marks[len] + c);
    return len;
}

static uint32_t number(const unsigned char *bytes, size_t len)
{
    uint32_t n = 0;

    for (size_t i = 0; i < len; i++)
        n = n * 256 + bytes[i];
    return n;
}

static bool is_prefix(const unsigned char *bytes, size_t len)
{
    uint32_t n = number(bytes, len);

    return prefixes[len][n / 8] >> (n % 8) & 1;
}

static void oracle_setup(void)
{
    if (prefixes[1] != NULL)
        return;
    for (size_t len = 1; len <= 3; len++)
        prefixes[len] = mem_alloc(((size_t)1 << (8 * len)) / 8);
    for (uint32_t c = 0; c < CODE_POINTS; c++) {
        unsigned char bytes[4];
        size_t whole = is_scalar(c) ? encode(c, bytes) : 0;
        for (size_t len = 1; len < whole; len++) {
            uint32_t n = number(bytes, len);
            prefixes[len][n / 8] |= (unsigned char)(1u << (n % 8));
        }
    }
}

static void oracle_teardown(void)
{
    for (size_t len = 1; len <= 3; len++) {
        mem_free(prefixes[len]);
        prefixes[len] = NULL;
    }
}

/* Length of the character at the beginning, or 0: some code point encodes to exactly these bytes.
 */
static size_t character_at(const unsigned char *bytes, size_t len)
{
    for (size_t n = 1; n <= 4 && n <= len; n++) {
        uint32_t c = n == 1 ? bytes[0] : bytes[0] & (0xFFu >> (n + 1));
        for (size_t i = 1; i < n; i++)
            c = c << 6 | (bytes[i] & 0x3F);
        unsigned char again[4];
        if (is_scalar(c) && encode(c, again) == n && memcmp(again, bytes, n) == 0)
            return n;
    }
    return 0;
}

/* Decodes all at once: whole characters stay; else the longest beginning of a character, or one
 * byte, is replaced. */
static size_t oracle(const unsigned char *bytes, size_t len, char *out)
{
    size_t at = 0, out_len = 0;

    while (at < len) {
        size_t n = character_at(bytes + at, len - at);
        if (n > 0) {
            memcpy(out + out_len, bytes + at, n);
            out_len += n;
        } else {
            n = 1;
            for (size_t more = 2; more <= 3 && more <= len - at; more++)
                if (is_prefix(bytes + at, more))
                    n = more;
            memcpy(out + out_len, "\xEF\xBF\xBD", 3);
            out_len += 3;
        }
        at += n;
    }
    return out_len;
}

static bool is_valid(const char *text, size_t len)
{
    size_t at = 0, n = 1;

    while (at < len && n > 0) {
        n = character_at((const unsigned char *)text + at, len - at);
        at += n;
    }
    return at == len && n > 0;
}

/* Pushes `bytes` cut before each position whose bit is set; what has come out is valid after every
 * piece. */
static void assert_decodes(const unsigned char *bytes, size_t len, uint64_t cuts)
{
    char expected[TEXT_MAX * 3];
    size_t expected_len = oracle(bytes, len, expected), begin = 0;
    struct detok detok;
    struct buf out;

    assert_true(len <= TEXT_MAX);
    detok_init(&detok, NULL, false);
    buf_init(&out, sizeof(expected));
    for (size_t i = 1; i <= len; i++) {
        if (i < len && !(cuts >> i & 1))
            continue;
        assert_ok(detok_push_bytes(&detok, (const char *)bytes + begin, i - begin, &out));
        assert_true(is_valid(buf_str(&out), out.len));
        begin = i;
    }
    assert_ok(detok_finish(&detok, &out));
    assert_int_equal(out.len, expected_len);
    assert_memory_equal(buf_str(&out), expected, expected_len);
    buf_fini(&out);
}

static void assert_text(const char *bytes, const char *expected)
{
    struct detok detok;
    struct buf out;

    detok_init(&detok, NULL, false);
    buf_init(&out, 1000);
    assert_ok(detok_push_bytes(&detok, bytes, strlen(bytes), &out));
    assert_ok(detok_finish(&detok, &out));
    assert_string_equal(buf_str(&out), expected);
    buf_fini(&out);
}

#define R "\xEF\xBF\xBD"

/* The examples of the Unicode standard (tables 3-8 to 3-11) and of the WHATWG's decoder. */
static void test_replaces_as_the_standards_say(void **state)
{
    (void)state;
    assert_text("", "");
    assert_text("plain", "plain");
    assert_text("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                "A",
                R R R R R R R R "A");
    assert_text("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                "A",
                R R R R R R R R "A");
    assert_text("\xF4\x91\x92\x93\xFF"
                "A\x80\xBF"
                "B",
                R R R R R "A" R R "B");
    assert_text("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                "A",
                R R R R "A");
    assert_text("\xF0\x9F\x92\xA9 \xE2\x82\xAC \xC3\xA9", "\xF0\x9F\x92\xA9 \xE2\x82\xAC \xC3\xA9");
    assert_text("\xF0\x9F\x92", R);
    assert_text("\xE2\x82", R);
    assert_text("\xC3", R);
    assert_text("\xC3\xC3\xA9", R "\xC3\xA9");
}

static void test_every_input_of_one_and_two_bytes(void **state)
{
    (void)state;
    oracle_setup();
    for (unsigned a = 0; a < 256; a++) {
        unsigned char bytes[2] = {(unsigned char)a, 0};
        assert_decodes(bytes, 1, 0);
        for (unsigned b = 0; b < 256; b++) {
            bytes[1] = (unsigned char)b;
            assert_decodes(bytes, 2, (a + b) % 2 ? UINT64_MAX : 0);
        }
    }
    oracle_teardown();
}

/* Every byte at which some rule of UTF-8 changes, its neighbours, in all combinations of four. */
static void test_every_edge_in_four_bytes(void **state)
{
    static const unsigned char edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0,
                                          0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC,
                                          0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5};
    const size_t n = COUNT_OF(edges);

    (void)state;
    oracle_setup();
    for (size_t i = 0; i < n * n * n * n; i++) {
        unsigned char bytes[4] = {edges[i % n], edges[i / n % n], edges[i / n / n % n],
                                  edges[i / n / n / n]};
        assert_decodes(bytes, 4, i);
    }
    oracle_teardown();
}

/* A byte string of `kind`: valid text, text with damage, or noise. */
static size_t random_bytes(uint64_t *seed, uint64_t kind, unsigned char *bytes)
{
    size_t len = 0, want = 1 + test_random_below(seed, TEXT_MAX - 4);

    while (len < want) {
        uint32_t c =
            (uint32_t)test_random_below(seed, test_random_below(seed, 2) ? 0x800 : CODE_POINTS);
        if (kind == 2)
            bytes[len++] = (unsigned char)test_random(seed);
        else if (is_scalar(c))
            len += encode(c, bytes + len);
    }
    for (size_t i = 0; kind == 1 && i < 1 + len / 8; i++)
        bytes[test_random_below(seed, len)] = (unsigned char)test_random(seed);
    return len;
}

static void test_random_bytes_in_random_pieces_equal_oracle(void **state)
{
    uint64_t seed = test_seed();
    unsigned char bytes[TEXT_MAX];

    (void)state;
    oracle_setup();
    for (int step = 0; step < 20000; step++) {
        size_t len = random_bytes(&seed, (uint64_t)step % 3, bytes);
        assert_decodes(bytes, len, test_random(&seed) & test_random(&seed));
        assert_decodes(bytes, len, UINT64_MAX);
    }
    oracle_teardown();
}

static void test_an_incomplete_character_waits(void **state)
{
    struct detok detok;
    struct buf out;

    (void)state;
    detok_init(&detok, NULL, false);
    buf_init(&out, 100);
    assert_ok(detok_push_bytes(&detok, "a\xF0\x9F", 3, &out));
    assert_string_equal(buf_str(&out), "a");
    assert_ok(detok_push_bytes(&detok, "\x92", 1, &out));
    assert_ok(detok_push_bytes(&detok, "", 0, &out));
    assert_string_equal(buf_str(&out), "a");
    assert_ok(detok_push_bytes(&detok,
                               "\xA9"
                               "b",
                               2, &out));
    assert_string_equal(buf_str(&out), "a\xF0\x9F\x92\xA9"
                                       "b");
    assert_ok(detok_finish(&detok, &out));
    assert_ok(detok_finish(&detok, &out));
    assert_int_equal(out.len, 6);
    buf_fini(&out);
}

/* At the limit of the buffer the text ends at a character, and the error is reported. */
static void test_a_full_buffer_cuts_no_character(void **state)
{
    static const char text[] = "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x92\xA9\xC3";

    (void)state;
    for (size_t limit = 0; limit < 12; limit++) {
        struct detok detok;
        struct buf out;
        detok_init(&detok, NULL, false);
        buf_init(&out, limit);
        enum err err = detok_push_bytes(&detok, text, sizeof(text) - 1, &out);
        assert_err(err, limit < 9 ? ERR_LIMIT : ERR_OK);
        if (err == ERR_OK)
            assert_err(detok_finish(&detok, &out), ERR_LIMIT);
        assert_true(is_valid(buf_str(&out), out.len));
        assert_int_equal(out.len, limit < 2 ? 0 : limit < 5 ? 2 : limit < 9 ? 5 : 9);
        buf_fini(&out);
    }
}

static void test_survives_every_failed_allocation(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct detok detok;
        struct buf out;
        enum err err = ERR_OK;
        detok_init(&detok, NULL, false);
        buf_init(&out, 100000);
        for (int i = 0; i < 300 && err == ERR_OK; i++)
            err = detok_push_bytes(&detok, "x\xC3\xA9\xE2\x82", 5, &out);
        assert_err(err, atomic_load(&fault.fired) ? ERR_NOMEM : ERR_OK);
        assert_true(is_valid(buf_str(&out), out.len));
        buf_fini(&out);
    }
    mem_set_fault(NULL);
}

/* ---- tokens ---- */

enum { LONG_TOKEN = 3, LONG_BYTES = 1001, CONTROL_TOKEN = 4 };

/* Token 0 is most of a character, 1 its rest and a letter, 2 nothing, 3 long, 4 a control token. */
static size_t token_bytes(const struct engine *engine, token_id token, bool control, char *out,
                          size_t size)
{
    static const char *const pieces[] = {"\xF0\x9F\x92", "\xA9!", "", NULL, "<|end|>"};
    char text[LONG_BYTES];

    assert_int_equal(control, engine->facts.context); /* what the test expects */
    for (size_t i = 0; i < LONG_BYTES; i++)
        text[i] = "\xC3\xA9"[i % 2]; /* ends inside a character */
    size_t len = token == LONG_TOKEN ? LONG_BYTES : strlen(pieces[token]);
    if (token == CONTROL_TOKEN && !control)
        len = 0;
    memcpy(out, token == LONG_TOKEN ? text : pieces[token], MIN(len, size));
    return len;
}

static const struct engine_ops ops = {.token_bytes = token_bytes};

static void push_all(bool control, struct buf *out)
{
    static const token_id tokens[] = {0, 2, 1, CONTROL_TOKEN, LONG_TOKEN, 2};
    struct engine engine = {.ops = &ops, .facts = {.vocab = 5, .context = control}};
    struct detok detok;

    detok_init(&detok, &engine, control);
    for (size_t i = 0; i < COUNT_OF(tokens) && out->err == ERR_OK; i++)
        if (detok_push(&detok, tokens[i], out) != ERR_OK)
            return;
    assert_ok(detok_finish(&detok, out));
}

static void test_tokens_become_text(void **state)
{
    struct buf out;

    (void)state;
    for (int control = 0; control < 2; control++) {
        const char *begin = control ? "\xF0\x9F\x92\xA9!<|end|>\xC3" : "\xF0\x9F\x92\xA9!\xC3";
        buf_init(&out, 10000);
        push_all(control, &out);
        assert_memory_equal(buf_str(&out), begin, strlen(begin));
        assert_int_equal(out.len, strlen(begin) - 1 + LONG_BYTES - 1 + 3);
        assert_memory_equal(buf_str(&out) + out.len - 5, "\xC3\xA9" R, 5);
        buf_fini(&out);
    }
}

static void test_long_tokens_survive_failed_allocations(void **state)
{
    struct fault fault = {0};
    struct buf out;

    (void)state;
    oracle_setup();
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        buf_init(&out, 10000);
        push_all(true, &out);
        assert_true(is_valid(buf_str(&out), out.len));
        assert_int_equal(atomic_load(&fault.fired) == 0, out.len == 1015);
        buf_fini(&out);
    }
    mem_set_fault(NULL);
    oracle_teardown();
}

TEST_SUITE(TEST(test_replaces_as_the_standards_say), TEST(test_every_input_of_one_and_two_bytes),
           TEST(test_every_edge_in_four_bytes),
           TEST(test_random_bytes_in_random_pieces_equal_oracle),
           TEST(test_an_incomplete_character_waits), TEST(test_a_full_buffer_cuts_no_character),
           TEST(test_survives_every_failed_allocation), TEST(test_tokens_become_text),
           TEST(test_long_tokens_survive_failed_allocations))
