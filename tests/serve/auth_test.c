/* auth_test.c: API keys: where they come from, who they are, that none is found by its timing, that
 * none is ever shown. */
#include "serve/auth.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "support/test.h"

static struct auth *make(const char *keys, enum auth_isolation isolation)
{
    struct auth_options options = {
        .keys = &keys, .keys_count = keys ? 1 : 0, .isolation = isolation};
    struct auth *auth;

    assert_ok(auth_create(&auth, &options, NULL));
    return auth;
}

static struct auth_result check(const struct auth *auth, const char *authorization,
                                const char *api_key)
{
    return auth_check(auth, str_from(authorization), str_from(api_key));
}

static const char *write_file(const char *text)
{
    static char path[4096];
    struct errinfo info;
    int dir;

    assert_ok(file_open_dir(file_sys_real(), test_dir(), false, &dir, &info));
    assert_ok(file_replace(file_sys_real(), dir, "keys", text, strlen(text), 0600, &info));
    file_close(file_sys_real(), &dir);
    snprintf(path, sizeof(path), "%s/keys", test_dir());
    return path;
}

static void test_without_keys_all_may_ask(void **state)
{
    struct auth *auth = make(NULL, AUTH_ISOLATION_AUTO);
    struct auth_result result = check(auth, NULL, NULL);

    (void)state;
    assert_false(auth_wanted(auth));
    assert_false(auth_isolated(auth));
    assert_int_equal(result.verdict, AUTH_OK);
    assert_string_equal(result.tenant, "");
    assert_int_equal(check(auth, "Bearer anything", NULL).verdict, AUTH_OK);
    auth_destroy(&auth);
    assert_null(auth);
}

static void test_both_headers_and_their_spellings(void **state)
{
    static const struct {
        const char *authorization, *api_key;
        enum auth_verdict verdict;
    } cases[] = {
        {"Bearer secret", NULL, AUTH_OK},
        {"bearer secret", NULL, AUTH_OK},
        {"BEARER   secret", NULL, AUTH_OK},
        {"secret", NULL, AUTH_OK},
        {NULL, "secret", AUTH_OK},
        {"Bearer wrong", "secret", AUTH_OK},
        {"Bearer secret", "wrong", AUTH_OK},
        {NULL, NULL, AUTH_MISSING},
        {"", "", AUTH_MISSING},
        {"Bearer ", NULL, AUTH_MISSING},
        {"Bearer wrong", NULL, AUTH_WRONG},
        {NULL, "wrong", AUTH_WRONG},
        {"Bearer secre", NULL, AUTH_WRONG},
        {"Bearer secret1", NULL, AUTH_WRONG},
        {"Bearer SECRET", NULL, AUTH_WRONG},
        {"Basic secret", NULL, AUTH_WRONG},
        {"Bearer name:secret", NULL, AUTH_WRONG},
    };
    struct auth *auth = make("secret", AUTH_ISOLATION_AUTO);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct auth_result result = check(auth, cases[i].authorization, cases[i].api_key);

        if (result.verdict != cases[i].verdict)
            fail_msg("case %zu: verdict %d", i, result.verdict);
        if (result.verdict != AUTH_OK)
            assert_string_equal(result.who, "");
    }
    auth_destroy(&auth);
}

/* A comparison that ended at the key that fits would tell by its time which one that is. */
static void test_every_key_is_compared(void **state)
{
    struct auth *auth = make("k0,k1,k2,k3,k4", AUTH_ISOLATION_AUTO);

    (void)state;
    assert_int_equal(check(auth, "Bearer k0", NULL).compared, 5);
    assert_int_equal(check(auth, "Bearer k4", NULL).compared, 5);
    assert_int_equal(check(auth, "Bearer wrong", NULL).compared, 5);
    assert_int_equal(check(auth, "Bearer k0", "k1").compared, 10);
    assert_int_equal(check(auth, NULL, NULL).compared, 0);
    auth_destroy(&auth);
}

static void test_tenants(void **state)
{
    struct auth *auth = make("alice:k1,bob:k2,k3,alice:k4,sk:with:colon", AUTH_ISOLATION_AUTO);
    struct auth_result nameless = check(auth, "Bearer k3", NULL);

    (void)state;
    assert_true(auth_isolated(auth));
    assert_string_equal(check(auth, "Bearer k1", NULL).tenant, "alice");
    assert_string_equal(check(auth, "Bearer k4", NULL).tenant, "alice");
    assert_string_equal(check(auth, "Bearer k2", NULL).tenant, "bob");
    assert_string_equal(check(auth, "Bearer with:colon", NULL).tenant, "sk");
    assert_int_equal(strlen(nameless.tenant), 4 + 16);
    assert_memory_equal(nameless.tenant, "key-", 4);
    auth_destroy(&auth);
}

/* An admin key allows everything. Without any key, every client is the admin. With keys but no
 * admin key, none is. */
static void test_admin(void **state)
{
    static const struct {
        const char *keys, *admin, *presented;
        enum auth_verdict verdict;
        bool is_admin;
    } cases[] = {
        {NULL, NULL, NULL, AUTH_OK, true},         {"k", NULL, "Bearer k", AUTH_OK, false},
        {"k", "a", "Bearer k", AUTH_OK, false},    {"k", "a", "Bearer a", AUTH_OK, true},
        {"k", "a", "Bearer x", AUTH_WRONG, false}, {"k", "a", NULL, AUTH_MISSING, false},
        {NULL, "a", NULL, AUTH_OK, false},         {NULL, "a", "Bearer a", AUTH_OK, true},
        {NULL, "a", "Bearer x", AUTH_OK, false},   {"k", "a,b", "Bearer b", AUTH_OK, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct auth_options options = {
            .keys = &cases[i].keys, .keys_count = cases[i].keys ? 1 : 0, .admin = cases[i].admin};
        struct auth *auth;
        assert_ok(auth_create(&auth, &options, NULL));
        struct auth_result result = check(auth, cases[i].presented, NULL);
        assert_int_equal(result.verdict, cases[i].verdict);
        assert_int_equal(result.admin, cases[i].is_admin);
        assert_int_equal(auth_wanted(auth), cases[i].keys != NULL);
        /* the admin alone is no tenant */
        assert_int_equal(auth_isolated(auth), cases[i].keys != NULL);
        auth_destroy(&auth);
    }
}

static void test_isolation(void **state)
{
    static const struct {
        const char *keys;
        enum auth_isolation isolation;
        bool isolated;
    } cases[] = {
        {"a", AUTH_ISOLATION_AUTO, true},           {"a", AUTH_ISOLATION_KEY, true},
        {"a", AUTH_ISOLATION_NONE, false},          {"a,b", AUTH_ISOLATION_AUTO, true},
        {"a,b", AUTH_ISOLATION_NONE, false},        {"x:a,x:b", AUTH_ISOLATION_AUTO, true},
        {"x:a,x:b,y:c", AUTH_ISOLATION_AUTO, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct auth *auth = make(cases[i].keys, cases[i].isolation);

        assert_int_equal(auth_isolated(auth), cases[i].isolated);
        if (!cases[i].isolated && strchr(cases[i].keys, ':') == NULL) {
            assert_string_equal(check(auth, "Bearer a", NULL).tenant, "");
            assert_string_not_equal(check(auth, "Bearer a", NULL).who, ""); /* still told apart */
        }
        auth_destroy(&auth);
    }
}

/* What is on disk is bound to the tenant: its name may not change with the process, nor with its
 * place in the list. */
static void test_the_name_of_a_nameless_key_is_stable(void **state)
{
    struct auth *one = make("k1,k2", AUTH_ISOLATION_KEY), *two = make("k3,k2", AUTH_ISOLATION_KEY);

    (void)state;
    assert_string_equal(check(one, "Bearer k2", NULL).tenant, check(two, "Bearer k2", NULL).tenant);
    assert_string_equal(check(one, "Bearer k2", NULL).tenant, "key-510bd787a448a0dd");
    auth_destroy(&one);
    auth_destroy(&two);
}

static void test_files_and_options(void **state)
{
    const char *path = write_file("# keys of the house\n\n  alice:k1  \r\nk2\n#k9\nbob:k3");
    const char *const keys = "carol:k4, k5";
    struct auth_options options = {.file = path, .keys = &keys, .keys_count = 1};
    struct auth *auth;
    struct errinfo info;

    (void)state;
    assert_ok(auth_create(&auth, &options, &info));
    assert_string_equal(check(auth, NULL, "k1").who, "alice");
    assert_int_equal(check(auth, NULL, "k2").verdict, AUTH_OK);
    assert_string_equal(check(auth, NULL, "k3").who, "bob");
    assert_string_equal(check(auth, NULL, "k4").who, "carol");
    assert_int_equal(check(auth, NULL, "k5").verdict, AUTH_OK);
    assert_int_equal(check(auth, NULL, "k9").verdict, AUTH_WRONG);
    assert_int_equal(check(auth, NULL, "k9").compared, 5);
    auth_destroy(&auth);
}

/* A link is how keys are mounted in containers. */
static void test_a_file_behind_a_link(void **state)
{
    char link[4096];
    struct auth_options options = {.file = link};
    struct auth *auth;

    (void)state;
    snprintf(link, sizeof(link), "%s/link", test_dir());
    assert_int_equal(symlink(write_file("k1\n"), link), 0);
    assert_ok(auth_create(&auth, &options, NULL));
    assert_int_equal(check(auth, NULL, "k1").verdict, AUTH_OK);
    auth_destroy(&auth);
}

static void test_bad_keys_are_refused_and_not_shown(void **state)
{
    static const char *const bad[] = {"good,,x", "alice:", "se cret",
                                      "s\xc3\xa9"
                                      "cret",
                                      "a\tb"};
    struct auth *auth;
    struct errinfo info;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct auth_options options = {.keys = &bad[i], .keys_count = 1};

        assert_err(auth_create(&auth, &options, &info), ERR_INVALID);
        assert_null(auth);
        assert_null(strstr(info.text, "cret"));
        assert_null(strstr(info.text, "good"));
    }
}

/* A file that was to have keys and has none must not open the server to all. */
static void test_a_file_without_keys_is_an_error(void **state)
{
    struct auth_options options = {.file = write_file("# nothing\n")};
    struct auth *auth;
    struct errinfo info;

    (void)state;
    assert_err(auth_create(&auth, &options, &info), ERR_INVALID);
    options.file = "/nowhere/keys";
    assert_err(auth_create(&auth, &options, &info), ERR_NOT_FOUND);
    assert_non_null(strstr(info.text, "API keys"));
}

/* As --api-key "$UNSET" gives it. The server must not be open to all, and look protected. */
static void test_an_option_without_a_key_is_an_error(void **state)
{
    static const struct {
        const char *keys[2];
        size_t count;
        const char *admin;
        enum err err;
    } cases[] = {
        {{""}, 1, NULL, ERR_INVALID},         {{","}, 1, NULL, ERR_INVALID},
        {{" "}, 1, NULL, ERR_INVALID},        {{""}, 1, "secret", ERR_INVALID},
        {{"good", ""}, 2, NULL, ERR_INVALID}, {{"", "good"}, 2, NULL, ERR_INVALID},
        {{"good"}, 1, "", ERR_INVALID},       {{NULL}, 0, "", ERR_INVALID},
        {{NULL}, 0, ",", ERR_INVALID},        {{"good"}, 1, NULL, ERR_OK},
        {{"good"}, 1, "secret", ERR_OK},      {{NULL}, 0, "secret", ERR_OK},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct auth_options options = {
            .keys = cases[i].keys, .keys_count = cases[i].count, .admin = cases[i].admin};
        struct auth *auth;
        struct errinfo info;

        assert_err(auth_create(&auth, &options, &info), cases[i].err);
        if (cases[i].err == ERR_OK)
            assert_int_equal(auth_wanted(auth), cases[i].count > 0);
        auth_destroy(&auth);
    }
}

static void test_a_file_that_others_can_read_is_named(void **state)
{
    char path[4096], text[4096] = "";
    struct auth_options options = {.file = write_file("k1\n")};
    struct auth *auth;

    (void)state;
    snprintf(path, sizeof(path), "%s/log", test_dir());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    options.log =
        log_create(&(struct log_options){.fd = fd, .level = LOG_LEVEL_WARN, .clock = clock_real()});
    for (mode_t mode = 0600; mode <= 0644; mode += 044) {
        assert_int_equal(chmod(options.file, mode), 0);
        assert_ok(auth_create(&auth, &options, NULL));
        auth_destroy(&auth);
        assert_true(pread(fd, text, sizeof(text) - 1, 0) >= 0);
        assert_int_equal(strstr(text, "mode=0644") != NULL, mode == 0644);
    }
    log_destroy((struct log **)&options.log);
    close(fd);
}

static void test_too_many_keys(void **state)
{
    static char keys[AUTH_KEYS_MAX * 2 + 2];
    const char *list = keys;
    struct auth_options options = {.keys = &list, .keys_count = 1};
    struct auth *auth;
    struct errinfo info;

    (void)state;
    for (size_t i = 0; i <= AUTH_KEYS_MAX; i++)
        memcpy(keys + 2 * i, i < AUTH_KEYS_MAX ? "k," : "k", i < AUTH_KEYS_MAX ? 2 : 1);
    assert_err(auth_create(&auth, &options, &info), ERR_LIMIT);
}

static void test_every_allocation_and_read_may_fail(void **state)
{
    const char *const keys = "k3";
    struct auth_options options = {
        .file = write_file("alice:k1\nk2\n"), .keys = &keys, .keys_count = 1};
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct auth *auth;
        struct errinfo info;
        enum err err = auth_create(&auth, &options, &info);

        assert_int_equal(err == ERR_OK, fault.fired == 0);
        assert_int_equal(auth != NULL, err == ERR_OK);
        auth_destroy(&auth);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(TEST(test_without_keys_all_may_ask), TEST(test_both_headers_and_their_spellings),
           TEST(test_every_key_is_compared), TEST(test_tenants), TEST(test_admin),
           TEST(test_isolation), TEST(test_the_name_of_a_nameless_key_is_stable),
           TEST(test_files_and_options), TEST(test_a_file_behind_a_link),
           TEST(test_bad_keys_are_refused_and_not_shown),
           TEST(test_a_file_without_keys_is_an_error),
           TEST(test_an_option_without_a_key_is_an_error),
           TEST(test_a_file_that_others_can_read_is_named), TEST(test_too_many_keys),
           TEST(test_every_allocation_and_read_may_fail))
