/* Questions to a server: the key that is sent, and a sentence with the way out for every way in
 * which it can fail. */
#include "cli/remote.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "support/canned_server.h"
#include "support/cli_run.h"
#include "support/test.h"

struct bench {
    struct cli_setup setup;
    struct arena arena;
    struct cli cli;
};

static void start(struct bench *bench, const char *const *env)
{
    bench->setup = (struct cli_setup){
        .fs = file_sys_real(), .clock = clock_real(), .env = env, .commands = cli_commands};
    arena_init(&bench->arena, 1 << 20);
    bench->cli = (struct cli){.setup = &bench->setup, .arena = &bench->arena};
}

static void expect_url_with(const char *const *env, const char *config, const char *option,
                            const char *url)
{
    const struct remote_options options = {.url = option, .timeout_ns = NS_PER_S};
    char text[CLIENT_URL_BYTES];
    struct remote remote;
    struct bench bench;

    start(&bench, env);
    bench.cli.config = config;
    assert_ok(remote_open(&remote, &bench.cli, &options, NULL));
    assert_string_equal(client_url_text(&remote.url, text), url);
    arena_fini(&bench.arena);
}

static void expect_url(const char *const *env, const char *option, const char *url)
{
    expect_url_with(env, NULL, option, url);
}

static void test_where_it_is(void **state)
{
    static const char *const none[] = {NULL}, *const port[] = {"HEARTH_PORT=81", NULL},
                             *const all[] = {"HEARTH_HOST=0.0.0.0", "HEARTH_PORT=81", NULL},
                             *const six[] = {"HEARTH_HOST=::1", NULL},
                             *const socket[] = {"HEARTH_HOST=/run/h.sock", NULL};

    (void)state;
    expect_url(none, NULL, "http://127.0.0.1:4327");
    expect_url(port, NULL, "http://127.0.0.1:81");
    expect_url(all, NULL, "http://127.0.0.1:81");
    expect_url(six, NULL, "http://[::1]:4327");
    expect_url(socket, NULL, "unix:/run/h.sock");
    expect_url(socket, "http://there:9/base", "http://there:9/base");
}

/* What `hearth serve` reads from its file holds for its clients, and the environment is stronger. */
static void test_where_the_file_says(void **state)
{
    static const char *const none[] = {NULL}, *const port[] = {"HEARTH_PORT=81", NULL};
    static const struct {
        const char *text, *url, *with_port;
    } cases[] = {
        {"[serve]\nport = 4400\n", "http://127.0.0.1:4400", "http://127.0.0.1:81"},
        {"port = 4401\n", "http://127.0.0.1:4401", "http://127.0.0.1:81"},
        {"[serve]\nhost = ::1\n", "http://[::1]:4327", "http://[::1]:81"},
        {"[serve]\nhost = 0.0.0.0\nport = 9\n", "http://127.0.0.1:9", "http://127.0.0.1:81"},
        {"[serve]\nhost = /run/h.sock\n", "unix:/run/h.sock", "unix:/run/h.sock"},
        {"[ps]\ntimeout = 1s\n", "http://127.0.0.1:4327", "http://127.0.0.1:81"},
    };
    struct errinfo info = {0};
    struct remote remote;
    struct bench bench;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *file = cli_write_file("hearth.ini", cases[i].text, strlen(cases[i].text));
        expect_url_with(none, file, NULL, cases[i].url);
        expect_url_with(port, file, NULL, cases[i].with_port);
        expect_url_with(port, file, "http://there:9", "http://there:9");
    }
    start(&bench, none);
    bench.cli.config = cli_write_file("hearth.ini", "[serve]\nport = x\n", 17);
    const struct remote_options options = {.timeout_ns = NS_PER_S};
    assert_err(remote_open(&remote, &bench.cli, &options, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "hearth.ini:2: port"));
    arena_fini(&bench.arena);
}

static const char *key_with(struct bench *bench, const char *admin, const char *file,
                            const char *api)
{
    const char *items[] = {api};
    const struct remote_options options = {.admin_key = admin,
                                           .admin_key_file = file,
                                           .api_keys = {items, api != NULL},
                                           .timeout_ns = NS_PER_S};
    struct remote remote;

    assert_ok(remote_open(&remote, &bench->cli, &options, NULL));
    return remote.key;
}

static void test_which_key(void **state)
{
    static const char *const none[] = {NULL};
    const char *file = cli_write_file("keys", " in-the-file \nsecond\n", 21);
    struct remote_options options = {.timeout_ns = NS_PER_S};
    struct errinfo info = {0};
    struct remote remote;
    struct bench bench;

    (void)state;
    start(&bench, none);
    assert_null(key_with(&bench, NULL, NULL, NULL));
    assert_string_equal(key_with(&bench, NULL, NULL, "anna:k1,bert:k2"), "k1");
    assert_string_equal(key_with(&bench, NULL, file, "k1"), "in-the-file");
    assert_string_equal(key_with(&bench, "a1,a2", file, "k1"), "a1");
    options.admin_key_file = cli_write_file("empty", "\n", 1);
    assert_err(remote_open(&remote, &bench.cli, &options, &info), ERR_INVALID);
    options.admin_key_file = "/nonexistent";
    assert_err(remote_open(&remote, &bench.cli, &options, &info), ERR_NOT_FOUND);
    arena_fini(&bench.arena);
}

/* Asks a server that answers with `status` and `body`. */
static enum err ask(const char *status, const char *body, const char *post, yyjson_doc **doc,
                    char request[4096], struct errinfo *info)
{
    static const char *const none[] = {NULL};
    struct canned_server server;
    struct remote remote;
    struct bench bench;
    char answer[1024], url[64];

    snprintf(answer, sizeof(answer), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s", status,
             strlen(body), body);
    canned_server_start(&server, answer, strlen(answer), 16);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", server.port);
    start(&bench, none);
    const struct remote_options options = {
        .url = url, .admin_key = "secret", .timeout_ns = 20 * NS_PER_S};
    assert_ok(remote_open(&remote, &bench.cli, &options, info));
    enum err err = remote_ask_json(&remote, "/admin/x", post, doc, info);
    canned_server_stop(&server);
    snprintf(request, 4096, "%s", server.request);
    arena_fini(&bench.arena);
    return err;
}

static void test_answers(void **state)
{
    char request[4096];
    yyjson_doc *doc;

    (void)state;
    assert_ok(ask("200 OK", "{\"n\":3}", NULL, &doc, request, NULL));
    assert_int_equal(yyjson_get_int(yyjson_obj_get(yyjson_doc_get_root(doc), "n")), 3);
    assert_non_null(strstr(request, "GET /admin/x HTTP/1.1\r\n"));
    assert_non_null(strstr(request, "Authorization: Bearer secret\r\n"));
    yyjson_doc_free(doc);
    assert_ok(ask("200 OK", "{}", "{\"a\":1}", &doc, request, NULL));
    assert_non_null(strstr(request, "POST /admin/x HTTP/1.1\r\n"));
    yyjson_doc_free(doc);
}

static void test_refusals_have_a_way_out(void **state)
{
    static const struct {
        const char *status, *body;
        enum err err;
        const char *says;
    } cases[] = {
        {"401 No", "{\"error\":{\"message\":\"Who are you?\"}}", ERR_DENIED,
         "Who are you?; pass the key with --admin-key-file FILE"},
        {"403 No", "", ERR_DENIED, "HEARTH_ADMIN_KEY"},
        {"404 No", "{\"error\":{\"message\":\"nothing\"}}", ERR_NOT_FOUND,
         "knows no /admin/x: nothing"},
        {"400 Bad", "{\"error\":{\"message\":\"'tier' is wrong\"}}", ERR_INVALID,
         "refuses that: 'tier' is wrong"},
        {"503 Later", "{\"error\":{\"message\":\"Loading model\"}}", ERR_BUSY,
         "is not available: Loading model; try again"},
        {"500 Oh", "<html>", ERR_IO, "answered with 500"},
        {"200 OK", "hello", ERR_CORRUPT, "is it a hearth server?"},
        {"200 OK", "[1]", ERR_CORRUPT, "is it a hearth server?"},
    };
    char request[4096];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct errinfo info = {0};
        yyjson_doc *doc;
        assert_err(ask(cases[i].status, cases[i].body, NULL, &doc, request, &info), cases[i].err);
        assert_null(doc);
        if (strstr(info.text, cases[i].says) == NULL)
            fail_msg("%s: %s", cases[i].status, info.text);
        assert_null(strstr(info.text, "secret"));
    }
}

TEST_SUITE(TEST(test_where_it_is), TEST(test_where_the_file_says), TEST(test_which_key),
           TEST(test_answers), TEST(test_refusals_have_a_way_out))
