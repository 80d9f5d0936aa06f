/*
 * endpoints_slots_test.c: slots in llama-server's form: listed, saved, restored, erased; names and
 * files that are refused.
 */
#include "serve/slots.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support/api_kit.h"
#include "support/request_kit.h"
#include "support/test.h"

#define SAVE    "/slots/0?action=save"
#define RESTORE "/slots/0?action=restore"
#define FILE_A  "{\"filename\":\"a.bin\"}"
#define PROMPT                                                                                   \
    "\"prompt\":\"A question that is long enough for several blocks of sixteen tokens, so that " \
    "its state is worth a file\""

static void open_kit(struct api_kit *kit, const char *path, struct api_kit_options options)
{
    options.ram_bytes = 8 << 20;
    options.api.slots = (struct slot_files){.path = path, .fs = file_sys_real()};
    if (path != NULL)
        assert_ok(slot_files_prepare(&options.api.slots, NULL));
    api_kit_open(kit, &options);
}

/* How many tokens came from RAM. */
static uint64_t complete(struct api_kit *kit, const char *fields)
{
    char body[512];

    snprintf(body, sizeof(body), "{" PROMPT ",\"n_predict\":4,\"temperature\":0%s}", fields);
    yyjson_doc *doc = api_kit_post(kit, "/completion", body, 200);
    uint64_t ram = json_number_at(doc, "/x_cache/ram");

    yyjson_doc_free(doc);
    return ram;
}

static void expect_error(struct api_kit *kit, const char *path, const char *body, int status,
                         const char *text)
{
    yyjson_doc *doc = api_kit_post(kit, path, body, status);

    assert_int_equal(json_number_at(doc, "/error/code"), status);
    assert_string_equal(json_at(doc, "/error/type"),
                        status == 501 ? "not_supported_error" : "invalid_request_error");
    assert_non_null(strstr(json_at(doc, "/error/message"), text));
    yyjson_doc_free(doc);
}

static void file_path(char path[1024], const char *name)
{
    snprintf(path, 1024, "%s/%s", test_dir(), name);
}

static unsigned count_files(void)
{
    unsigned count = 0;
    DIR *dir = opendir(test_dir());

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static void test_save_and_restore(void **state)
{
    struct api_kit kit;
    char path[1024];
    struct stat st;
    yyjson_doc *doc;

    (void)state;
    open_kit(&kit, test_dir(), (struct api_kit_options){0});
    assert_int_equal(complete(&kit, ""), 0);
    doc = api_kit_post(&kit, SAVE, FILE_A, 200);
    uint64_t saved = json_number_at(doc, "/n_saved"), written = json_number_at(doc, "/n_written");
    assert_int_equal(json_number_at(doc, "/id_slot"), 0);
    assert_string_equal(json_at(doc, "/filename"), "a.bin");
    assert_true(yyjson_is_real(yyjson_doc_ptr_get(doc, "/timings/save_ms")));
    yyjson_doc_free(doc);
    file_path(path, "a.bin");
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode) && (uint64_t)st.st_size == written && saved > 64);
    assert_int_equal(count_files(), 1); /* nothing else is left */

    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/clear", "{}", 200));
    assert_int_equal(complete(&kit, ",\"cache_prompt\":false"), 0);
    doc = api_kit_post(&kit, "/slots/1?action=restore", FILE_A, 200);
    assert_int_equal(json_number_at(doc, "/n_restored"), saved);
    assert_int_equal(json_number_at(doc, "/n_read"), written);
    assert_int_equal(json_number_at(doc, "/id_slot"), 1);
    assert_true(yyjson_is_real(yyjson_doc_ptr_get(doc, "/timings/restore_ms")));
    yyjson_doc_free(doc);
    assert_true(complete(&kit, "") > 64);
    assert_int_equal(count_files(), 1);
    api_kit_close(&kit);
}

/* A request names its slot; erasing it forgets its tokens, and an empty slot saves an empty file. */
static void test_slots_by_number(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    open_kit(&kit, test_dir(), (struct api_kit_options){0});
    complete(&kit, ",\"id_slot\":2");
    doc = api_kit_post(&kit, SAVE, FILE_A, 200);
    assert_int_equal(json_number_at(doc, "/n_saved"), 0);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, RESTORE, FILE_A, 200);
    assert_int_equal(json_number_at(doc, "/n_restored"), 0);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/slots/2?action=erase", "", 200);
    assert_int_equal(json_number_at(doc, "/id_slot"), 2);
    assert_true(json_number_at(doc, "/n_erased") > 64);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/slots/2?action=erase", "{}", 200);
    assert_int_equal(json_number_at(doc, "/n_erased"), 0);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/completion", "{" PROMPT ",\"n_predict\":1,\"id_slot\":1}", 200);
    assert_int_equal(json_number_at(doc, "/id_slot"), 1);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/completion", "{" PROMPT ",\"id_slot\":9999}", 400);
    assert_string_equal(json_at(doc, "/error/param"), "id_slot");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_refused_requests(void **state)
{
    static const char *const names[] = {
        "{}",
        "{\"filename\":\"\"}",
        "{\"filename\":\"..\"}",
        "{\"filename\":\"../x\"}",
        "{\"filename\":\"/tmp/x\"}",
        "{\"filename\":\"a/b\"}",
        "{\"filename\":\".hidden\"}",
        "{\"filename\":\"a\\u0000b\"}",
        "{\"filename\":\"a\\\\b\"}",
        "{\"filename\":7}",
    };
    struct api_kit kit;

    (void)state;
    open_kit(&kit, NULL, (struct api_kit_options){0});
    expect_error(&kit, SAVE, FILE_A, 501, "--slot-save-path");
    expect_error(&kit, "/slots/x?action=bad", "", 501, "--slot-save-path");
    api_kit_close(&kit);
    open_kit(&kit, test_dir(), (struct api_kit_options){0});
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        expect_error(&kit, SAVE, names[i], 400, "Invalid filename");
        expect_error(&kit, RESTORE, names[i], 400, "Invalid filename");
    }
    expect_error(&kit, "/slots/x?action=save", FILE_A, 400, "Invalid slot ID");
    expect_error(&kit, "/slots/9999?action=save", FILE_A, 400, "Invalid slot ID");
    expect_error(&kit, "/slots/-1?action=save", FILE_A, 400, "Invalid slot ID");
    expect_error(&kit, "/slots/0", FILE_A, 400, "Invalid action");
    expect_error(&kit, "/slots/0?action=drop", FILE_A, 400, "Invalid action");
    assert_int_equal(count_files(), 0);
    api_kit_close(&kit);
}

static void flip(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    int byte;

    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    byte = fgetc(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

/* Each byte that is changed is noticed, wherever it is, and so is a file that ends early. */
static void test_damaged_files(void **state)
{
    struct api_kit kit;
    char path[1024];
    struct stat st;

    (void)state;
    open_kit(&kit, test_dir(), (struct api_kit_options){0});
    expect_error(&kit, RESTORE, FILE_A, 400, "no such file");
    complete(&kit, "");
    yyjson_doc_free(api_kit_post(&kit, SAVE, FILE_A, 200));
    file_path(path, "a.bin");
    assert_int_equal(stat(path, &st), 0);
    long places[] = {0, 9, 30, 41, 60, 100, (long)st.st_size / 2, -40, -1};
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        flip(path, places[i]);
        expect_error(&kit, RESTORE, FILE_A, 400, "damaged");
        flip(path, places[i]);
    }
    yyjson_doc_free(api_kit_post(&kit, RESTORE, FILE_A, 200));
    for (off_t size = st.st_size - 1; size >= 0; size = size / 2 - 1) {
        assert_int_equal(truncate(path, size), 0);
        expect_error(&kit, RESTORE, FILE_A, 400, "damaged");
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    expect_error(&kit, RESTORE, FILE_A, 400, "cannot be read");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_error(&kit, RESTORE, FILE_A, 400, "cannot be read");
    assert_int_equal(count_files(), 1);
    api_kit_close(&kit);
}

static void test_file_of_another_model(void **state)
{
    struct api_kit kit;

    (void)state;
    open_kit(&kit, test_dir(), (struct api_kit_options){.family = "qwen3"});
    complete(&kit, "");
    yyjson_doc_free(api_kit_post(&kit, SAVE, FILE_A, 200));
    api_kit_close(&kit);
    open_kit(&kit, test_dir(), (struct api_kit_options){.family = "gemma3"});
    expect_error(&kit, RESTORE, FILE_A, 400, "another model");
    api_kit_close(&kit);
}

/* A tenant has its own files, and cannot reach those of another one by name. */
static void test_i100_files_of_tenants(void **state)
{
    static const char *const keys[] = {"anna:k1,bert:k2"};
    struct api_kit_options options = {.api.auth = {.keys = keys, .keys_count = 1}};
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    open_kit(&kit, test_dir(), options);
    api_kit_ask(&kit, "POST", "/completion", "x-api-key: k1\r\n", "{" PROMPT ",\"n_predict\":2}",
                &answer);
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    api_kit_ask(&kit, "POST", SAVE, "x-api-key: k1\r\n", FILE_A, &answer);
    assert_int_equal(answer.status, 200);
    assert_null(strstr(buf_str(&answer.body), "\"n_saved\":0,"));
    http_answer_fini(&answer);
    api_kit_ask(&kit, "POST", RESTORE, "x-api-key: k2\r\n", FILE_A, &answer);
    assert_int_equal(answer.status, 400);
    assert_non_null(strstr(buf_str(&answer.body), "no such file"));
    http_answer_fini(&answer);
    api_kit_ask(&kit, "POST", SAVE, "x-api-key: k2\r\n", FILE_A, &answer);
    assert_non_null(strstr(buf_str(&answer.body), "\"n_saved\":0,"));
    http_answer_fini(&answer);
    assert_int_equal(count_files(), 2);
    api_kit_close(&kit);
}

/* I100: a tenant sees its own generations only. They go on until their client leaves. */
static void test_i100_slots_of_the_caller(void **state)
{
    static const char *const keys[] = {"alice:k1,bob:k2"};
    struct api_kit_options options = {.api.auth = {.keys = keys, .keys_count = 1},
                                      .fake.context = 1000000};
    struct http_client client;
    struct http_answer answer;
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    http_client_connect(&client, kit.port);
    http_client_request(&client, "POST", "/v1/chat/completions", "x-api-key: k1\r\n",
                        STR("{\"n\":2,\"temperature\":0,\"logit_bias\":{\"97\":90},\"messages\":"
                            "[{\"role\":\"user\",\"content\":\"Hello there\"}]}"));
    for (bool both = false; !both;) {
        api_kit_ask(&kit, "GET", "/slots", "x-api-key: k1\r\n", NULL, &answer);
        doc = yyjson_read(answer.body.data, answer.body.len, 0);
        both = yyjson_doc_ptr_get(doc, "/0/request") && yyjson_doc_ptr_get(doc, "/1/request");
        if (both) {
            assert_string_equal(json_at(doc, "/1/request"), json_at(doc, "/0/request"));
            assert_memory_equal(json_at(doc, "/0/request"), "req_", 4);
            assert_int_equal(json_number_at(doc, "/0/id"), 0);
            assert_int_equal(json_number_at(doc, "/1/id"), 1);
            assert_int_equal(json_number_at(doc, "/0/id_task"), 0); /* it counts what others do */
            assert_null(yyjson_doc_ptr_get(doc, "/0/seq"));
            assert_true(json_number_at(doc, "/0/usage/prompt") > 10);
            assert_true(json_number_at(doc, "/0/n_prompt_tokens") > 10);
            assert_int_equal(json_number_at(doc, "/0/n_ctx"), 1000000);
            assert_non_null(yyjson_doc_ptr_get(doc, "/0/next_token/0/n_decoded"));
            assert_true(json_at(doc, "/0/phase")[0] != '\0');
        }
        yyjson_doc_free(doc);
        http_answer_fini(&answer);
    }
    api_kit_ask(&kit, "GET", "/slots", "x-api-key: k2\r\n", NULL, &answer);
    doc = yyjson_read(answer.body.data, answer.body.len, 0);
    assert_int_equal(yyjson_arr_size(yyjson_doc_get_root(doc)), model_facts(kit.model)->sequences);
    for (size_t i = 0; i < yyjson_arr_size(yyjson_doc_get_root(doc)); i++) {
        yyjson_val *slot = yyjson_arr_get(yyjson_doc_get_root(doc), i);

        assert_int_equal(yyjson_get_uint(yyjson_obj_get(slot, "id")), i);
        assert_int_equal(yyjson_get_sint(yyjson_obj_get(slot, "id_task")), -1);
        assert_true(yyjson_is_false(yyjson_obj_get(slot, "is_processing")));
    }
    yyjson_doc_free(doc);
    http_answer_fini(&answer);
    http_client_close(&client);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_save_and_restore), TEST(test_slots_by_number), TEST(test_refused_requests),
           TEST(test_damaged_files), TEST(test_file_of_another_model),
           TEST(test_i100_files_of_tenants), TEST(test_i100_slots_of_the_caller))
