/*
 * host_test.c: names that are this machine, Host headers, origins.
 */
#include "http/host.h"

#include <string.h>

#include "support/test.h"

static void test_loopback(void **state)
{
    static const char *const yes[] = {
        "localhost",          "LOCALHOST", "localhost.", "a.localhost",     "127.0.0.1",
        "127.255.3.9",        "::1",       "[::1]",      "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1",
        "[::ffff:127.9.9.9]",
    };
    static const char *const no[] = {
        "",
        "0.0.0.0",
        "::",
        "[::]",
        "192.168.1.1",
        "10.0.0.1",
        "example.com",
        "128.0.0.1",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "notlocalhost",
        "[127.0.0.1]",
        "127.1",
        "2130706433",
        "::2",
        "::ffff:10.0.0.1",
        "[",
        "]",
        ".",
        "fe80::1",
        "0x7f.0.0.1",
        "127.0.0.01x",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(yes); i++)
        if (!http_is_loopback(str_from(yes[i])))
            fail_msg("'%s' is loopback", yes[i]);
    for (size_t i = 0; i < COUNT_OF(no); i++)
        if (http_is_loopback(str_from(no[i])))
            fail_msg("'%s' is not loopback", no[i]);
    assert_false(http_is_loopback((struct str){"localhost\0.example", 18}));
    char longest[400];
    memset(longest, 'a', sizeof(longest));
    memcpy(longest + 390, ".localhost", 10);
    assert_false(http_is_loopback((struct str){longest, 400}));
}

static void test_split(void **state)
{
    static const struct {
        const char *value, *name;
        int port;
    } good[] = {
        {"localhost", "localhost", -1},
        {"localhost:4327", "localhost", 4327},
        {"localhost:", "localhost", -1},
        {"[::1]:80", "[::1]", 80},
        {"[::1]", "[::1]", -1},
        {"my_host.local:0", "my_host.local", 0},
        {"1.2.3.4:65535", "1.2.3.4", 65535},
    };
    static const char *const bad[] = {
        "",         ":80",  "a b",     "a:65536", "a:x",     "a:-1",      "a:+1",
        "a:000080", "[::1", "[::1]x",  "[]",      "[g::1]",  "a,b",       "a/b",
        "user@a",   "::1",  "a:80:80", "a\tb",    "[::1]:x", "[1.2.3.4]",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct str name;
        int port;
        const char *guarded = test_guarded(good[i].value, strlen(good[i].value));
        assert_true(http_host_split((struct str){guarded, strlen(good[i].value)}, &name, &port));
        assert_true(str_eq(name, str_from(good[i].name)));
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct str name;
        const char *guarded = test_guarded(bad[i], strlen(bad[i]));
        if (http_host_split((struct str){guarded, strlen(bad[i])}, &name, NULL))
            fail_msg("'%s' is no host", bad[i]);
    }
    struct str name;
    assert_false(http_host_split((struct str){"a\0b", 3}, &name, NULL));
}

static void test_allowed(void **state)
{
    static const char *const names[] = {"box.lan", "Other.example."};
    struct http_names some = {names, 2}, none = {0}, any = {(const char *const[]){"*"}, 1};

    (void)state;
    assert_true(http_host_allowed(STR("localhost"), none));
    assert_true(http_host_allowed(STR("[::1]"), none));
    assert_false(http_host_allowed(STR("evil.example"), none));
    assert_false(http_host_allowed(STR(""), none));
    assert_true(http_host_allowed(STR("BOX.lan"), some));
    assert_true(http_host_allowed(STR("box.lan."), some));
    assert_true(http_host_allowed(STR("other.example"), some));
    assert_false(http_host_allowed(STR("x.box.lan"), some));
    assert_false(http_host_allowed(STR("box.lan.evil.example"), some));
    assert_true(http_host_allowed(STR("evil.example"), any));
}

static void test_origins(void **state)
{
    static const char *const names[] = {"https://app.example", "http://localhost:3000"};
    struct http_names some = {names, 2}, any = {(const char *const[]){"*"}, 1};

    (void)state;
    assert_true(http_origin_allowed(STR("https://app.example"), some, false));
    assert_false(http_origin_allowed(STR("https://app.example.evil"), some, false));
    assert_false(http_origin_allowed(STR("https://app.exampl"), some, false));
    assert_false(http_origin_allowed(STR("null"), some, false));
    assert_false(http_origin_allowed(STR("https://app.example"), (struct http_names){0}, false));
    assert_true(http_origin_allowed(STR("null"), any, false));
}

static void test_pages_of_this_machine(void **state)
{
    static const struct str local[] = {
        STR("http://localhost"),      STR("http://localhost:3000"), STR("https://localhost:8443"),
        STR("http://127.0.0.1:5173"), STR("http://127.1.2.3"),      STR("http://[::1]:4327"),
        STR("http://localhost."),
    };
    static const struct str others[] = {
        STR("http://localhost.evil.example"),
        STR("http://evil.localhost"),
        STR("http://localhost:3000/path"),
        STR("http://localhost:99999"),
        STR("http://user@localhost"),
        STR("http://127.0.0.1.evil.example"),
        STR("http://0.0.0.0"),
        STR("http://[::]"),
        STR("ftp://localhost"),
        STR("file://localhost"),
        STR("http://"),
        STR("localhost"),
        STR("http:localhost"),
        STR("null"),
        STR(""),
        STR("https://evil.example"),
    };
    struct http_names names = {(const char *const[]){HTTP_ORIGIN_LOCAL}, 1};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(local); i++) {
        assert_true(http_origin_allowed(local[i], names, false));
        assert_false(http_origin_allowed(local[i], names, true));
        assert_false(http_origin_allowed(local[i], (struct http_names){0}, false));
    }
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (http_origin_allowed(others[i], names, false))
            fail_msg("'" STR_FMT "' is allowed", STR_ARG(others[i]));
}

static void test_valid_origins(void **state)
{
    static const struct str valid[] = {STR("*"), STR("null"), STR("localhost"),
                                       STR("https://app.example"), STR("http://box.lan:80")};
    static const struct str invalid[] = {STR("https://App.example"), STR("app.example"),
                                         STR("https://app.example/"), STR("http://a:"), STR("")};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(valid); i++)
        assert_true(http_origin_valid(valid[i]));
    for (size_t i = 0; i < COUNT_OF(invalid); i++)
        assert_false(http_origin_valid(invalid[i]));
}

TEST_SUITE(TEST(test_loopback), TEST(test_split), TEST(test_allowed), TEST(test_origins),
           TEST(test_pages_of_this_machine), TEST(test_valid_origins))
