/* catch_test.c: exceptions of the C++ library end in catch_call, and tokenizing survives a lack of
 * memory. */
#include "engine/catch.h"

#include <dlfcn.h>
#include <string.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "support/models.h"
#include "support/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { TEXT_BYTES = 24 << 20, SPARE_BYTES = 300 << 20, ROUNDS = 1000 };

/* std::__throw_bad_alloc() and its kin: C++ functions that do nothing but throw. */
static void throw_by_name(void *arg)
{
    void (*thrower)(const char *);

    *(void **)&thrower = dlsym(RTLD_DEFAULT, arg);
    assert_non_null(thrower);
    thrower("thrown by a test");
}

static void count_up(void *arg)
{
    ++*(int *)arg;
}

static void nested(void *arg)
{
    assert_err(catch_call(throw_by_name, arg), ERR_ENGINE);
    throw_by_name((void *)"_ZSt17__throw_bad_allocv");
}

static void test_exceptions_end_here(void **state)
{
    int calls = 0;

    (void)state;
    assert_ok(catch_call(count_up, &calls));
    assert_int_equal(calls, 1);
    for (int i = 0; i < ROUNDS; i++) {
        assert_err(catch_call(throw_by_name, (void *)"_ZSt17__throw_bad_allocv"), ERR_NOMEM);
        assert_err(catch_call(throw_by_name, (void *)"_ZSt20__throw_length_errorPKc"), ERR_NOMEM);
        assert_err(catch_call(throw_by_name, (void *)"_ZSt19__throw_logic_errorPKc"), ERR_ENGINE);
        assert_err(catch_call(nested, (void *)"_ZSt21__throw_runtime_errorPKc"), ERR_NOMEM);
    }
}

/* Bytes of address space in use. */
static rlim_t size_now(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void test_tokenizing_survives_a_lack_of_memory(void **state)
{
    struct rlimit limit;
    token_id tokens[16];
    struct errinfo info = {0};
    size_t count = 0;

    (void)state;
    if (SANITIZED) /* their shadow memory has no limit that could be set */
        skip();
    struct engine *engine = test_engine("qwen3", NULL);
    char *text = mem_alloc(TEXT_BYTES);
    memset(text, 'a', TEXT_BYTES);
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = size_now() + SPARE_BYTES;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_err(engine_tokenize(engine, (struct str){text, TEXT_BYTES}, 0, tokens, COUNT_OF(tokens),
                               &count, &info),
               ERR_NOMEM);
    assert_non_null(strstr(info.text, "memory"));
    assert_ok(engine_tokenize(engine, STR("a b"), 0, tokens, COUNT_OF(tokens), &count, NULL));
    assert_true(count > 0);
    mem_free(text);
    engine_close(&engine);
}

TEST_SUITE(TEST(test_exceptions_end_here), TEST(test_tokenizing_survives_a_lack_of_memory))
