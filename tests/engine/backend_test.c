/*
 * The process-wide part of the libraries: loading plug-ins once, and keeping what the libraries
 * complain about. Each test is a process, so each begins with nothing loaded.
 */
#include "engine/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ggml-backend.h>
#include <gguf.h>

#include "base/lock.h"
#include "engine/engine.h"
#include "support/test.h"

enum { THREADS = 8 };

/* Makes the library log an error that has `name` in it. */
static void provoke(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "/nonexistent/%s", name);
    gguf_free(gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = true}));
}

static void test_init_twice_is_init_once(void **state)
{
    (void)state;
    backend_init(NULL);
    size_t count = ggml_backend_dev_count();
    assert_true(count > 0);
    backend_init(NULL);
    backend_init("/nonexistent"); /* too late to matter */
    assert_int_equal(ggml_backend_dev_count(), count);
    assert_true(engine_backends("/nonexistent", NULL, 0) == count);
}

/* Its own thread, with what it saw: cmocka's asserts belong to the main thread. */
struct starter {
    struct thread thread;
    char name[32];
    size_t devices;
    bool own_error, taken;
};

static void init_and_fail(void *arg)
{
    struct starter *starter = arg;

    backend_init(NULL);
    starter->devices = ggml_backend_dev_count();
    provoke(starter->name);
    starter->own_error = strstr(backend_take_error(), starter->name) != NULL;
    starter->taken = backend_take_error()[0] == '\0';
}

/* Loaded when init returns, whichever thread did it; and each thread has its own errors. */
static void test_threads_may_init_together(void **state)
{
    static struct starter starters[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        snprintf(starters[i].name, sizeof(starters[i].name), "thread-%d", i);
        assert_ok(thread_start(&starters[i].thread, "init", init_and_fail, &starters[i], NULL));
    }
    for (int i = 0; i < THREADS; i++) {
        thread_join(&starters[i].thread);
        assert_true(starters[i].devices > 0);
        assert_true(starters[i].own_error && starters[i].taken);
    }
    assert_string_equal(backend_take_error(), "");
}

static void take_any(void *arg)
{
    *(bool *)arg = backend_take_error()[0] == '\0';
}

static void test_errors_belong_to_their_thread(void **state)
{
    struct thread thread = {0};
    bool empty = false;

    (void)state;
    backend_init(NULL);
    backend_take_error();
    provoke("ours");
    assert_ok(thread_start(&thread, "take", take_any, &empty, NULL));
    thread_join(&thread);
    assert_true(empty);
    assert_non_null(strstr(backend_take_error(), "ours"));
}

static void test_devices_are_described(void **state)
{
    struct engine_backend_info info;

    (void)state;
    setenv("GGML_VK_VISIBLE_DEVICES", "", 1); /* no card comes before the CPU */
    assert_true(engine_backends(NULL, &info, 1) > 0);
    assert_true(backend_is_loaded("cpu"));
    assert_false(backend_is_loaded("nonexistent"));
    assert_true(info.gpu || info.flash); /* the CPU has flash attention */
    assert_true(strlen(info.name) > 0 && info.memory_total > 0);
    assert_true(strlen(engine_library_version()) > 0 && strlen(engine_ggml_version()) > 0);
}

static void test_folder_comes_from_the_environment(void **state)
{
    (void)state;
    unsetenv("HEARTH_BACKENDS");
    char built[1024];
    snprintf(built, sizeof(built), "%s", backend_dir());
    assert_true(built[0] != '\0');
    setenv("HEARTH_BACKENDS", "", 1);
    assert_string_equal(backend_dir(), built);
    setenv("HEARTH_BACKENDS", "/nonexistent/backends", 1);
    assert_string_equal(backend_dir(), "/nonexistent/backends");
    assert_string_equal(engine_backends_dir(NULL), "/nonexistent/backends");
    assert_string_equal(engine_backends_dir("given"), "given");
    assert_int_equal(engine_backends(NULL, NULL, 0), 0);
}

/* Plug-ins come from that folder or from nowhere: not from the current one either, where anybody may
 * have put them. */
static void test_no_other_folder_is_searched(void **state)
{
    (void)state;
    unsetenv("HEARTH_BACKENDS");
    assert_int_equal(chdir(backend_dir()), 0);
    assert_int_equal(engine_backends("/nonexistent", NULL, 0), 0);
}

/* What is given wins over the environment. */
static void test_given_folder_wins(void **state)
{
    char built[1024];

    (void)state;
    unsetenv("HEARTH_BACKENDS");
    snprintf(built, sizeof(built), "%s", backend_dir());
    setenv("HEARTH_BACKENDS", "/nonexistent", 1);
    backend_init(built);
    assert_true(ggml_backend_dev_count() > 0);
}

static void test_first_error_is_kept_and_taken_once(void **state)
{
    (void)state;
    assert_string_equal(backend_take_error(), "");
    backend_init(NULL);
    backend_take_error(); /* a plug-in may have complained */
    assert_string_equal(backend_take_error(), "");
    provoke("first");
    provoke("second");
    const char *text = backend_take_error();
    assert_non_null(strstr(text, "/nonexistent/first"));
    assert_null(strstr(text, "second"));
    assert_null(strchr(text, '\n'));
    assert_null(strstr(text, "gguf_init_from_file: ")); /* the library's own function is no news */
    assert_string_equal(backend_take_error(), "");
    provoke("third");
    assert_non_null(strstr(backend_take_error(), "/nonexistent/third"));
}

static void test_long_errors_are_cut(void **state)
{
    char name[400];

    (void)state;
    backend_init(NULL);
    backend_take_error();
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    provoke(name);
    size_t len = strlen(backend_take_error());
    assert_true(len > 200 && len < 256);
    assert_string_equal(backend_take_error(), "");
}

TEST_SUITE(TEST(test_init_twice_is_init_once), TEST(test_threads_may_init_together),
           TEST(test_errors_belong_to_their_thread), TEST(test_devices_are_described),
           TEST(test_folder_comes_from_the_environment), TEST(test_no_other_folder_is_searched),
           TEST(test_given_folder_wins), TEST(test_first_error_is_kept_and_taken_once),
           TEST(test_long_errors_are_cut))
