/*
 * isolate_test.c: several models in one server, each in its own process: one is killed, its
 * next answer comes from the cache; the other does not notice. And what the guard measures is what
 * the system says of all processes.
 */
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "support/soak_flight.h"
#include "support/soak_server.h"
#include "support/test.h"

enum { ANSWER = 8, TRIES_MAX = 100 };

static struct soak_talk talk_to(unsigned model, uint64_t seed)
{
    static const struct soak_texts none;
    struct soak_talk talk = {0};

    do {
        soak_talk_fini(&talk);
        soak_talk_begin(&talk, &none, &seed, 0);
    } while (talk.model != model);
    return talk;
}

/* Asks until there is an answer; an engine that is dead or begins anew may say so for a while. */
static struct soak_answer ask(const struct serve_proc *proc, const struct soak_talk *talk,
                              unsigned *failed)
{
    struct soak_ask how = {.dialect = SCENARIO_CHAT, .tokens = ANSWER};
    struct soak_flight flight, *flights[] = {&flight};
    struct soak_answer answer;

    for (*failed = 0; *failed < TRIES_MAX; ++*failed) {
        assert_true(soak_flight_send(&flight, proc, talk, &how));
        while (!flight.ended)
            soak_flights_poll(flights, 1, 1000);
        soak_flight_take(&flight, &answer);
        if (answer.whole)
            return answer;
        assert_non_null(strstr(answer.fault, " died"));
        soak_answer_fini(&answer);
        clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
    }
    fail_msg("no answer");
    return answer;
}

/* Which process is a model's: the one that is another one after its death. */
static pid_t find_worker(const struct serve_proc *proc, const pid_t *before, size_t count)
{
    pid_t now[SOAK_WORKERS_MAX];
    size_t now_count = soak_workers(proc, now);

    for (size_t i = 0; i < count; i++) {
        bool there = false;
        for (size_t k = 0; k < now_count; k++)
            there |= now[k] == before[i];
        if (!there)
            return before[i];
    }
    return 0;
}

static void expect_same(const struct soak_answer *a, const struct soak_answer *b)
{
    assert_string_equal(buf_str(&a->text), buf_str(&b->text));
    assert_int_equal(a->prompt, b->prompt);
}

static void test_each_model_finds_its_cache_and_the_other_goes_on(void **state)
{
    struct soak_talk talks[SOAK_MODELS] = {talk_to(0, 1), talk_to(1, 2)};
    struct soak_answer first[SOAK_MODELS];
    struct serve_proc proc;
    pid_t workers[SOAK_WORKERS_MAX];
    unsigned failed;

    (void)state;
    soak_server_start(&proc, "--isolate --exact --ram-cache 32MiB --ssd-dir none");
    for (size_t i = 0; i < SOAK_MODELS; i++)
        first[i] = ask(&proc, &talks[i], &failed);
    for (unsigned kills = 1; kills <= 2; kills++) {
        size_t count = soak_workers(&proc, workers);
        assert_int_equal(count, SOAK_MODELS);
        /* what the answers left on the device is in the cache */
        serve_proc_wait_metric(&proc, "hearth_sched_unsaved", 0);
        kill(workers[kills - 1], SIGKILL);
        /* once for each */
        serve_proc_wait_metric(&proc, "hearth_sched_engine_restarts_total", kills);
        assert_int_equal(find_worker(&proc, workers, count), workers[kills - 1]);
        for (size_t i = 0; i < SOAK_MODELS; i++) {
            struct soak_answer again = ask(&proc, &talks[i], &failed);
            expect_same(&again, &first[i]);
            assert_true(again.computed < again.prompt / 2 && again.ram > 0);
            assert_int_equal(failed, 0);
            soak_answer_fini(&again);
        }
    }
    for (size_t i = 0; i < SOAK_MODELS; i++) {
        soak_answer_fini(&first[i]);
        soak_talk_fini(&talks[i]);
    }
    serve_proc_stop(&proc);
}

/* The guard counts pages of code once for each process, so it never says less than there is; and
 * not much more. */
static void test_the_guard_measures_all_processes(void **state)
{
    /* a sanitizer makes the code several times larger */
    enum { MORE_MAX = (TEST_SANITIZED ? 256 : 64) << 20 };
    struct soak_talk talk = talk_to(0, 3);
    struct serve_proc proc;
    unsigned failed;

    (void)state;
    soak_server_start(&proc, "--isolate --ram-cache 32MiB --ssd-dir none");
    struct soak_answer answer = ask(&proc, &talk, &failed);
    double measured = 0;
    for (unsigned waited_ms = 0;;
         serve_proc_pause(&proc, &waited_ms, "the guard never sees the models' processes")) {
        struct soak_size size = soak_size(&proc);
        assert_true(size.workers_bytes > 0);
        measured = serve_proc_metric(&proc, "hearth_memory_process_bytes");
        if (measured >= (double)size.own_bytes + (double)size.workers_bytes) {
            assert_true(measured <= (double)size.all_bytes + MORE_MAX);
            break;
        }
    }
    assert_true(serve_proc_metric(&proc, "hearth_memory_used_bytes") >= measured);
    soak_answer_fini(&answer);
    soak_talk_fini(&talk);
    serve_proc_stop(&proc);
}

TEST_SUITE(TEST(test_each_model_finds_its_cache_and_the_other_goes_on),
           TEST(test_the_guard_measures_all_processes))
