/*
 * cost_file_test.c: what was learned survives a restart, and damage is forgotten.
 */
#include "sched/cost_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attr.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "support/test.h"

enum { CHUNK = 512 };

static struct cost learned(double token_ns)
{
    struct cost cost = {.samples = 0};

    for (uint32_t at = 0; at < 8192; at += CHUNK) {
        struct cost_work work = {.count = {[COST_RUN] = 1}};
        cost_add(&work, at, CHUNK, 0);
        cost_learn(&cost, &work, CHUNK, (uint64_t)(CHUNK * (token_ns + at)));
    }
    return cost;
}

static double ns_of(const struct cost *cost)
{
    return cost_prompt_ns(cost, 8192, CHUNK);
}

static const char *file_of(const char *dir)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/costs", dir);
    return path;
}

static void test_costs_are_remembered(void **state)
{
    struct hash256 one = {{1}}, two = {{2}}, none = {{3}};
    struct cost first = learned(1e5), second = learned(1e6), read;
    const char *dir = test_dir();
    struct stat st;

    (void)state;
    assert_false(cost_file_read(dir, &one, &read));
    assert_ok(cost_file_write(dir, &one, &first, NULL));
    assert_ok(cost_file_write(dir, &two, &first, NULL));
    assert_ok(cost_file_write(dir, &two, &second, NULL));
    assert_true(cost_file_read(dir, &one, &read));
    assert_true(ns_of(&read) == ns_of(&first));
    assert_int_equal(read.samples, first.samples);
    assert_int_equal(read.chunks, first.chunks);
    assert_true(cost_resume(&first));
    assert_memory_equal(read.spread, first.spread, sizeof(read.spread));
    assert_true(cost_file_read(dir, &two, &read));
    assert_true(ns_of(&read) == ns_of(&second));
    assert_false(cost_file_read(dir, &none, &read));
    for (unsigned i = 0; i < 200; i++) { /* more than it remembers */
        struct hash256 many = {{9, (uint8_t)i}};
        assert_ok(cost_file_write(dir, &many, &second, NULL));
    }
    struct hash256 last = {{9, 199}};
    assert_true(cost_file_read(dir, &last, &read));
    assert_false(cost_file_read(dir, &one, &read));
    assert_int_equal(stat(file_of(dir), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

/* Each byte counts: a changed or shortened file is no file, and the next write replaces it. */
static void test_damage_is_forgotten(void **state)
{
    struct hash256 key = {{1}};
    struct cost cost = learned(1e5), read;
    const char *dir = test_dir();
    char *data;
    size_t len;
    int fd;

    (void)state;
    assert_ok(cost_file_write(dir, &key, &cost, NULL));
    assert_ok(file_open_dir(file_sys_real(), dir, false, &fd, NULL));
    assert_ok(file_read_all(file_sys_real(), fd, "costs", 1 << 20, &data, &len, NULL));
    for (size_t i = 0; i < len; i++) {
        data[i] ^= 1;
        assert_ok(file_replace(file_sys_real(), fd, "costs", data, len, 0600, NULL));
        assert_false(cost_file_read(dir, &key, &read));
        data[i] ^= 1;
    }
    for (size_t cut = 0; cut < len; cut += 7) {
        assert_ok(file_replace(file_sys_real(), fd, "costs", data, cut, 0600, NULL));
        assert_false(cost_file_read(dir, &key, &read));
    }
    assert_ok(cost_file_write(dir, &key, &cost, NULL));
    assert_true(cost_file_read(dir, &key, &read));
    cost.ns[COST_DEPTH] = -1; /* a whole file with numbers that cannot be */
    assert_ok(cost_file_write(dir, &key, &cost, NULL));
    assert_false(cost_file_read(dir, &key, &read));
    mem_free(data);
    file_close(file_sys_real(), &fd);
}

static void test_settings_that_change_the_speed(void **state)
{
    struct engine_facts facts = {.chunk = 512, .backend = "CPU", .fingerprint = {{1}}};
    struct engine_facts others[] = {facts, facts, facts};
    struct engine_options options = {.threads = 2};
    struct engine_options changed[] = {options, options, options, options, options, options};
    struct hash256 key = cost_file_key(&facts, &options), other;

    (void)state;
    others[0].chunk = 256;
    others[1].backend = "CUDA0";
    others[2].fingerprint.bytes[0] = 2;
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        other = cost_file_key(&others[i], &options);
        assert_false(hash256_eq(&key, &other));
    }
    changed[0].threads = 3;
    changed[1].threads_prefill = 3;
    changed[2].gpu_layers = 3;
    changed[3].streams = true;
    changed[4].devices = "CUDA1";
    changed[5].rpc = "host:1";
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        other = cost_file_key(&facts, &changed[i]);
        assert_false(hash256_eq(&key, &other));
    }
    options.context = 4096; /* changes nothing */
    other = cost_file_key(&facts, &options);
    assert_true(hash256_eq(&key, &other));
}

TEST_SUITE(TEST(test_costs_are_remembered), TEST(test_damage_is_forgotten),
           TEST(test_settings_that_change_the_speed))
