/* vet_test.c: models that the library aborts on, looked at by a child; the real program is that
 * child. */
#include "engine/vet.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/projector.h"
#include "lab/model_impl.h"
#include "support/models.h"
#include "support/test.h"

enum { FILE_BYTES_MAX = 64 << 20 };

static struct vet *open_vet(const char *program, int dir)
{
    return vet_create(&(struct vet_options){.program = program, .fs = file_sys_real(), .dir = dir});
}

static const char *program(void)
{
    const char *path = getenv("HEARTH");

    if (path == NULL)
        fail_msg("HEARTH must name the program");
    return path;
}

/* A link to the program that can be taken away: nothing can be vetted then. */
static const char *removable_program(void)
{
    static char link[1024];
    char target[1024];

    assert_non_null(realpath(program(), target));
    snprintf(link, sizeof(link), "%s/program", test_dir());
    assert_int_equal(symlink(target, link), 0);
    return link;
}

static enum err load(struct vet *vet, const char *path, bool alone, struct errinfo *info)
{
    struct engine_options options = {
        .path = path, .context = 256, .sequences = 2, .chunk = 64, .threads = 1};
    struct engine *engine;
    enum err err = vet_load(vet, &options, alone, &engine, info);

    assert_int_equal(engine != NULL, err == ERR_OK);
    if (engine != NULL)
        engine_close(&engine);
    return err;
}

static enum err check(struct vet *vet, const char *path, struct errinfo *info)
{
    return load(vet, path, false, info);
}

/* A made model with other bytes for the value of one of its keys. */
static const char *changed(const char *model, const char *name, const char *key, const void *value)
{
    static char path[1024];
    size_t len;
    char *data;

    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, test_model(model), FILE_BYTES_MAX, &data,
                            &len, NULL));
    char *at = memmem(data, len, key, strlen(key));
    assert_non_null(at);
    memcpy(at + strlen(key) + 4, value, 4); /* behind its type */
    snprintf(path, sizeof(path), "%s/%s.gguf", test_dir(), name);
    FILE *file = fopen(path, "wb");
    assert_true(file != NULL && fwrite(data, 1, len, file) == len && fclose(file) == 0);
    free(data);
    return path;
}

static const char *damaged(const char *name, const char *key, const void *value)
{
    return changed("qwen3", name, key, value);
}

/* The library aborts when it builds the graph. */
static const char *that_aborts(void)
{
    return damaged("rope", "qwen3.rope.dimension_count", &(uint32_t){62});
}

static void test_a_pass_is_remembered_on_disk(void **state)
{
    const char *link = removable_program();
    struct errinfo info = {0};
    int dir = FILE_NO;

    (void)state;
    assert_ok(file_open_dir(file_sys_real(), test_dir(), false, &dir, &info));
    struct vet *vet = open_vet(link, dir);
    if (check(vet, test_model("qwen3"), &info) != ERR_OK)
        fail_msg("%s", info.text);
    vet_destroy(&vet);
    assert_int_equal(unlink(link), 0);
    vet = open_vet(link, dir);
    assert_ok(check(vet, test_model("qwen3"), &info));
    /* another file needs the program */
    assert_err(check(vet, test_model("llama"), &info), ERR_NOT_FOUND);
    vet_destroy(&vet);
    file_close(file_sys_real(), &dir);
}

/* ---- alone ---- */

static void test_a_known_one_needs_no_child_alone(void **state)
{
    const char *link = removable_program();
    struct vet *vet = open_vet(link, FILE_NO);
    struct errinfo info = {0};

    (void)state;
    assert_int_equal(unlink(link), 0);
    assert_err(check(vet, test_model("qwen3"), &info), ERR_NOT_FOUND);
    assert_ok(load(vet, test_model("qwen3"), true, &info));
    assert_ok(check(vet, test_model("qwen3"), &info)); /* that was a pass */
    /* an extraordinary file, and one that is no decoder, still need it */
    const char *odd = damaged("epsilon", "qwen3.attention.layer_norm_rms_epsilon", &(float){-1});
    assert_err(load(vet, odd, true, &info), ERR_NOT_FOUND);
    assert_err(load(vet, test_model("bert"), true, &info), ERR_NOT_FOUND);
    vet_destroy(&vet);
}

/* ---- aborts ---- */

static void expect_abort(struct vet *vet, const char *path, const char *words)
{
    struct errinfo info = {0};

    assert_err(check(vet, path, &info), ERR_UNSUPPORTED);
    if (strstr(info.text, words) == NULL || strstr(info.text, "qwen3") == NULL ||
        strstr(info.text, engine_library_version()) == NULL)
        fail_msg("%s", info.text);
    assert_null(strstr(info.text, test_dir())); /* clients read it */
}

static void test_an_abort_is_a_sentence(void **state)
{
    struct vet *vet = open_vet(program(), FILE_NO);

    (void)state;
    expect_abort(vet, that_aborts(), "GGML_ASSERT");
    assert_ok(check(vet, test_model("qwen3"), NULL)); /* the architecture is not condemned */
    vet_destroy(&vet);
}

static void test_a_refusal_is_remembered(void **state)
{
    const char *link = removable_program();
    struct vet *vet = open_vet(link, FILE_NO);

    (void)state;
    expect_abort(vet, that_aborts(), "GGML_ASSERT");
    assert_int_equal(unlink(link), 0);
    expect_abort(vet, that_aborts(), "GGML_ASSERT");
    vet_destroy(&vet);
}

/* A projector is replaced by one that loads well, but aborts on every picture: the pass of the first
 * does not count for it. */
static void test_a_projector_is_vetted(void **state)
{
    struct engine_options options = {
        .context = 256, .sequences = 2, .chunk = 64, .threads = 1, .path = test_model("llama")};
    char *path = mem_strdup(options.path);
    struct vet *vet = open_vet(program(), FILE_NO);
    struct errinfo info = {0};
    struct engine *engine;

    (void)state;
    if (!projector_available())
        TEST_SKIP("this build of llama.cpp has no libmtmd");
    options.path = path;
    options.projector = changed("mmproj-mlp", "projector", "clip.vision.image_size", "\x38\0\0");
    if (vet_load(vet, &options, false, &engine, &info) != ERR_OK)
        fail_msg("%s", info.text);
    assert_true(engine_facts(engine)->images);
    engine_close(&engine);
    options.projector = changed("mmproj-mlp", "projector", "clip.vision.image_size", "\x78\0\0");
    assert_err(vet_load(vet, &options, false, &engine, &info), ERR_UNSUPPORTED);
    assert_null(engine);
    if (strstr(info.text, "GGML_ASSERT") == NULL)
        fail_msg("%s", info.text);
    vet_destroy(&vet);
    mem_free(path);
}

/* A sound one of each kind passes, beside a model without its weights. */
static void test_projectors_pass(void **state)
{
    static const char *const pairs[][2] = {{"gemma3", "mmproj-gemma3"},
                                           {"qwen2vl", "mmproj-qwen2vl"},
                                           {"qwen2vl", "mmproj-qwen25vl"},
                                           {"qwen3vl", "mmproj-qwen3vl"}};
    struct vet *vet = open_vet(program(), FILE_NO);

    (void)state;
    if (!projector_available())
        TEST_SKIP("this build of llama.cpp has no libmtmd");
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        char *projector = mem_strdup(test_model(pairs[i][1]));
        struct engine_options options = {.path = test_model(pairs[i][0]),
                                         .context = 512,
                                         .sequences = 2,
                                         .chunk = 256,
                                         .threads = 1,
                                         .projector = projector};
        struct errinfo info = {0};
        struct engine *engine;
        if (vet_load(vet, &options, false, &engine, &info) != ERR_OK)
            fail_msg("%s: %s", pairs[i][1], info.text);
        engine_close(&engine);
        mem_free(projector);
    }
    vet_destroy(&vet);
}

/* What the child can say itself comes as it is. */
static void test_an_error_of_the_child_is_passed_on(void **state)
{
    struct vet *vet = open_vet(program(), FILE_NO);
    struct errinfo info = {0};

    (void)state;
    assert_err(check(vet, test_model("t5"), &info), ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "encodes its input in a pass of its own"));
    assert_err(check(vet, "/nonexistent", &info), ERR_NOT_FOUND);
    vet_destroy(&vet);
}

static bool never_go_on(float done, void *arg)
{
    (void)done;
    (void)arg;
    return false;
}

static void test_vetting_can_be_cancelled(void **state)
{
    struct engine_options options = {
        .path = test_model("qwen3"), .context = 256, .on_progress = never_go_on};
    struct vet *vet = open_vet(program(), FILE_NO);
    struct engine *engine;

    (void)state;
    assert_err(vet_load(vet, &options, false, &engine, NULL), ERR_CANCELLED);
    vet_destroy(&vet);
}

/* What the tests make is what vetting trusts: a family that is only in one of the two lists is
 * either vetted without need or trusted without a test. */
static void test_tested_architectures_are_the_families_of_the_tests(void **state)
{
    (void)state;
    for (const struct model_family *family = model_families; family->name != NULL; family++) {
        const bool own = family->architecture == NULL;
        if (own && vet_is_tested(family->name) == ((family->traits & MODEL_TRAIT_ENCODER) != 0))
            fail_msg("%s is in one list only", family->name);
    }
    assert_false(vet_is_tested("none"));
}

TEST_SUITE(TEST(test_tested_architectures_are_the_families_of_the_tests),
           TEST(test_a_pass_is_remembered_on_disk), TEST(test_a_known_one_needs_no_child_alone),
           TEST(test_an_abort_is_a_sentence), TEST(test_a_refusal_is_remembered),
           TEST(test_a_projector_is_vetted), TEST(test_projectors_pass),
           TEST(test_an_error_of_the_child_is_passed_on), TEST(test_vetting_can_be_cancelled))
