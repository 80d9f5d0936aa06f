/*
 * schema_fuzz.c: any bytes that are JSON as a schema. Nothing may crash, leak or take long; what
 * compiles must be taken by gbnf_check (or be refused for its size), and a second run gives the
 * same bytes.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "engine/gbnf.h"
#include "grammar/schema.h"

enum { INPUT_BYTES = 1 << 16 };

static enum err compile(yyjson_doc *doc, struct buf *out)
{
    struct schema_options options = {.space = SCHEMA_SPACE_BOUNDED};
    struct errinfo info = {0};

    buf_init(out, SCHEMA_BYTES_MAX);
    enum err err = schema_write_gbnf(yyjson_doc_get_root(doc), &options, out, &info);
    if (err != ERR_OK && (info.text[0] == '\0' || out->len != 0))
        abort();
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct errinfo info = {0};
    struct buf first, second;
    yyjson_doc *doc;

    if (size > INPUT_BYTES || (doc = yyjson_read((const char *)data, size, 0)) == NULL)
        return 0;
    enum err err = compile(doc, &first);
    if (compile(doc, &second) != err || first.len != second.len ||
        memcmp(buf_str(&first), buf_str(&second), first.len) != 0)
        abort();
    if (err == ERR_OK && gbnf_check(buf_str(&first), "root", &info) != ERR_OK &&
        info.code != ERR_LIMIT) {
        fprintf(stderr, "%s\n%s", info.text, buf_str(&first));
        abort();
    }
    buf_fini(&first);
    buf_fini(&second);
    yyjson_doc_free(doc);
    return 0;
}
