/*
 * recall_fuzz.c: an untrusted file of turns, and prompts that do not fit what is
 * remembered.
 *
 *      raw       the input as a file
 *      resealed  the same with a right hash: hostile lengths from an attacker who has the key
 *      composed  the input cut into a turn and a prompt; the segments must cover the prompt's text
 *                in order, without overlap
 */
#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "chat/recall_impl.h"

enum { HEAD_BYTES = 16, INPUT_BYTES = 1 << 15 };

static const struct hash256 key = {{7}};

/* What is accepted can be written and read again, to as many turns. */
static void check_file(const char *data, size_t len)
{
    struct recall *recall = recall_create(&(struct recall_options){.bytes_max = 1 << 20});
    struct recall *again = recall_create(&(struct recall_options){.bytes_max = 1 << 20});
    struct recall_entry **entries;
    size_t count;
    struct buf out;

    if (recall_decode(recall, (struct str){data, len}, &key) == ERR_OK &&
        recall_hold_all(recall, &entries, &count) == ERR_OK) {
        buf_init(&out, 2 << 20);
        if (recall_encode(&out, entries, count, &key) != ERR_OK ||
            recall_decode(again, (struct str){buf_str(&out), out.len}, &key) != ERR_OK ||
            recall_stats(again).turns != count)
            abort();
        buf_fini(&out);
        recall_release(recall, entries, count);
        mem_free(entries);
    }
    recall_destroy(&again);
    recall_destroy(&recall);
}

static void check_files(const uint8_t *data, size_t size)
{
    struct hash256 derived = hash256_derive("hearth replay file 1", key.bytes, sizeof(key.bytes));
    char *file = mem_try_alloc(size + HASH256_BYTES);

    check_file((const char *)data, size);
    if (size > 0)
        memcpy(file, data, size);
    if (size >= 12) {
        memcpy(file, "HEARTHRP\1\0\0", 12);
        struct hash256 digest = hash256_keyed(&derived, file, size);
        memcpy(file + size, digest.bytes, HASH256_BYTES);
        check_file(file, size + HASH256_BYTES);
    }
    mem_free(file);
}

static void check_plan(const struct recall_plan *plan, const struct recall_prompt *prompt)
{
    size_t at = 0;

    for (size_t i = 0; i < plan->segments_count; i++) {
        const struct recall_segment *segment = &plan->segments[i];
        if (segment->begin != at || segment->end < at || segment->end > prompt->text.len)
            abort();
        at = segment->end;
    }
    if (at != prompt->text.len)
        abort();
}

static void check_composing(const uint8_t *data, size_t size)
{
    static const int32_t tokens[] = {1, 2, 3};
    struct recall *recall = recall_create(&(struct recall_options){0});
    struct str text = {(const char *)data + HEAD_BYTES, size - HEAD_BYTES};
    size_t at[6];

    for (size_t i = 0; i < COUNT_OF(at); i++)
        at[i] = (data[2 * i] | (size_t)data[2 * i + 1] << 8) % (text.len + 1);
    struct tool_call call = {STR("id"), STR("f"), {text.ptr, at[0]}};
    struct recall_turn turn = {.opening = {text.ptr + at[1], MIN(text.len - at[1], data[12])},
                               .message = {.calls = &call, .calls_count = 1},
                               .tokens = tokens,
                               .tokens_count = COUNT_OF(tokens),
                               .end = {text.ptr + at[2], MIN(text.len - at[2], data[13])}};
    struct recall_place place = {
        .message = turn.message, .begin = MIN(at[3], at[4]), .end = MAX(at[3], at[4])};
    struct recall_prompt prompt = {.text = text,
                                   .opening_begin = MAX(place.end, at[5]),
                                   .end = {text.ptr, MIN(text.len, data[14])},
                                   .places = &place,
                                   .places_count = 1,
                                   .keep = data[15] & 1};
    struct recall_plan plan;

    if (recall_remember(recall, &turn) != ERR_OK || recall_apply(recall, &prompt, &plan) != ERR_OK)
        abort();
    check_plan(&plan, &prompt);
    recall_plan_fini(&plan);
    recall_destroy(&recall);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > INPUT_BYTES)
        return 0;
    check_files(data, size);
    if (size > HEAD_BYTES)
        check_composing(data, size);
    return 0;
}
