#include "engine/pieces.h"

#include <string.h>

#include "base/mem.h"
#include "support/models.h"
#include "support/test.h"

static void check_neighbours(const struct piece *before, const struct piece *piece)
{
    size_t len = MIN(before->len, piece->len);
    int order = memcmp(before->bytes, piece->bytes, len);

    assert_true(order < 0 || (order == 0 && before->len <= piece->len));
    assert_int_equal(memcmp(before->bytes, piece->bytes, piece->shared), 0);
    assert_true(piece->shared == len ||
                before->bytes[piece->shared] != piece->bytes[piece->shared]);
}

/* Every token is where it belongs, once. */
static void test_the_vocabulary_in_order(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    const struct pieces *pieces, *again;
    char bytes[PIECE_BYTES_MAX];
    size_t expected = 0;

    (void)state;
    assert_ok(pieces_of(engine, &pieces, NULL));
    assert_ok(pieces_of(engine, &again, NULL));
    assert_ptr_equal(again, pieces);
    for (size_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        size_t len = engine_token_bytes(engine, piece->token, true, bytes, sizeof(bytes));
        assert_int_equal(len, piece->len);
        assert_int_equal(memcmp(bytes, piece->bytes, len), 0);
        if (i > 0)
            check_neighbours(piece - 1, piece);
    }
    for (token_id token = 0; engine_token_valid(engine, token); token++)
        expected += !engine_token_is_end(engine, token) &&
                    engine_token_bytes(engine, token, true, bytes, sizeof(bytes)) > 0 &&
                    bytes[0] != '\0';
    assert_int_equal(pieces->count, expected);
    assert_true(pieces->ends_count > 0);
    for (size_t i = 0; i < pieces->ends_count; i++)
        assert_true(engine_token_is_end(engine, pieces->ends[i]));
    engine_close(&engine);
}

static void test_survives_every_failed_allocation(void **state)
{
    struct fault fault = {0};
    struct engine *engine = test_engine("qwen3", NULL);

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        const struct pieces *pieces;
        enum err err = pieces_of(engine, &pieces, NULL);
        if (err != ERR_OK)
            assert_err(err, ERR_NOMEM);
    }
    mem_set_fault(NULL);
    engine_close(&engine);
}

TEST_SUITE(TEST(test_the_vocabulary_in_order), TEST(test_survives_every_failed_allocation))
