/* The picture of `hearth top`: what is in it, and that it fits whatever terminal there is. */
#include "cli/top_view.h"

#include <string.h>

#include "base/buf.h"
#include "support/test.h"

static const char stats_text[] =
    "{\"version\":\"1.2.3\",\"uptime_s\":61,\"session\":{\"requests\":4,\"prompt_tokens\":1000,"
    "\"tokens\":{\"device\":100,\"ram\":500,\"ssd\":200,"
    "\"remote\":0,\"computed\":200},\"efficiency\":0.8,\"saved_s\":3,\"computed_twice\":5},"
    "\"rates\":{\"1m\":{"
    "\"requests_per_s\":0.5,\"prompt_tokens_per_s\":100,"
    "\"hit_rate\":0.75}},\"miss\":{\"cold\":1,\"diverged\":3,\"evicted\":0},\"tiers\":[{"
    "\"tier\":\"ram\",\"state\":\"ok\",\"used\":512,"
    "\"cap\":1024,\"objects\":1,\"hits\":2,\"stores\":5,\"evictions\":1},{\"tier\":\"ssd\","
    "\"state\":\"degraded\",\"used\":0,\"cap\":1024},"
    "{\"tier\":\"device\",\"state\":\"off\"}]}";
static const char requests_text[] =
    "{\"requests\":[{\"id\":\"req_1\",\"model\":\"m\\u001b[2J\",\"phase\":\"prefill\",\"prompt_"
    "tokens\":400,\"cached_tokens\":100,\"computed_tokens\":"
    "100,\"generated_tokens\":0,\"tokens_per_s\":0,\"eta_s\":2,\"age_s\":1}],\"recent\":[{\"id\":"
    "\"req_old\",\"when\":1,\"model\":\"m\","
    "\"prompt_tokens\":10,\"tokens\":{\"ram\":9},\"reason\":\"none\",\"ttft_s\":0.5},{\"id\":\"req_"
    "new\",\"when\":2,\"model\":\"m\",\"prompt_tokens\":"
    "10,\"tokens\":{\"ram\":4},\"reason\":\"diverged\",\"first_difference\":4,\"message\":\"user[1]"
    "\",\"ttft_s\":0.25},{\"id\":\"req_gone\",\"when\":3,\"model\":\"m\",\"prompt_tokens\":10,"
    "\"tokens\":{\"ram\":4},\"reason\":\"short\",\"first_difference\":4,\"ttft_s\":0,"
    "\"status\":499},{\"id\":\"req_failed\",\"when\":4,\"model\":\"m\",\"prompt_tokens\":10,"
    "\"tokens\":{},\"reason\":\"no_snapshot\",\"first_difference\":10,\"ttft_s\":0,"
    "\"status\":503}]}";

static struct buf picture;
static yyjson_doc *stats, *requests;

static const char *draw(struct top_view view)
{
    if (stats == NULL) {
        stats = yyjson_read(stats_text, strlen(stats_text), 0);
        requests = yyjson_read(requests_text, strlen(requests_text), 0);
        assert_true(stats != NULL && requests != NULL);
    }
    view.url = "http://h:1";
    view.stats = yyjson_doc_get_root(stats);
    view.requests = yyjson_doc_get_root(requests);
    buf_fini(&picture);
    buf_init(&picture, 1 << 20);
    top_view_draw(&view, &picture);
    return buf_str(&picture);
}

static void test_a_plain_picture(void **state)
{
    (void)state;
    assert_string_equal(
        draw((struct top_view){0}),
        "hearth 1.2.3 at http://h:1, up 1 min 01 s\n"
        "\n"
        "reused    [########################......]  80.0 % of 1,000 tokens in 4 requests, 3.0 s "
        "saved, 5 computed twice\n"
        "came from device 100 (10 %)  ram 500 (50 %)  ssd 200 (20 %)  remote 0 (0 %)  computed 200 "
        "(20 %)\n"
        "rates     1m 0.50 req/s, 100 tok/s, 75 % hits | 5m 0.00 req/s, 0 tok/s, 0 % hits | 15m "
        "0.00 req/s, 0 tok/s, 0 % hits\n"
        "\n"
        "ram       [###############...............] 512 B of 1.0 KiB, 1 object, 2 hits, 5 stored, "
        "1 evicted\n"
        "ssd       [..............................] 0 B of 1.0 KiB, 0 objects, 0 hits, 0 stored, 0 "
        "evicted degraded\n"
        "misses    diverged 3, cold 1 tokens\n"
        "\n"
        "1 running\n"
        "  req_1                  m?[2J          prefill   [########........]  50 % of 400, +0 at "
        "0.0 tok/s, 2.0 s left, 1.0 s old\n"
        "ended\n"
        "  req_failed             m              0 of 10 reused, no snapshot, error 503\n"
        "  req_gone               m              4 of 10 reused, new from token 4, client "
        "disconnected\n"
        "  req_new                m              4 of 10 reused, diverged at 4 (user[1]), first "
        "token after 250 ms\n"
        "  req_old                m              9 of 10 reused, full hit, first token after 500 "
        "ms\n");
}

/* Columns that a terminal would show of a line: without escape sequences, whole characters. */
static int shown_columns(const char *line, const char *end)
{
    int columns = 0;

    for (; line < end; line++) {
        if (*line == '\x1b') {
            while (line < end && strchr("mKHJhl", *line) == NULL)
                line++;
            continue;
        }
        columns += *line != '\r' && ((unsigned char)*line & 0xc0) != 0x80;
    }
    return columns;
}

static void test_it_fits(void **state)
{
    (void)state;
    for (int columns = 1; columns < 150; columns += 7)
        for (int rows = 1; rows < 20; rows++) {
            const char *text = draw(
                (struct top_view){.columns = columns, .rows = rows, .screen = true, .color = true});
            int lines = 1;
            for (const char *at = text, *end; at != NULL; at = end != NULL ? end + 1 : NULL) {
                end = strchr(at, '\n');
                assert_true(shown_columns(at, end != NULL ? end : at + strlen(at)) <= columns);
                lines += end != NULL;
            }
            assert_true(lines <= rows);
        }
}

static void test_colours_only_where_asked_for(void **state)
{
    (void)state;
    assert_null(strchr(draw((struct top_view){0}), '\x1b'));
    assert_null(strstr(draw((struct top_view){.screen = true}), "m"
                                                                "\x1b[0"));
    assert_non_null(strstr(draw((struct top_view){.color = true}), "\x1b[32m"));
    assert_null(strstr(draw((struct top_view){.screen = true}), "\x1b[32m"));
}

static void test_trouble(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 4096);
    top_view_draw(&(struct top_view){.url = "http://h:1", .trouble = "nobody answers"}, &out);
    assert_string_equal(buf_str(&out), "hearth  at http://h:1\nnobody answers\n");
    buf_fini(&out);
}

TEST_SUITE(TEST(test_a_plain_picture), TEST(test_it_fits), TEST(test_colours_only_where_asked_for),
           TEST(test_trouble))
