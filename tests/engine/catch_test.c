/* catch_test.c: exceptions of the C++ library end in catch_call, and tokenizing survives a lack of
 * memory. */
#include "engine/catch.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/sample.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

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
    if (TEST_SANITIZED) /* their shadow memory has no limit that could be set */
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

#if !TEST_SANITIZED

/* C++'s operator new, for the libraries of this process: the n-th call from now on fails. */
static atomic_long news_left;

void *_Znwm(size_t size);
void *_Znwm(size_t size)
{
    bool fails = atomic_load(&news_left) > 0 && atomic_fetch_sub(&news_left, 1) == 1;
    void *memory = fails ? NULL : mem_try_alloc(size);

    if (memory == NULL)
        throw_by_name((void *)"_ZSt17__throw_bad_allocv");
    return memory;
}

/* One token, sampled with penalties; then the state is exported. */
static enum err generate(struct engine *engine, token_id *token)
{
    static const token_id prompt[] = {5, 6, 7, 8};
    struct sample_params params = sample_params_default();
    struct sampler *sampler = NULL;
    struct sample_pick pick = {0};
    seq_id seq = SEQ_NONE;

    params.temperature = 0.0f;
    params.penalty_repeat = 1.1f;
    enum err err = engine_seq_acquire(engine, &seq, NULL);
    if (err == ERR_OK)
        err =
            engine_run(engine, &(struct engine_item){seq, prompt, COUNT_OF(prompt), true}, 1, NULL);
    if (err == ERR_OK)
        err = sampler_create(&sampler, engine, &params, NULL);
    if (err == ERR_OK)
        err = sampler_prime(sampler, prompt, COUNT_OF(prompt), NULL);
    if (err == ERR_OK)
        err = sampler_pick(sampler, 0, &pick, NULL);
    if (err == ERR_OK) {
        uint64_t bytes = state_whole_bytes(engine, seq);
        struct state_shape shape;
        void *rows = mem_alloc(bytes);
        err = state_export_whole(engine, seq, rows, bytes, &shape, NULL);
        mem_free(rows);
    }
    sampler_destroy(&sampler);
    if (seq != SEQ_NONE)
        engine_seq_release(engine, &seq);
    *token = pick.token;
    return err;
}

/* Each allocation of the library fails once: the call is an error, and the next one works. */
static void test_every_allocation_of_the_library_may_fail(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    token_id expected, token;
    long failed = 0;

    (void)state;
    assert_ok(generate(engine, &expected));
    for (long n = 1;; n++) {
        atomic_store(&news_left, n);
        enum err err = generate(engine, &token);
        bool fired = atomic_exchange(&news_left, 0) == 0;
        assert_true(fired || err == ERR_OK);
        failed += err != ERR_OK;
        assert_ok(generate(engine, &token));
        assert_int_equal(token, expected);
        if (!fired)
            break;
    }
    assert_true(failed > 10);
    engine_close(&engine);
}
#else
static void test_every_allocation_of_the_library_may_fail(void **state)
{
    (void)state;
    TEST_SKIP("a sanitizer has its own operator new");
}
#endif

TEST_SUITE(TEST(test_exceptions_end_here), TEST(test_tokenizing_survives_a_lack_of_memory),
           TEST(test_every_allocation_of_the_library_may_fail))
