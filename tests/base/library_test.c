#include "base/library.h"

#include <string.h>

#include "support/test.h"

static double (*cosine)(double);

static struct library library_of(const char *const *names, const struct library_symbol *symbols,
                                 size_t count)
{
    return (struct library){.names = names,
                            .purpose = "geometry",
                            .package = "libm",
                            .symbols = symbols,
                            .symbols_count = count};
}

static void test_first_library_that_is_there(void **state)
{
    static const char *const names[] = {"libnot-there.so.9", "libm.so.6", NULL};
    static const struct library_symbol symbols[] = {{"cos", (void **)&cosine}};
    struct library library = library_of(names, symbols, 1);
    struct errinfo info;

    (void)state;
    assert_ok(library_load(&library, &info));
    assert_true(cosine(0) == 1);
}

static void test_missing_library_and_function(void **state)
{
    static const char *const absent[] = {"libnot-there.so.9", NULL};
    static const char *const present[] = {"libm.so.6", NULL};
    static const struct library_symbol symbols[] = {{"cos", (void **)&cosine},
                                                    {"no_such_function", (void **)&cosine}};
    struct library library = library_of(absent, symbols, 1);
    struct errinfo info;

    (void)state;
    assert_err(library_load(&library, &info), ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "geometry needs libm: libnot-there.so.9"));
    library = library_of(present, symbols, 2);
    assert_err(library_load(&library, &info), ERR_UNSUPPORTED);
    assert_string_equal(info.text, "geometry needs libm: it has no no_such_function");
}

/* libm is a part of this program; the other one exists on every machine, and is not loaded. */
static void test_resident_libraries_only(void **state)
{
    static const char *const loaded[] = {"libm.so.6", NULL};
    static const char *const other[] = {"libnss_files.so.2", NULL};
    static const struct library_symbol symbols[] = {{"cos", (void **)&cosine}};
    struct library library = library_of(other, symbols, 0);
    struct errinfo info;

    (void)state;
    library.resident = true;
    assert_err(library_load(&library, &info), ERR_UNSUPPORTED);
    assert_string_equal(info.text, "geometry needs libm: it is not loaded");
    library = library_of(loaded, symbols, 1);
    library.resident = true;
    assert_ok(library_load(&library, &info));
}

TEST_SUITE(TEST(test_resident_libraries_only), TEST(test_first_library_that_is_there),
           TEST(test_missing_library_and_function))
