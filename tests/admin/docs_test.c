/* admin_docs_test.c: docs/admin.md: every endpoint of /admin is in it, and its examples are run:
 * what they show is in the real answers. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "admin/admin_impl.h"
#include "base/file.h"
#include "base/mem.h"
#include "support/api_kit.h"
#include "support/test.h"

enum { DOC_BYTES_MAX = 1 << 20, ANSWER_BYTES_MAX = 65536 };

static char *read_doc(void)
{
    char *data;
    size_t len;

    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, "docs/admin.md", DOC_BYTES_MAX, &data, &len,
                            NULL));
    return data;
}

static void test_every_endpoint_is_described(void **state)
{
    char *doc = read_doc(), line[256];

    (void)state;
    for (size_t i = 0; i < admin_endpoints_count; i++) {
        const struct endpoint *endpoint = &admin_endpoints[i];

        if (!endpoint->admin || !str_starts(str_from(endpoint->path), STR("/admin/")))
            continue;
        snprintf(line, sizeof(line), "`%s %s", http_method_name(endpoint->method), endpoint->path);
        if (!strstr(doc, line))
            fail_msg("docs/admin.md has no %s`", line);
    }
    mem_free(doc);
}

/* Whatever the documented value has, the real one has too; lists are compared by their first
 * element, if there are any. */
static void compare(const char *where, yyjson_val *told, yyjson_val *real)
{
    size_t i, count;
    yyjson_val *key, *value;
    char below[512];

    if (yyjson_is_obj(told) && yyjson_is_null(real))
        return;
    if (yyjson_is_obj(told)) {
        assert_true(yyjson_is_obj(real));
        yyjson_obj_foreach(told, i, count, key, value)
        {
            const char *name = yyjson_get_str(key);
            yyjson_val *found = yyjson_obj_get(real, name);

            snprintf(below, sizeof(below), "%s/%s", where, name ? name : "");
            if (!found)
                fail_msg("docs/admin.md shows %s, and there is none", below);
            compare(below, value, found);
        }
    } else if (yyjson_is_arr(told)) {
        assert_true(yyjson_is_arr(real));
        if (yyjson_arr_size(told) > 0 && yyjson_arr_size(real) > 0)
            compare(where, yyjson_arr_get_first(told), yyjson_arr_get_first(real));
    } else if (!yyjson_is_null(told) && !yyjson_is_null(real) &&
               yyjson_get_type(told) != yyjson_get_type(real)) {
        fail_msg("docs/admin.md shows another type for %s", where);
    }
}

/* The key of an object that is held, in place of KEY. */
static void put_key(struct api_kit *kit, const char *text, char *out, size_t size)
{
    const char *at = strstr(text, "KEY");
    yyjson_doc *doc = api_kit_get(kit, "/admin/cache/objects?limit=1", 200);

    if (at)
        snprintf(out, size, "%.*s%s%s", (int)(at - text), text, json_at(doc, "/objects/0/key"),
                 at + 3);
    else
        snprintf(out, size, "%s", text);
    yyjson_doc_free(doc);
}

static void run_example(struct api_kit *kit, const char *request, const char *told)
{
    static char text[ANSWER_BYTES_MAX];
    struct http_answer answer;
    struct str rest, piece;
    char method[8], path[256];
    yyjson_doc *told_doc, *real_doc;

    put_key(kit, request, text, sizeof(text));
    rest = str_from(text);
    assert_true(str_next(&rest, ' ', &piece));
    snprintf(method, sizeof(method), STR_FMT, STR_ARG(piece));
    assert_true(str_next(&rest, ' ', &piece));
    snprintf(path, sizeof(path), STR_FMT, STR_ARG(piece));
    api_kit_ask(kit, method, path, NULL, rest.len > 0 ? rest.ptr : NULL, &answer);
    if (answer.status != 200)
        fail_msg("%s: %d %s", text, answer.status, buf_str(&answer.body));
    told_doc = yyjson_read(told, strlen(told), 0);
    real_doc = yyjson_read(answer.body.data, answer.body.len, 0);
    if (!told_doc || !real_doc)
        fail_msg("%s: no JSON", request);
    compare(path, yyjson_doc_get_root(told_doc), yyjson_doc_get_root(real_doc));
    yyjson_doc_free(told_doc);
    yyjson_doc_free(real_doc);
    http_answer_fini(&answer);
}

/* "> request" up to the end of its line, "< answer" up to the next request or the end of the block.
 */
static unsigned run_block(struct api_kit *kit, struct str block)
{
    static char request[4096], told[ANSWER_BYTES_MAX];
    struct str line;
    unsigned examples = 0;

    request[0] = told[0] = '\0';
    while (str_next(&block, '\n', &line)) {
        if (str_starts(line, STR("> "))) {
            if (told[0])
                run_example(kit, request, told), examples++;
            snprintf(request, sizeof(request), STR_FMT, (int)line.len - 2, line.ptr + 2);
            told[0] = '\0';
        } else if (line.len > 2) {
            size_t len = strlen(told);

            snprintf(told + len, sizeof(told) - len, STR_FMT, (int)line.len - 2, line.ptr + 2);
        }
    }
    if (told[0])
        run_example(kit, request, told), examples++;
    return examples;
}

static void test_examples_are_true(void **state)
{
    char *doc = read_doc();
    struct api_kit kit;
    unsigned examples = 0;

    (void)state;
    api_kit_open(&kit,
                 &(struct api_kit_options){.ram_bytes = 4 << 20,
                                           .api = {.version = "0.1.0"},
                                           .admin = {.files = test_dir(), .fs = file_sys_real()}});
    yyjson_doc_free(api_kit_post(
        &kit, "/v1/chat/completions",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}],\"max_tokens\":4}", 200));
    assert_ok(sched_wait_turn(model_sched(kit.model), 30000, NULL));
    for (char *at = strstr(doc, "```\n"); at;) {
        char *end = strstr(at + 4, "```\n");

        assert_non_null(end);
        examples += run_block(&kit, (struct str){at + 4, (size_t)(end - at - 4)});
        at = strstr(end + 4, "```\n");
    }
    assert_true(examples >= 19);
    mem_free(doc);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_every_endpoint_is_described), TEST(test_examples_are_true))
