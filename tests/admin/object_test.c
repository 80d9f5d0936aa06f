/* object_test.c: pages of objects: all of them, once, whatever the order in which they are shown.
 */
#include "admin/admin_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"

enum { OBJECTS = 500 };

struct thing {
    struct hearth_held held;
    unsigned char key[HEARTH_KEY_BYTES];
    unsigned seen;
};

static struct thing things[OBJECTS];
static unsigned char zeros[HEARTH_KEY_BYTES];

static void make_things(void)
{
    for (size_t i = 0; i < OBJECTS; i++) {
        struct thing *thing = &things[i];

        memset(thing, 0, sizeof(*thing));
        thing->key[0] = (unsigned char)(rand() % 40); /* keys are shared by several */
        thing->held = (struct hearth_held){
            .space = zeros,
            .key = thing->key,
            .parent = zeros,
            .tenant = "t",
            .kind = (enum hearth_object_kind)(1 + i % 3),
            .begin = (uint32_t)i,
            .end = (uint32_t)i + 1,
            .bytes = i,
        };
    }
}

static void count_page(struct admin_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct hearth_held *held = admin_object_held(&page->objects[i]);

        things[held->begin].seen++;
        assert_int_equal(held->bytes, held->begin);
        assert_string_equal(held->tenant, "t");
        if (i > 0)
            assert_true(memcmp(admin_object_held(&page->objects[i - 1])->key, held->key,
                               HEARTH_KEY_BYTES) <= 0);
    }
}

static void test_pages_show_each_once(void **state)
{
    static const size_t limits[] = {1, 7, 100, OBJECTS, ADMIN_PAGE_MAX};

    (void)state;
    srand((unsigned)test_seed());
    for (size_t l = 0; l < COUNT_OF(limits); l++) {
        char cursor[ADMIN_CURSOR_BYTES] = "";
        bool more = true;
        size_t pages = 0;

        make_things();
        for (; more; pages++) {
            struct admin_page page;
            size_t from = (size_t)rand() % OBJECTS; /* each page sees them in another order */

            assert_ok(admin_page_init(&page, limits[l], str_from(cursor)));
            for (size_t i = 0; i < OBJECTS; i++)
                admin_page_offer(&page, &things[(from + i) % OBJECTS].held);
            count_page(&page);
            more = admin_page_next(&page, cursor);
            admin_page_fini(&page);
        }
        for (size_t i = 0; i < OBJECTS; i++)
            assert_int_equal(things[i].seen, 1);
        assert_int_equal(pages, (OBJECTS + limits[l] - 1) / limits[l]);
    }
}

static void test_cursors_of_others_are_refused(void **state)
{
    static const char *const bad[] = {
        "x",
        "..",
        "1.1.1",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000000.1",
        "0000000000000000000000000000000000000000000000000000000000000000.9.1",
        "0000000000000000000000000000000000000000000000000000000000000000.1.99999999999",
        "000000000000000000000000000000000000000000000000000000000000000g.1.1",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct admin_page page;

        assert_err(admin_page_init(&page, 10, str_from(bad[i])), ERR_INVALID);
        admin_page_fini(&page);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(hearth_object_kind_name(HEARTH_OBJECT_ROWS), "rows");
    assert_string_equal(hearth_object_kind_name(HEARTH_OBJECT_SNAPSHOT), "snapshot");
    assert_string_equal(admin_object_role(HEARTH_ENTRY_SYSTEM), "system");
}

TEST_SUITE(TEST(test_pages_show_each_once), TEST(test_cursors_of_others_are_refused),
           TEST(test_names))
