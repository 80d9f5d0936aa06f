/* What `hearth cache` asks of a server, to the byte: the contract of the admin API from the other
 * side. Answers are shown by cache_print_test.c, and cache_test.sh runs all of it against a real
 * server. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "support/canned_server.h"
#include "support/cli_run.h"
#include "support/test.h"

enum { ARGS_MAX = 12 };

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* Runs `hearth cache ARGS` against a server that answers so. `request` is what it was asked. */
static int run(const char *const *args, const char *json, char request[4096])
{
    static const struct command *const commands[] = {&command_cache, NULL};
    char *argv[ARGS_MAX + 4] = {(char *)"hearth", (char *)"cache"};
    struct canned_server server;
    char answer[2048], url[64];
    int argc = 2;

    snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(json), json);
    canned_server_start(&server, answer, strlen(answer), 64);
    snprintf(url, sizeof(url), "--url=http://127.0.0.1:%u", server.port);
    argv[argc++] = url;
    for (size_t i = 0; i < ARGS_MAX && args[i] != NULL; i++)
        argv[argc++] = (char *)(uintptr_t)args[i];
    cli_set_env(0, "XDG_CONFIG_HOME", "/dev/null/nowhere");
    int status = cli_run_args(commands, argc, argv);
    canned_server_stop(&server);
    snprintf(request, 4096, "%s", server.request);
    return status;
}

static void test_questions(void **state)
{
    static const struct {
        const char *args[ARGS_MAX];
        const char *line; /* of the request */
        const char *body; /* NULL: none */
    } cases[] = {
        {{"stats"}, "GET /admin/stats HTTP/1.1\r\n", NULL},
        {{"ls"}, "GET /admin/cache/objects?limit=100 HTTP/1.1\r\n", NULL},
        {{"ls", "--tier", "ssd", "-m", "a b", "--tenant", "t", "--pinned", "--limit", "7",
          "--after", "c/1"},
         "GET /admin/cache/objects?limit=7&tier=ssd&model=a%20b&tenant=t&pinned=1&after=c%2F1 "
         "HTTP/1.1\r\n",
         NULL},
        {{"show", KEY}, "GET /admin/cache/objects/" KEY " HTTP/1.1\r\n", NULL},
        {{"verify"}, "POST /admin/cache/verify HTTP/1.1\r\n", "{}"},
        {{"verify", "--tier", "ssd"},
         "POST /admin/cache/verify HTTP/1.1\r\n",
         "{\"tier\":\"ssd\"}"},
        {{"gc", "--older", "2h"}, "POST /admin/cache/evict HTTP/1.1\r\n", "{\"older_s\":7200.0}"},
        {{"clear", "--tier", "all", "-m", "m"},
         "POST /admin/cache/clear HTTP/1.1\r\n",
         "{\"tier\":\"all\",\"model\":\"m\"}"},
        {{"pin", KEY}, "POST /admin/cache/pin HTTP/1.1\r\n", "{\"key\":\"" KEY "\"}"},
        {{"unpin", KEY}, "POST /admin/cache/unpin HTTP/1.1\r\n", "{\"key\":\"" KEY "\"}"},
        {{"export", "x.hearth", KEY},
         "POST /admin/cache/export HTTP/1.1\r\n",
         "{\"key\":\"" KEY "\",\"path\":\"x.hearth\"}"},
        {{"export", "x.hearth", "-m", "m"},
         "POST /admin/cache/export HTTP/1.1\r\n",
         "{\"model\":\"m\",\"path\":\"x.hearth\"}"},
        {{"import", "x.hearth"},
         "POST /admin/cache/import HTTP/1.1\r\n",
         "{\"path\":\"x.hearth\"}"},
    };
    char request[4096];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(run(cases[i].args, "{}", request), CLI_EXIT_OK);
        if (strncmp(request, cases[i].line, strlen(cases[i].line)) != 0)
            fail_msg("%s: %s", cases[i].line, request);
        const char *body = strstr(request, "\r\n\r\n") + 4;
        assert_string_equal(body, cases[i].body != NULL ? cases[i].body : "");
        assert_string_equal(cli_got.err, "");
    }
}

static void test_prompts(void **state)
{
    static const char *const actions[] = {"pin", "unpin", "probe", "warm"};
    const char *json =
        "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}";
    char request[4096], path[1024];

    (void)state;
    snprintf(path, sizeof(path), "%s", cli_write_file("a.json", json, strlen(json)));
    for (size_t i = 0; i < COUNT_OF(actions); i++) {
        assert_int_equal(run((const char *const[]){actions[i], path, NULL}, "{}", request),
                         CLI_EXIT_OK);
        assert_non_null(strstr(request, "\r\n\r\n{\"model\":\"m\","
                                        "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"));
    }
    const char *text = cli_write_file("b.txt", "words", 5);
    assert_int_equal(
        run((const char *const[]){"probe", path, text, "-m", "other", NULL}, "{}", request),
        CLI_EXIT_OK);
    assert_non_null(strstr(request, "\r\n\r\n{\"model\":\"other\",\"messages\":[{\"role\":\"user\","
                                    "\"content\":\"x\"}],"
                                    "\"against\":{\"model\":\"other\",\"prompt\":\"words\"}}"));
}

/* --json is the answer as it came; a list is one answer, however many pages it took. */
static void test_json(void **state)
{
    char request[4096];

    (void)state;
    assert_int_equal(
        run((const char *const[]){"stats", "--json", NULL}, "{\"x\": [1, 2]}", request),
        CLI_EXIT_OK);
    assert_string_equal(cli_got.out, "{\"x\": [1, 2]}\n");
    assert_int_equal(run((const char *const[]){"ls", "--json", "--limit", "1", NULL},
                         "{\"objects\":[{\"key\":\"ab\"}],\"next\":\"c\"}", request),
                     CLI_EXIT_OK);
    assert_string_equal(cli_got.out, "{\"objects\":[{\"key\":\"ab\"}],\"next\":\"c\"}\n");
    assert_int_equal(run((const char *const[]){"stats", NULL}, "no json", request),
                     CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.err, "is this a hearth server?"));
}

/* A key that is cut short is looked for in the list. */
static void test_short_keys(void **state)
{
    const char *list = "{\"objects\":[{\"key\":\"0011223344\"},{\"key\":\"0011223355\"},{\"key\":"
                       "\"99\"}],\"next\":null}";
    char request[4096];

    (void)state;
    assert_int_equal(run((const char *const[]){"show", "00112233", NULL}, list, request),
                     CLI_EXIT_USAGE);
    assert_non_null(strstr(cli_got.err, "several keys begin with 00112233"));
    assert_int_equal(run((const char *const[]){"show", "aabbccdd", NULL}, list, request),
                     CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.err, "no object has a key that begins with aabbccdd"));
    assert_int_equal(run((const char *const[]){"show", "0011", NULL}, list, request),
                     CLI_EXIT_USAGE);
    assert_non_null(strstr(cli_got.err, "\"0011\" is not a key"));
}

TEST_SUITE(TEST(test_questions), TEST(test_prompts), TEST(test_json), TEST(test_short_keys))
