/* Answers as tables: the numbers that are in them, and nothing that is not. */
#include "cli/cache.h"

#include <string.h>

#include "base/buf.h"
#include "support/test.h"

static struct buf printed;

static const char *print(void (*fn)(yyjson_val *root, struct buf *out), const char *json)
{
    yyjson_doc *doc = yyjson_read(json, strlen(json), 0);

    assert_non_null(doc);
    buf_fini(&printed);
    buf_init(&printed, 1 << 20);
    fn(yyjson_doc_get_root(doc), &printed);
    yyjson_doc_free(doc);
    return buf_str(&printed);
}

static void test_probe_joins_blocks(void **state)
{
    (void)state;
    assert_string_equal(print(cache_print_probe,
                              "{\"prompt_tokens\":1000,\"would\":{\"device\":0,\"ram\":512,"
                              "\"ssd\":256,\"remote\":0,\"computed\":232},\"match\":\"lcp\","
                              "\"reason\":\"diverged\",\"blocks\":[{\"begin\":0,\"end\":256,"
                              "\"tier\":\"ram\"},{\"begin\":256,\"end\":512,\"tier\":\"ram\"},"
                              "{\"begin\":512,\"end\":768,\"tier\":\"ssd\"},{\"begin\":768,"
                              "\"end\":1000,\"tier\":\"none\"}],"
                              "\"first_difference\":{\"token\":768,\"message\":\"user[3]\","
                              "\"have\":null,\"want\":\"one\\ntwo\"}}"),
                        "prompt 1,000 = device 0 + ram 512 + ssd 256 + computed 232 | diverged\n"
                        "        0 - 512     ram\n"
                        "      512 - 768     ssd\n"
                        "      768 - 1000    to be computed\n"
                        "diverges from the cache at token 768, in user[3]\n"
                        "  prompt   \"one\\ntwo\"\n");
    assert_string_equal(
        print(cache_print_probe,
              "{\"prompt_tokens\":3,\"would\":{\"computed\":3},\"first_difference\":null}"),
        "prompt 3 = device 0 + ram 0 + ssd 0 + computed 3 | -\n");
}

static void test_probe_of_two(void **state)
{
#define TWO "{\"prompt_tokens\":3,\"would\":{\"ram\":2,\"computed\":1},\"reason\":\"none\","
    (void)state;
    assert_string_equal(print(cache_print_probe,
                              TWO "\"against_tokens\":2,\"first_difference\":{\"token\":1,"
                                  "\"message\":null,\"have\":\"a c\",\"want\":\"a b\"}}"),
                        "prompt 3 = device 0 + ram 2 + ssd 0 + computed 1 | full hit\n"
                        "the two prompts diverge at token 1, in the prompt\n"
                        "  A        \"a b\"\n"
                        "  B        \"a c\"\n");
    assert_string_equal(
        print(cache_print_probe, TWO "\"against_tokens\":3,\"first_difference\":null}"),
        "prompt 3 = device 0 + ram 2 + ssd 0 + computed 1 | full hit\n"
        "the two prompts are the same\n");
}

static void test_objects(void **state)
{
    const char *text =
        print(cache_print_ls, "{\"objects\":[{\"key\":\"00112233445566778899aabbccddeeff\","
                              "\"model\":\"m\",\"tenant\":\"t\",\"kind\":\"rows\",\"begin\":0,"
                              "\"end\":256,\"bytes\":2048,\"tiers\":[\"ram\",\"ssd\"],\"uses\":3,"
                              "\"age_s\":1.5,\"pinned\":true},{\"tenant\":\"\"}],\"next\":\"c7\"}");

    (void)state;
    assert_non_null(strstr(text, "0011223344556677  m      t       rows  0-256   2.0 KiB  ram,ssd  "
                                 "   3  1.5 s       pinned\n"));
    assert_non_null(strstr(
        text,
        "?                 -      -       -     0-0     -        -           -  -           -\n"));
    assert_non_null(strstr(text, "continue with --after c7, or list all with --limit 0\n"));
    assert_string_equal(print(cache_print_ls, "{\"objects\":[],\"next\":null}"), "no objects\n");
    assert_string_equal(print(cache_print_ls, "{}"), "no objects\n");
}

static void test_one_object(void **state)
{
    (void)state;
    assert_string_equal(
        print(cache_print_show,
              "{\"key\":\"ab\",\"parent\":null,\"bytes\":3,\"tiers\":[\"ram\"],\"pinned\":false}"),
        "key          ab\nbytes        3\ntiers        [\"ram\"]\npinned       false\n");
}

static void test_stats(void **state)
{
    const char *text = print(cache_print_stats,
                             "{\"version\":\"1.2.3\",\"uptime_s\":7500,\"session\":{\"requests\":2,"
                             "\"prompt_tokens\":300,\"tokens\":{\"device\":0,\"ram\":"
                             "200,\"ssd\":0,\"remote\":50,\"computed\":50},\"efficiency\":0.8333,"
                             "\"saved_s\":12},\"miss\":{\"cold\":0,"
                             "\"no_snapshot\":2},\"tiers\":[{\"tier\":\"ram\",\"state\":\"ok\","
                             "\"used\":1024,\"cap\":4096,\"objects\":7}]}");

    (void)state;
    assert_non_null(strstr(text, "hearth 1.2.3, up 2 h 05 min\n"));
    assert_non_null(
        strstr(text, "session   2 requests, prompt 300 = device 0 + ram 200 + ssd 0 + "
                     "remote 50 + computed 50 | 83.3 % reused, 12.0 s saved, 0 computed twice\n"));
    assert_non_null(strstr(text, "misses    no snapshot 2 tokens\n"));
    assert_non_null(strstr(text, "ram   ok     1.0 KiB  4.0 KiB        7     -"));
    assert_null(strstr(text, "all time"));
    assert_null(strstr(text, "directory"));
}

static void test_what_was_done(void **state)
{
    (void)state;
    assert_string_equal(print(cache_print_verify,
                              "{\"objects\":1200,\"bytes\":1048576,\"damaged\":0,\"seconds\":2}"),
                        "1,200 objects, 1.0 MiB read in 2.0 s: all are whole\n");
    assert_string_equal(
        print(
            cache_print_verify,
            "{\"objects\":3,\"bytes\":0,\"damaged\":2,\"dropped\":1,\"failed\":1,\"seconds\":0.5}"),
        "3 objects, 0 B read in 500 ms: 2 damaged, 1 of them removed\n1 could not be read\n");
    assert_string_equal(
        print(cache_print_clear,
              "{\"cleared\":2048,\"failed\":[{\"model\":\"m\",\"message\":\"is busy\"}]}"),
        "2.0 KiB cleared\nm: is busy\n");
    assert_string_equal(print(cache_print_gc, "{\"evicted\":2,\"bytes\":10}"),
                        "2 objects removed, 10 B\n");
    assert_string_equal(print(cache_print_pin, "{\"pinned_tokens\":1024}"),
                        "1,024 tokens pinned\n");
    assert_string_equal(print(cache_print_unpin, "{\"pinned_tokens\":3}"), "3 tokens unpinned\n");
    assert_string_equal(print(cache_print_warm, "{\"prompt_tokens\":1024,\"computed\":24}"),
                        "1,024 tokens are warm, 24 of them computed now\n");
    assert_string_equal(print(cache_print_moved, "{\"objects\":2,\"bytes\":10,\"refused\":1}"),
                        "2 objects, 10 B; 1 refused\n");
}

TEST_SUITE(TEST(test_probe_joins_blocks), TEST(test_probe_of_two), TEST(test_objects),
           TEST(test_one_object), TEST(test_stats), TEST(test_what_was_done))
