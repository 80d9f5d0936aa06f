/*
 * worker_picture.c: descriptions come back as they were, and a damaged one is refused.
 */
#include "engine/worker_picture.h"

#include <string.h>

#include "base/mem.h"
#include "engine/projector.h"
#include "support/test.h"

enum { TOKENS = 2 * PICTURE_CELLS_MIN + 4, HEAD_NUMBERS = 3, PIECE_NUMBERS = 3 };

/* <start>, a piece, <end>, <start>, a piece that takes fewer positions, <end> */
static struct picture *make_picture(void)
{
    const struct hash256 identity = hash256_of("x", 1);
    struct picture *picture = mem_alloc(sizeof(*picture));

    picture->weak = true;
    picture->count = TOKENS;
    picture->tokens = mem_alloc_array(TOKENS, sizeof(*picture->tokens));
    picture->pieces_count = 2;
    picture->pieces = mem_alloc_array(2, sizeof(*picture->pieces));
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t at = 1 + i * (PICTURE_CELLS_MIN + 2), count = PICTURE_CELLS_MIN,
                 positions = count - 4 * i;
        picture_fill_tokens(&identity, i, positions, picture->tokens + at, count);
        picture->pieces[i] = (struct picture_piece){at, count, at, positions, picture, i};
    }
    return picture;
}

static bool decode(const void *from, uint64_t bytes)
{
    struct picture *picture = mem_alloc(sizeof(*picture));
    bool ok = worker_picture_decode(picture, from, bytes);

    picture_destroy(&picture);
    return ok;
}

static void test_round_trip(void **state)
{
    struct picture *picture = make_picture(), *back = mem_alloc(sizeof(*back));
    uint64_t room = worker_picture_bytes_max(TOKENS);
    void *memory = mem_alloc(room);

    (void)state;
    uint64_t bytes = worker_picture_encode(picture, memory, room);
    assert_true(bytes > 0 && bytes <= room);
    assert_int_equal(worker_picture_encode(picture, memory, bytes - 1), 0);
    assert_true(worker_picture_decode(back, memory, bytes));
    assert_true(back->weak && back->count == TOKENS && back->pieces_count == 2);
    assert_memory_equal(back->tokens, picture->tokens, TOKENS * sizeof(token_id));
    for (size_t i = 0; i < 2; i++) {
        const struct picture_piece *a = &picture->pieces[i], *b = &back->pieces[i];
        assert_true(a->at == b->at && a->begin == b->begin && a->count == b->count);
        assert_true(a->positions == b->positions && a->chunk == b->chunk && b->picture == back);
    }
    mem_free(memory);
    picture_destroy(&back);
    picture_destroy(&picture);
}

static void test_damaged_descriptions_are_refused(void **state)
{
    struct picture *picture = make_picture();
    uint64_t room = worker_picture_bytes_max(TOKENS);
    uint32_t *numbers = mem_alloc(room);
    const size_t piece = HEAD_NUMBERS + TOKENS;
    /* a count of the head, a limit of a piece, and a token that is not one of a picture */
    const struct {
        size_t at;
        uint32_t value;
    } lies[] = {{0, 0},
                {0, UINT32_MAX},
                {1, UINT32_MAX},
                {2, 2},
                {piece, 0},
                {piece, TOKENS + 1},
                {piece, TOKENS},
                {piece + 1, 0},
                {piece + 1, UINT32_MAX},
                {piece + 2, 0},
                {piece + 2, PICTURE_CELLS_MIN + 1},
                {HEAD_NUMBERS + 2, 7}};

    (void)state;
    uint64_t bytes = worker_picture_encode(picture, numbers, room);
    assert_int_equal(bytes, (piece + 2 * PIECE_NUMBERS) * sizeof(*numbers));
    assert_true(decode(numbers, bytes));
    for (uint64_t len = 0; len < bytes; len++)
        assert_false(decode(numbers, len));
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        uint32_t was = numbers[lies[i].at];
        numbers[lies[i].at] = lies[i].value;
        assert_false(decode(numbers, bytes));
        numbers[lies[i].at] = was;
    }
    mem_free(numbers);
    picture_destroy(&picture);
}

TEST_SUITE(TEST(test_round_trip), TEST(test_damaged_descriptions_are_refused))
