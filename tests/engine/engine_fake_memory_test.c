#include "support/engine_fake_memory.h"

#include <string.h>

#include "base/mem.h"
#include "support/test.h"

enum { ALL = (1 << KIND_COUNT) - 1, CELLS = 50, SEQUENCES = 3, WINDOW = 8, BYTES_MAX = 4096 };

static struct fake_memory *create(kind_set kinds, bool streams)
{
    const struct fake_memory_shape shape = {
        .kinds = kinds,
        .window = WINDOW,
        .sequences = SEQUENCES,
        .cells = CELLS,
        .rows_bytes = 29, /* filler that is no multiple of 8 */
        .state_bytes = 16,
        .streams = streams,
    };
    struct fake_memory *memory = NULL;

    assert_ok(fake_memory_create(&memory, &shape));
    return memory;
}

static void append(struct fake_memory *memory, int32_t seq, uint32_t count, uint64_t what)
{
    struct fake_sums sums = fake_memory_read(memory, seq);

    for (uint32_t i = 0; i < count; i++)
        fake_memory_append(memory, seq, (struct fake_value){fake_mix(what, i), what}, &sums);
    /* The sums that were carried are those that the bytes have. */
    struct fake_sums again = fake_memory_read(memory, seq);
    assert_memory_equal(&sums, &again, sizeof(sums));
}

static void test_mix_sees_both_numbers(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        assert_true(fake_mix(7, 9) != fake_mix(7 ^ UINT64_C(1) << bit, 9));
        assert_true(fake_mix(7, 9) != fake_mix(7, 9 ^ UINT64_C(1) << bit));
    }
    assert_true(fake_mix(7, 9) != fake_mix(9, 7));
}

static void test_sums_are_carried_as_they_would_be_read(void **state)
{
    (void)state;
    for (kind_set kinds = 1; kinds <= ALL; kinds++) {
        struct fake_memory *memory = create(kinds, false);
        for (uint32_t i = 1; i < 9; i++)
            append(memory, 1, i, i);
        assert_int_equal(fake_memory_length(memory, 1), 36);
        assert_int_equal(fake_memory_length(memory, 0), 0);
        fake_memory_destroy(&memory);
        assert_null(memory);
    }
}

static void test_cells_are_counted(void **state)
{
    (void)state;
    for (int streams = 0; streams < 2; streams++) {
        struct fake_memory *memory = create(ALL, streams);
        append(memory, 0, 20, 1);
        fake_memory_copy(memory, 0, 1);
        assert_int_equal(fake_memory_cells_used(memory), streams ? 40 : 20);
        assert_int_equal(fake_memory_room(memory, 1), 30);
        assert_int_equal(fake_memory_room(memory, 2), streams ? 50 : 30);
        append(memory, 1, 30, 1);
        assert_int_equal(fake_memory_room(memory, 1), 0);
        fake_memory_clear(memory, 0);
        assert_int_equal(fake_memory_cells_used(memory), 50);
        fake_memory_clear(memory, 1);
        assert_int_equal(fake_memory_cells_used(memory), 0);
        fake_memory_destroy(&memory);
    }
}

static void test_images_go_around(void **state)
{
    static const enum fake_image images[] = {FAKE_IMAGE_ROWS, FAKE_IMAGE_SNAPSHOT,
                                             FAKE_IMAGE_WHOLE};
    static unsigned char data[3][BYTES_MAX], again[BYTES_MAX];

    (void)state;
    for (kind_set kinds = 1; kinds <= ALL; kinds++) {
        struct fake_memory *memory = create(kinds, false);
        uint64_t bytes[3];
        append(memory, 0, 21, 5);
        struct fake_sums sums = fake_memory_read(memory, 0), restored;
        for (int i = 0; i < 3; i++) {
            bytes[i] = fake_memory_image_bytes(memory, images[i], 21, 21);
            fake_memory_export(memory, 0, images[i], 0, 21, data[i]);
        }
        assert_true(fake_memory_import(memory, 1, FAKE_IMAGE_ROWS, data[0], bytes[0], false));
        assert_true(fake_memory_import(memory, 1, FAKE_IMAGE_SNAPSHOT, data[1], bytes[1], false));
        fake_memory_clear(memory, 0);
        assert_true(fake_memory_import(memory, 0, FAKE_IMAGE_WHOLE, data[2], bytes[2], false));
        for (int32_t seq = 0; seq < 2; seq++) {
            assert_int_equal(fake_memory_length(memory, seq), 21);
            restored = fake_memory_read(memory, seq);
            assert_memory_equal(&restored, &sums, sizeof(sums));
            fake_memory_export(memory, seq, FAKE_IMAGE_WHOLE, 0, 21, again);
            assert_memory_equal(again, data[2], bytes[2]);
        }
        fake_memory_destroy(&memory);
    }
}

/* Every header but the right one, every length but the right one: refused, and nothing is written.
 */
static void test_malformed_images_are_refused(void **state)
{
    static const enum fake_image images[] = {FAKE_IMAGE_ROWS, FAKE_IMAGE_SNAPSHOT,
                                             FAKE_IMAGE_WHOLE};
    static unsigned char data[BYTES_MAX];
    struct fake_memory *memory = create(ALL, false);

    (void)state;
    append(memory, 0, 21, 5);
    for (int i = 0; i < 3; i++) {
        uint64_t bytes = fake_memory_image_bytes(memory, images[i], 21, 21);
        fake_memory_export(memory, 0, images[i], 0, 21, data);
        for (uint64_t wrong = 0; wrong < bytes; wrong++)
            assert_false(
                fake_memory_import(memory, 1, images[i], test_guarded(data, wrong), wrong, false));
        assert_false(fake_memory_import(memory, 1, images[i], data, bytes + 1, false));
        const unsigned char *guarded = (const unsigned char *)test_guarded(data, bytes);
        for (int j = 0; j < 3; j++)
            if (j != i)
                assert_false(fake_memory_import(memory, 1, images[j], guarded, bytes, false));
        for (int bit = 0; bit < FAKE_HEADER_BYTES * 8; bit++) {
            unsigned char *byte = (unsigned char *)guarded + bit / 8;
            *byte ^= (unsigned char)(1u << bit % 8);
            bool taken = fake_memory_import(memory, 1, images[i], guarded, bytes, false);
            *byte ^= (unsigned char)(1u << bit % 8);
            /* The windows have as many rows at token 29 as at 21: same length, and believed. */
            if (taken)
                assert_true(bit / 8 == 8 && images[i] != FAKE_IMAGE_ROWS);
            else
                assert_int_equal(fake_memory_cells_used(memory), 21);
            fake_memory_clear(memory, 1);
        }
    }
    fake_memory_destroy(&memory);
}

static void test_imports_fail_half_way(void **state)
{
    static unsigned char data[BYTES_MAX];
    struct fake_memory *memory = create(KIND_BIT(KIND_FULL), false);
    uint64_t bytes = fake_memory_image_bytes(memory, FAKE_IMAGE_ROWS, 20, 0);

    (void)state;
    append(memory, 0, 20, 5);
    fake_memory_export(memory, 0, FAKE_IMAGE_ROWS, 0, 20, data);
    assert_false(fake_memory_import(memory, 1, FAKE_IMAGE_ROWS, data, bytes, true));
    assert_int_equal(fake_memory_length(memory, 1), 10);
    /* And when cells run out: 50 - 20 - 10 are left, one less than is needed. */
    append(memory, 1, 1, 1);
    assert_false(fake_memory_import(memory, 2, FAKE_IMAGE_ROWS, data, bytes, false));
    fake_memory_clear(memory, 2);
    assert_int_equal(fake_memory_cells_used(memory), 31);
    fake_memory_destroy(&memory);
}

static void test_parts_of_different_lengths_have_no_length(void **state)
{
    static unsigned char data[BYTES_MAX];
    struct fake_memory *memory = create(KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT), false);
    uint64_t bytes = fake_memory_image_bytes(memory, FAKE_IMAGE_SNAPSHOT, 0, 20);

    (void)state;
    append(memory, 0, 20, 5);
    fake_memory_export(memory, 0, FAKE_IMAGE_SNAPSHOT, 0, 20, data);
    append(memory, 1, 19, 5);
    assert_true(fake_memory_import(memory, 1, FAKE_IMAGE_SNAPSHOT, data, bytes, false));
    assert_int_equal(fake_memory_length(memory, 1), -1);
    fake_memory_destroy(&memory);
}

static void test_layout_is_that_of_the_last_settling(void **state)
{
    struct fake_memory *memory = create(KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING), false);

    (void)state;
    append(memory, 0, 5, 1);
    fake_memory_settle(memory, 0); /* nothing has moved yet: as good as never */
    append(memory, 0, 15, 1);
    assert_int_equal(fake_memory_layout(memory, 0), 0);
    fake_memory_settle(memory, 0);
    append(memory, 0, 5, 1);
    assert_int_equal(fake_memory_layout(memory, 0), 20);
    fake_memory_copy(memory, 0, 1);
    assert_int_equal(fake_memory_layout(memory, 1), 20);
    fake_memory_clear(memory, 0);
    append(memory, 0, 15, 1);
    assert_int_equal(fake_memory_layout(memory, 0), 0);
    assert_true(fake_memory_cut(memory, 1, 0));
    append(memory, 1, 15, 1);
    assert_int_equal(fake_memory_layout(memory, 1), 0);
    fake_memory_destroy(&memory);
}

TEST_SUITE(TEST(test_mix_sees_both_numbers), TEST(test_sums_are_carried_as_they_would_be_read),
           TEST(test_cells_are_counted), TEST(test_images_go_around),
           TEST(test_malformed_images_are_refused), TEST(test_imports_fail_half_way),
           TEST(test_parts_of_different_lengths_have_no_length),
           TEST(test_layout_is_that_of_the_last_settling))
