/*
 * soak_talk.c: see soak_talk.h. A piece is a run of bytes of a trace's text, cut between
 * characters.
 */
#include "support/soak_talk.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/attr.h"
#include "base/mem.h"
#include "support/test.h"

enum {
    PIECE_BYTES = 400,
    PIECES_MAX = 4000,
    PIECES_PER_LINE = 6,
    SYSTEMS = 3, /* system prompts that are shared */
    SYSTEM_CHARS = 700,
    QUESTION_CHARS_MAX = 400,
    BODY_BYTES_MAX = 1 << 20,
    MARKER_DIGITS = 8,
};

#define MARKER "zq" /* begins every marker; no other text has it */

const char *const soak_models[SOAK_MODELS] = {"dense", "hybrid"};
const char *const soak_headers[SOAK_TENANTS] = {
    "Authorization: Bearer key-anna\r\nConnection: close\r\n",
    "Authorization: Bearer key-ben\r\nConnection: close\r\n",
    "Authorization: Bearer key-cleo\r\nConnection: close\r\n",
};

/* ---- texts ---- */

static bool inside_character(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

static void add_piece(struct soak_texts *texts, const char *text, size_t len)
{
    char *piece = mem_alloc(len + 1);

    memcpy(piece, text, len);
    piece[len] = '\0';
    texts->pieces[texts->count++] = piece;
}

/* Some runs of a long text, spread over it. */
static void cut_pieces(struct soak_texts *texts, const char *text, size_t len)
{
    for (size_t i = 0; i < PIECES_PER_LINE && texts->count < PIECES_MAX; i++) {
        size_t from = len / PIECES_PER_LINE * i, to = MIN(from + PIECE_BYTES, len);
        while (from < to && inside_character(text[from]))
            from++;
        while (to > from && to < len && inside_character(text[to]))
            to--;
        if (to > from)
            add_piece(texts, text + from, to - from);
    }
}

static void read_line(struct soak_texts *texts, const char *line, size_t len)
{
    static const char *const fields[] = {"/input", "/output"};
    yyjson_doc *doc = yyjson_read(line, len, 0);

    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        yyjson_val *value = yyjson_doc_ptr_get(doc, fields[i]);
        if (yyjson_is_str(value))
            cut_pieces(texts, yyjson_get_str(value), yyjson_get_len(value));
    }
    yyjson_doc_free(doc);
}

static void read_trace(struct soak_texts *texts, const char *path)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    ssize_t len;

    assert_non_null(file);
    while (texts->count < PIECES_MAX && (len = getline(&line, &size, file)) > 0)
        read_line(texts, line, (size_t)len);
    free(line);
    fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

void soak_texts_init(struct soak_texts *texts)
{
    const char *folder = test_shared("traces/mini-swe");
    struct dirent **entries = NULL;
    int count = folder != NULL ? scandir(folder, &entries, NULL, by_name) : 0;
    char path[2048];

    *texts = (struct soak_texts){.pieces = mem_alloc_array(PIECES_MAX, sizeof(*texts->pieces))};
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (str_ends(str_from(path), STR(".jsonl")))
            read_trace(texts, path);
        free(entries[i]);
    }
    free(entries);
    if (texts->count == 0)
        printf("no ../shared/traces/mini-swe: all texts are made up\n");
}

void soak_texts_fini(struct soak_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        mem_free(texts->pieces[i]);
    mem_free(texts->pieces);
}

static void append_words(struct buf *out, uint64_t seed, size_t chars)
{
    static const char *const syllables[] = {"ba", "ko", "li", "mu", "ra", "se", "ti", "vo"};

    for (size_t end = out->len + chars; out->len < end;) {
        for (uint64_t n = 1 + test_random_below(&seed, 3); n > 0; n--)
            buf_append_str(out, syllables[test_random_below(&seed, COUNT_OF(syllables))]);
        buf_append_char(out, ' ');
    }
}

static void append_text(struct buf *out, const struct soak_texts *texts, uint64_t *seed)
{
    if (texts->count > 0 && test_random_below(seed, 3) > 0)
        buf_append_str(out, texts->pieces[test_random_below(seed, texts->count)]);
    else
        append_words(out, test_random(seed), 20 + test_random_below(seed, QUESTION_CHARS_MAX - 20));
}

/* ---- talks ---- */

static size_t count_chars(const struct soak_talk *talk)
{
    size_t chars = 0;

    for (size_t i = 0; i < talk->count; i++)
        chars += strlen(talk->messages[i].text);
    return chars;
}

bool soak_talk_full(const struct soak_talk *talk)
{
    return talk->count + 2 > SOAK_MESSAGES_MAX ||
           count_chars(talk) + 2 * QUESTION_CHARS_MAX > SOAK_TALK_CHARS_MAX;
}

void soak_talk_say(struct soak_talk *talk, const char *role, const char *text)
{
    assert_true(talk->count < SOAK_MESSAGES_MAX);
    talk->messages[talk->count++] = (struct soak_message){role, mem_strdup(text)};
}

void soak_talk_begin(struct soak_talk *talk, const struct soak_texts *texts, uint64_t *seed,
                     unsigned tenant)
{
    struct buf text;

    *talk = (struct soak_talk){.tenant = tenant,
                               .model = (unsigned)test_random_below(seed, SOAK_MODELS)};
    snprintf(talk->marker, sizeof(talk->marker), MARKER "%08llx",
             (unsigned long long)(test_random(seed) & 0xFFFFFFFFu));
    buf_init(&text, BODY_BYTES_MAX);
    if (test_random_below(seed, 5) > 0) {
        append_words(&text, test_random_below(seed, SYSTEMS), SYSTEM_CHARS);
        soak_talk_say(talk, "system", buf_str(&text));
        buf_clear(&text);
    }
    buf_appendf(&text, "%s ", talk->marker);
    append_text(&text, texts, seed);
    soak_talk_say(talk, "user", buf_str(&text));
    buf_fini(&text);
}

void soak_talk_fini(struct soak_talk *talk)
{
    for (size_t i = 0; i < talk->count; i++)
        mem_free(talk->messages[i].text);
    *talk = (struct soak_talk){0};
}

void soak_talk_go_on(struct soak_talk *talk, const struct soak_texts *texts, uint64_t *seed)
{
    struct buf text;

    buf_init(&text, BODY_BYTES_MAX);
    append_text(&text, texts, seed);
    soak_talk_say(talk, "user", buf_str(&text));
    buf_fini(&text);
}

void soak_talk_edit(struct soak_talk *talk, const struct soak_texts *texts, uint64_t *seed)
{
    size_t at = test_random_below(seed, talk->count);
    struct buf text;

    while (strcmp(talk->messages[at].role, "user") != 0)
        at++; /* a talk ends with a question */
    while (talk->count > at)
        mem_free(talk->messages[--talk->count].text);
    buf_init(&text, BODY_BYTES_MAX);
    buf_appendf(&text, "%s again: ", talk->marker);
    append_text(&text, texts, seed);
    soak_talk_say(talk, "user", buf_str(&text));
    buf_fini(&text);
}

/* ---- requests ---- */

static void add_messages(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct soak_talk *talk,
                         enum scenario_dialect dialect)
{
    yyjson_mut_val *list =
        yyjson_mut_obj_add_arr(doc, root, dialect == SCENARIO_RESPONSES ? "input" : "messages");

    for (size_t i = 0; i < talk->count; i++) {
        const struct soak_message *message = &talk->messages[i];
        if (dialect == SCENARIO_MESSAGES && strcmp(message->role, "system") == 0) {
            yyjson_mut_obj_add_str(doc, root, "system", message->text);
            continue;
        }
        yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, list);
        yyjson_mut_obj_add_str(doc, object, "role", message->role);
        yyjson_mut_obj_add_str(doc, object, "content", message->text);
    }
}

struct buf soak_body(const struct soak_talk *talk, const struct soak_ask *ask)
{
    const char *limit = ask->dialect == SCENARIO_RESPONSES ? "max_output_tokens" : "max_tokens";
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    struct buf body;

    yyjson_mut_doc_set_root(doc, root);
    add_messages(doc, root, talk, ask->dialect);
    yyjson_mut_obj_add_uint(doc, root, limit, ask->tokens);
    yyjson_mut_obj_add_str(doc, root, "model", soak_models[talk->model]);
    yyjson_mut_obj_add_uint(doc, root, "temperature", 0);
    yyjson_mut_obj_add_bool(doc, root, "ignore_eos", true);
    if (ask->stream) {
        yyjson_mut_obj_add_bool(doc, root, "stream", true);
        yyjson_mut_val *options = yyjson_mut_obj_add_obj(doc, root, "stream_options");
        yyjson_mut_obj_add_bool(doc, options, "include_usage", true);
    }
    if (ask->ids)
        yyjson_mut_obj_add_bool(doc, root, "return_token_ids", true);
    char *text = yyjson_mut_write(doc, 0, NULL);
    assert_non_null(text);
    buf_init(&body, BODY_BYTES_MAX);
    buf_append_str(&body, text);
    free(text);
    yyjson_mut_doc_free(doc);
    return body;
}

bool soak_has_foreign_marker(const struct soak_talk *talk, const char *text)
{
    for (const char *at = text; (at = strstr(at, MARKER)) != NULL; at++)
        if (strspn(at + strlen(MARKER), "0123456789abcdef") >= MARKER_DIGITS &&
            strncmp(at, talk->marker, strlen(talk->marker)) != 0)
            return true;
    return false;
}
