/* settings_test.c: settings that can be changed while the server runs are, all of them or none. */
#include "admin/admin_impl.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "support/api_kit.h"
#include "support/test.h"

#define SETTINGS "/admin/settings"

static yyjson_val *find(yyjson_doc *doc, const char *name)
{
    size_t i, count;
    yyjson_val *setting;

    yyjson_arr_foreach(yyjson_doc_ptr_get(doc, "/settings"), i, count,
                       setting) if (strcmp(yyjson_get_str(yyjson_obj_get(setting, "name")), name) ==
                                    0) return setting;
    fail_msg("no setting %s", name);
    return NULL;
}

static uint64_t number_of(struct api_kit *kit, const char *name, const char *field)
{
    yyjson_doc *doc = api_kit_get(kit, SETTINGS, 200);
    uint64_t value = yyjson_get_uint(yyjson_obj_get(find(doc, name), field));

    yyjson_doc_free(doc);
    return value;
}

static void test_changes(void **state)
{
    static const struct admin_setting fixed[] = {{"port", "4327", "4327", "Where."},
                                                 {"queue", "9", "256", "Twice."}};
    struct log *log =
        log_create(&(struct log_options){.fd = -1, .level = LOG_LEVEL_INFO, .clock = clock_real()});
    struct api_kit_options options = {.ram_bytes = 8 << 20,
                                      .api = {.queue = 9, .log = log},
                                      .admin = {.settings = fixed, .settings_count = 2}};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    doc = api_kit_get(&kit, SETTINGS, 200);
    /* none is there twice */
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/settings")), ADMIN_SETTINGS + 1);
    assert_false(yyjson_get_bool(yyjson_obj_get(find(doc, "port"), "runtime")));
    assert_true(yyjson_get_bool(yyjson_obj_get(find(doc, "queue"), "runtime")));
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(
        &kit, SETTINGS,
        "{\"queue\":3,\"model_ttl\":60,\"log_level\":\"warn\",\"ram_cache\":4194304}", 200));
    assert_int_equal(number_of(&kit, "queue", "value"), 3);
    assert_int_equal(number_of(&kit, "queue", "default"), 9);
    assert_int_equal(number_of(&kit, "model_ttl", "value"), 60);
    assert_int_equal(number_of(&kit, "ram_cache", "value"), 4194304);
    assert_int_equal(log_get_level(log), LOG_LEVEL_WARN);
    doc = api_kit_get(&kit, "/admin/models", 200);
    assert_true(yyjson_get_num(yyjson_doc_ptr_get(doc, "/models/0/ttl_s")) == 60);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
    log_destroy(&log);
}

/* A change outlives the server, unless the configuration was changed meanwhile; null ends it. */
static void test_i88_changes_are_kept(void **state)
{
    struct api_kit_options options = {
        .api.queue = 9,
        .admin = {.state_fs = file_sys_real(), .state_dir = open(test_dir(), O_DIRECTORY)}};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    admin_restore_settings(kit.admin, kit.api);
    assert_int_equal(number_of(&kit, "queue", "value"), 9);
    yyjson_doc_free(api_kit_post(&kit, SETTINGS, "{\"queue\":3,\"model_ttl\":60}", 200));
    yyjson_doc_free(api_kit_post(&kit, SETTINGS, "{\"model_ttl\":null}", 200));
    api_kit_close(&kit);

    api_kit_open(&kit, &options);
    assert_int_equal(number_of(&kit, "queue", "value"), 9);
    admin_restore_settings(kit.admin, kit.api);
    assert_int_equal(number_of(&kit, "queue", "value"), 3);
    assert_int_equal(number_of(&kit, "queue", "default"), 9);
    assert_int_equal(number_of(&kit, "model_ttl", "value"), 0);
    api_kit_close(&kit);

    /* The same configuration, but another number: it was derived from the machine. */
    static const struct admin_setting written[] = {{"queue", "auto", "auto", "Derived."}};
    options.admin.settings = written;
    options.admin.settings_count = 1;
    api_kit_open(&kit, &options);
    yyjson_doc_free(api_kit_post(&kit, SETTINGS, "{\"queue\":4}", 200));
    api_kit_close(&kit);
    options.api.queue = 11;
    api_kit_open(&kit, &options);
    admin_restore_settings(kit.admin, kit.api);
    assert_int_equal(number_of(&kit, "queue", "value"), 4);
    api_kit_close(&kit);

    options.admin.settings_count = 0;
    options.api.queue = 10; /* the configuration decides */
    api_kit_open(&kit, &options);
    admin_restore_settings(kit.admin, kit.api);
    assert_int_equal(number_of(&kit, "queue", "value"), 10);
    api_kit_close(&kit);
    close(options.admin.state_dir);
}

static void test_what_cannot_be(void **state)
{
    static const char *const bad[] = {
        "{\"port\":1}",
        "{\"queue\":0}",
        "{\"queue\":\"x\"}",
        "{\"queue\":70000}",
        "{\"log_level\":\"loud\"}",
        "{\"log_level\":3}",
        "{\"queue\":5,\"model_ttl\":-1}",
        "[]",
        "{\"ram_cache\":1}",
        "{\"queue\\u0000x\":5}",
        "{\"log_level\":\"debug\\u0000x\"}",
        "{\"queue\":5,\"\\u0000\":1}",
    };
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 8 << 20, .api.queue = 9});
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        yyjson_doc_free(api_kit_post(&kit, SETTINGS, bad[i], 400));
        assert_int_equal(number_of(&kit, "queue", "value"), 9); /* nothing of it was done */
    }
    /* there is no disk */
    yyjson_doc_free(api_kit_post(&kit, SETTINGS, "{\"ssd_max\":4194304}", 400));
    yyjson_doc_free(api_kit_post(&kit, SETTINGS, "{\"queue\":5,\"ssd_writes_per_day\":5}", 400));
    assert_int_equal(number_of(&kit, "queue", "value"), 9);
    yyjson_doc_free(api_kit_post(&kit, SETTINGS, "{}", 200));
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_changes), TEST(test_i88_changes_are_kept), TEST(test_what_cannot_be))
