/*
 * verdict_test.c: verdicts on the objects of a restore (restore.h), one by one.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/state_digest.h"
#include "sched/cuts.h"
#include "sched/sched_impl.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum { RAM = 8 << 20, PROMPT = 65 };

static enum restore_verdict verdict_of(struct job *job)
{
    enum restore_verdict verdict;

    while ((verdict = restore_verdict(job, 0)) == RESTORE_UNKNOWN)
        clock_sleep_ns(clock_real(), NS_PER_MS / 10);
    return verdict;
}

/* A verdict is on bytes in their place: those that are read again after a plan was shortened, to
 * another place, get their own. */
static void test_bytes_that_are_read_again_are_verified_again(void **state)
{
    static struct kit_gen gen;
    struct hearth_plan *plan;
    struct cuts_shape shape;
    struct sched_kit kit;
    const void *data;

    (void)state;
    sched_kit_open(&kit, &(struct engine_fake_options){0}, RAM, NULL);
    kit_gen_init(&gen, &kit, 1, PROMPT, 1);
    kit_gen_run(&kit, &gen);
    uint64_t tokens;
    assert_ok(sched_forget(kit.sched, NULL, 60000, &tokens, NULL)); /* it is stored */
    assert_int_equal(hearth_lookup(kit.space, gen.prompt, PROMPT, NULL, &plan), HEARTH_OK);
    const struct hearth_plan_info *info = hearth_plan_info(plan);
    assert_int_equal(info->objects_count, 1);
    assert_int_equal(hearth_plan_fetch(plan, 0, 0, &data), HEARTH_OK);
    memcpy(&shape, info->objects[0].shape, sizeof(shape));
    struct state_object object = {shape.state, data, true};
    struct state_digest_task *task = NULL;
    struct job job = {
        .sched = kit.sched,
        .restore = {.plan = plan, .objects = &object, .tasks = &task, .objects_count = 1}};
    restore_verify(&job, 0, data);
    assert_null(task); /* not a second time */
    assert_int_equal(verdict_of(&job), RESTORE_GOOD);
    uint64_t bytes = info->objects[0].bytes;
    unsigned char *again = mem_alloc(bytes);
    memcpy(again, data, bytes);
    restore_verify(&job, 0, again);
    assert_non_null(task);
    assert_int_equal(verdict_of(&job), RESTORE_GOOD);
    again[bytes / 2] ^= 1;
    restore_verify(&job, 0, data);
    assert_int_equal(verdict_of(&job), RESTORE_GOOD);
    restore_verify(&job, 0, again);
    assert_int_equal(verdict_of(&job), RESTORE_BAD);
    mem_free(again);
    hearth_plan_release(&plan);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

TEST_SUITE(TEST(test_bytes_that_are_read_again_are_verified_again))
