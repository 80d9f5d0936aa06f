/* Default folders. */
#include "cli/config.h"

#include "base/arena.h"
#include "cli/cli.h"
#include "support/test.h"

static const char *state_with(const char *const *env, const char *named, struct arena *arena)
{
    const struct cli_setup setup = {.env = env};
    const struct cli cli = {.setup = &setup, .arena = arena};

    return folders_state(&cli, named);
}

static const char *ssd_with(const char *const *env, const char *named, struct arena *arena)
{
    const struct cli_setup setup = {.env = env};
    const struct cli cli = {.setup = &setup, .arena = arena};

    return folders_ssd(&cli, named);
}

static void test_folders(void **state)
{
    static const char *const home[] = {"HOME=/h", NULL};
    static const char *const xdg[] = {"HOME=/h", "XDG_STATE_HOME=/s", "XDG_CACHE_HOME=/c", NULL};
    static const char *const relative[] = {"HOME=/h", "XDG_STATE_HOME=s", "XDG_CACHE_HOME=c", NULL};
    static const char *const none[] = {NULL};
    struct arena arena;

    (void)state;
    arena_init(&arena, 4096);
    assert_string_equal(state_with(home, NULL, &arena), "/h/.local/state/hearth");
    assert_string_equal(state_with(xdg, NULL, &arena), "/s/hearth");
    assert_string_equal(state_with(relative, NULL, &arena), "/h/.local/state/hearth");
    assert_string_equal(state_with(none, "here", &arena), "here");
    assert_null(state_with(none, NULL, &arena));
    assert_string_equal(ssd_with(home, NULL, &arena), "/h/.cache/hearth/ssd");
    assert_string_equal(ssd_with(xdg, NULL, &arena), "/c/hearth/ssd");
    assert_string_equal(ssd_with(relative, NULL, &arena), "/h/.cache/hearth/ssd");
    assert_string_equal(ssd_with(home, "there", &arena), "there");
    assert_null(ssd_with(home, "none", &arena));
    assert_null(ssd_with(none, NULL, &arena));
    arena_fini(&arena);
}

TEST_SUITE(TEST(test_folders))
