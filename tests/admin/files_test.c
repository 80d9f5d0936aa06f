/* files_test.c: out to a folder and back in, and nowhere else on the machine. */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support/api_kit.h"
#include "support/test.h"

#define CHAT "/v1/chat/completions"
#define BODY                                                                                      \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"A question that is long enough for several " \
    "blocks of sixteen tokens\"}],\"max_tokens\":2}"
#define EXPORT "/admin/cache/export"
#define IMPORT "/admin/cache/import"

static uint64_t chat(struct api_kit *kit)
{
    yyjson_doc *doc = api_kit_post(kit, CHAT, BODY, 200);
    uint64_t cached = json_number_at(doc, "/usage/prompt_tokens_details/cached_tokens");

    yyjson_doc_free(doc);
    assert_ok(sched_wait_turn(model_sched(kit->model), 30000, NULL));
    return cached;
}

static void open_kit(struct api_kit *kit, const char *files)
{
    api_kit_open(kit, &(struct api_kit_options){.ram_bytes = 8 << 20,
                                                .admin = {.files = files, .fs = file_sys_real()}});
}

static void test_out_and_in(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;
    uint64_t objects;

    (void)state;
    open_kit(&kit, test_dir());
    chat(&kit);
    doc = api_kit_post(&kit, EXPORT, "{\"path\":\"out-1\"}", 200);
    objects = json_number_at(doc, "/objects");
    assert_true(objects > 0 && json_number_at(doc, "/bytes") > 0);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, IMPORT, "{\"path\":\"out-1\"}", 200);
    assert_int_equal(json_number_at(doc, "/held"), objects);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/clear", "{}", 200));
    doc = api_kit_post(&kit, IMPORT, "{\"path\":\"out-1\"}", 200);
    assert_int_equal(json_number_at(doc, "/objects"), objects);
    assert_int_equal(json_number_at(doc, "/refused"), 0);
    yyjson_doc_free(doc);
    assert_true(chat(&kit) > 0);
    doc = api_kit_post(&kit, EXPORT, "{\"path\":\"out-2\",\"model\":\"fake\"}", 200);
    assert_true(json_number_at(doc, "/objects") >= objects);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&kit, EXPORT, "{\"path\":\"out-3\",\"model\":\"other\"}", 404));
    api_kit_close(&kit);
}

/* Names, not paths; no link; and nothing without the option. */
static void test_nowhere_else(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"path\":\"\"}",
        "{\"path\":\"..\"}",
        "{\"path\":\".\"}",
        "{\"path\":\"/tmp/x\"}",
        "{\"path\":\"a/b\"}",
        "{\"path\":\"../x\"}",
        "{\"path\":\"a\\u0000b\"}",
        "{\"path\":7}",
        "{\"path\":\"link\"}",
        "{\"path\":\"file\"}",
    };
    char path[1024];
    struct api_kit kit;
    int dir = FILE_NO;

    (void)state;
    snprintf(path, sizeof(path), "%s/link", test_dir());
    assert_int_equal(symlink("/tmp", path), 0);
    assert_ok(file_open_dir(file_sys_real(), test_dir(), true, &dir, NULL));
    assert_ok(file_replace(file_sys_real(), dir, "file", "x", 1, 0600, NULL));
    file_close(file_sys_real(), &dir);
    open_kit(&kit, test_dir());
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        yyjson_doc_free(api_kit_post(&kit, EXPORT, bad[i], 400));
        yyjson_doc_free(api_kit_post(&kit, IMPORT, bad[i], 400));
    }
    yyjson_doc_free(api_kit_post(&kit, IMPORT, "{\"path\":\"not-there\"}", 400));
    yyjson_doc_free(api_kit_post(&kit, EXPORT, "{\"path\":\"ok\",\"key\":\"12\"}", 400));
    api_kit_close(&kit);
    open_kit(&kit, NULL);
    yyjson_doc_free(api_kit_post(&kit, EXPORT, "{\"path\":\"x\"}", 403));
    yyjson_doc_free(api_kit_post(&kit, IMPORT, "{\"path\":\"x\"}", 403));
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_out_and_in), TEST(test_nowhere_else))
