#include "base/json_alc.h"

#include "base/mem.h"
#include "support/test.h"

/* yyjson allocates with our allocator: a document cannot be read, changed or written when it
 * fails. */
static void test_faults_reach_yyjson(void **state)
{
    static char text[] = "{\"a\": [1, 2, {\"b\": \"c\"}]}";
    struct fault fault = {0};
    unsigned failures = 0;
    bool written = false;

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        yyjson_doc *doc = yyjson_read_opts(text, sizeof(text) - 1, 0, json_alc(), NULL);
        yyjson_mut_doc *copy = doc ? yyjson_doc_mut_copy(doc, json_alc()) : NULL;
        char *out = copy ? yyjson_mut_write_opts(copy, 0, json_alc(), NULL, NULL) : NULL;
        if (out == NULL)
            failures++;
        else
            assert_string_equal(out, "{\"a\":[1,2,{\"b\":\"c\"}]}");
        written |= out != NULL;
        mem_free(out);
        yyjson_mut_doc_free(copy);
        yyjson_doc_free(doc);
    }
    mem_set_fault(NULL);
    assert_true(failures >= 3);
    assert_true(written);
}

TEST_SUITE(TEST(test_faults_reach_yyjson))
