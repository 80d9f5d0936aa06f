/*
 * fingerprint.c: see the header.
 *
 * Libraries are found among the loaded files by their names, because plug-ins load libraries of
 * their own that we know nothing about (CUDA, Vulkan drivers). They are hashed in the order of
 * their names: the order of loading differs from run to run.
 */
#include "engine/fingerprint.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend.h>
#include <llama.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"

/* Beginnings of the names of libraries that compute, or that compile what a device computes. */
static const char *const computing[] = {
    "libllama.",  "libmtmd.",  "libggml",    "libm.",     "libcuda",   "libcublas",
    "libnvidia-", "libamdhip", "librocblas", "libhip",    "libvulkan", "libopenblas",
    "libblas",    "libmkl_",   "libze_",     "libOpenCL", "libcnnl",   "libmusa",
};

enum {
    LIBRARIES_MAX = 64,
    FILE_BYTES_MAX = 1 << 30,
    RECORDS_MAX = 512,
    DIFFERENCE_BYTES_MAX = 4096
};

static const char records_name[] = "fingerprints", words_name[] = "fingerprint-words";

/* ---- builds ---- */

static bool contains(const struct dl_phdr_info *object, uintptr_t address)
{
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD &&
            address - (object->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return true;
    }
    return false;
}

static size_t padded(size_t len)
{
    return (len + 3) / 4 * 4;
}

/* The build ID in a segment of notes: {name length, length, type} name, bytes, each padded. */
static bool hash_build_note(struct hash256_state *state, const unsigned char *at, size_t len)
{
    ElfW(Nhdr) note;

    while (len >= sizeof(note)) {
        memcpy(&note, at, sizeof(note));
        size_t name = padded(note.n_namesz), size = padded(note.n_descsz);
        if (name > len - sizeof(note) || size > len - sizeof(note) - name)
            return false;
        const unsigned char *text = at + sizeof(note);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(text, "GNU", 4) == 0) {
            hash256_update_framed(state, text + name, note.n_descsz);
            return true;
        }
        at += sizeof(note) + name + size;
        len -= sizeof(note) + name + size;
    }
    return false;
}

static bool hash_file(struct hash256_state *state, const char *path)
{
    char *data;
    size_t len;

    if (file_read_all(file_sys_real(), AT_FDCWD, path[0] != '\0' ? path : "/proc/self/exe",
                      FILE_BYTES_MAX, &data, &len, NULL) != ERR_OK)
        return false;
    hash256_update_framed(state, data, len);
    mem_free(data);
    return true;
}

static bool hash_object(struct hash256_state *state, const struct dl_phdr_info *object)
{
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_NOTE &&
            hash_build_note(state, (const unsigned char *)(object->dlpi_addr + part->p_vaddr),
                            part->p_memsz))
            return true;
    }
    return hash_file(state, object->dlpi_name);
}

/* ---- arithmetic ---- */

struct libraries {
    struct library {
        const char *name;
        struct hash256 build;
    } list[LIBRARIES_MAX];
    size_t count;
};

static bool computes(const struct dl_phdr_info *object)
{
    const char *name = file_base_name(object->dlpi_name);

    for (size_t i = 0; i < COUNT_OF(computing); i++)
        if (strncmp(name, computing[i], strlen(computing[i])) == 0)
            return true;
    /* linked into the program, or under another name */
    return contains(object, (uintptr_t)llama_version) || contains(object, (uintptr_t)ggml_version);
}

static int add_library(struct dl_phdr_info *object, size_t size, void *arg)
{
    struct libraries *libraries = arg;
    struct hash256_state state;

    (void)size;
    if (libraries->count == LIBRARIES_MAX || !computes(object))
        return 0;
    hash256_init(&state);
    if (!hash_object(&state, object))
        hash256_update_framed(&state, "unknown", 7);
    libraries->list[libraries->count++] =
        (struct library){file_base_name(object->dlpi_name), hash256_final(&state)};
    return 0;
}

static int compare_libraries(const void *a, const void *b)
{
    return strcmp(((const struct library *)a)->name, ((const struct library *)b)->name);
}

static void hash_text(struct hash256_state *state, const char *text)
{
    hash256_update_framed(state, text, strlen(text));
}

static bool is_chosen(const char *names, const char *device)
{
    struct str rest = str_from(names), name;

    while (str_next(&rest, ',', &name))
        if (str_eq(name, str_from(device)))
            return true;
    return names == NULL;
}

/* Processors are told apart by the plug-in's variant; their own names do not change results. */
static void hash_devices(struct hash256_state *state, const struct engine_options *options)
{
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        enum ggml_backend_dev_type type = ggml_backend_dev_type(device);
        if (type == GGML_BACKEND_DEVICE_TYPE_CPU ||
            !is_chosen(options->devices, ggml_backend_dev_name(device)))
            continue;
        hash256_update_u32(state, (uint32_t)type);
        hash256_update_u32(state, (uint32_t)options->gpu_layers);
        hash_text(state, ggml_backend_dev_name(device));
        hash_text(state, ggml_backend_dev_description(device));
    }
}

static void hash_arithmetic(struct hash256_state *state, const struct engine_options *options)
{
    struct libraries libraries = {.count = 0};

    dl_iterate_phdr(add_library, &libraries);
    qsort(libraries.list, libraries.count, sizeof(*libraries.list), compare_libraries);
    for (size_t i = 0; i < libraries.count; i++) {
        hash_text(state, libraries.list[i].name);
        hash256_update(state, libraries.list[i].build.bytes, HASH256_BYTES);
    }
    hash_devices(state, options);
}

/* ---- meaning ---- */

static void hash_float(struct hash256_state *state, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    hash256_update_u32(state, bits);
}

/* The chunk is a part: where a prefill is cut shows in the low bits (keeps I24). */
static void hash_meaning(struct hash256_state *state, const struct fingerprint *parts)
{
    const struct engine_options *options = parts->options;

    hash_text(state, llama_version());
    hash_text(state, ggml_version());
    hash256_update_u32(state, LLAMA_STATE_SEQ_VERSION);
    hash256_update_u32(state, (uint32_t)options->kv_k);
    hash256_update_u32(state, (uint32_t)options->kv_v);
    hash256_update_u32(state, parts->facts->chunk);
    hash256_update_u32(state, (uint32_t)parts->attention);
    hash256_update_u32(state, options->streams);
    hash256_update_u32(state, options->sliding_full);
    hash_float(state, options->rope_base);
    hash_float(state, options->rope_scale);
    hash256_update_u32(state, parts->long_rope);
    hash256_update(state, parts->weights.bytes, HASH256_BYTES);
    hash256_update_u64(state, 0); /* adapters: sets of them have their own (lora.h) */
    if (parts->plain_weights)
        hash_text(state, "plain weights");
}

struct hash256 fingerprint_make(const struct fingerprint *parts)
{
    enum engine_sharing sharing = parts->options->sharing;
    struct hash256_state state;

    hash256_init(&state);
    hash_text(&state, "hearth engine 4");
    hash256_update_u32(&state, sharing);
    hash_meaning(&state, parts);
    if (sharing != ENGINE_SHARING_RELEASE)
        hash_arithmetic(&state, parts->options);
    if (sharing == ENGINE_SHARING_BITS) {
        hash256_update_u32(&state, parts->threads);
        hash256_update_u32(&state, parts->threads_prefill);
        hash256_update(&state, parts->bits.bytes, HASH256_BYTES);
    }
    return hash256_final(&state);
}

/* ---- in words ---- */

void fingerprint_words(const struct fingerprint *parts, struct fingerprint_words *words)
{
    static const char *const shares[] = {
        [ENGINE_SHARING_BUILD] = "build",
        [ENGINE_SHARING_RELEASE] = "release",
        [ENGINE_SHARING_BITS] = "bits",
    };
    const struct engine_options *options = parts->options;
    struct hash256_state state;
    char build[HASH256_HEX_BYTES];

    hash256_init(&state);
    if (options->sharing != ENGINE_SHARING_RELEASE)
        hash_arithmetic(&state, options);
    struct hash256 hash = hash256_final(&state);
    hash256_hex(&hash, build);
    memset(words, 0, sizeof(*words));
    snprintf(words->text, sizeof(words->text),
             "--flash-attn %s\n--ubatch-size %u\n--cache-type-k %s\n--cache-type-v %s\n"
             "--kv-streams %s\n--swa-full %s\n--rope-freq-base %g\n--rope-freq-scale %g\n"
             "--share-state %s\nlibllama %s\nggml %s\nlong-context-rope %s\n"
             "libraries-and-devices %.8s\n",
             parts->attention == ATTENTION_FLASH   ? "on"
             : parts->attention == ATTENTION_PLAIN ? "off"
                                                   : "auto",
             parts->facts->chunk, engine_kv_names[options->kv_k], engine_kv_names[options->kv_v],
             options->streams ? "on" : "off", options->sliding_full ? "on" : "off",
             (double)options->rope_base, (double)options->rope_scale, shares[options->sharing],
             llama_version(), ggml_version(), parts->long_rope ? "on" : "off", build);
}

/* "--flash-attn on, --ubatch-size 512": the lines of a that b does not have. */
static void append_others(struct buf *out, const char *a, const char *b)
{
    struct str rest = str_from(a), line, others, other;
    const char *before = "";

    while (str_next(&rest, '\n', &line)) {
        bool same = false;
        others = str_from(b);
        while (str_next(&others, '\n', &other))
            same |= str_eq(line, other);
        if (same)
            continue;
        buf_appendf(out, "%s" STR_FMT, before, STR_ARG(line));
        before = ", ";
    }
}

/* ---- what was used before ---- */

struct record {
    struct hash256 weights, fingerprint;
};

struct wording {
    struct hash256 fingerprint;
    struct fingerprint_words words;
};

/* A file of records of `each` bytes, at most RECORDS_MAX, into an array with room for one more. */
static size_t read_records(int dir, const char *name, void *records, size_t each)
{
    char *data;
    size_t len;

    if (file_read_all(file_sys_real(), dir, name, RECORDS_MAX * each, &data, &len, NULL) != ERR_OK)
        return 0; /* start with an empty list */
    memcpy(records, data, len / each * each);
    mem_free(data);
    return len / each;
}

/* If there are too many, without the oldest. */
static void write_records(int dir, const char *name, const void *records, size_t count, size_t each,
                          struct log *log)
{
    struct errinfo info = {0};
    size_t from = count > RECORDS_MAX ? 1 : 0;

    if (file_replace(file_sys_real(), dir, name, (const char *)records + from * each,
                     (count - from) * each, 0600, &info) != ERR_OK)
        LOG_WARN(log, "engine", "what is known about a model is not remembered",
                 LOG_STR("file", name), LOG_STR("reason", info.text));
}

/* Its place in the list, or the end. */
static size_t find_wording(const struct wording *list, size_t count,
                           const struct hash256 *fingerprint)
{
    size_t at = 0;

    while (at < count && !hash256_eq(&list[at].fingerprint, fingerprint))
        at++;
    return at;
}

/* `old`: the fingerprint of earlier state, or NULL; remembers the new one's words. */
static void compare_words(int dir, const struct hash256 *old, const struct hash256 *fingerprint,
                          const struct fingerprint_words *words, struct buf *out, struct log *log)
{
    struct wording *list = mem_alloc_array(RECORDS_MAX + 1, sizeof(*list));
    size_t count = read_records(dir, words_name, list, sizeof(*list));

    for (size_t i = 0; i < count; i++) /* whatever the file has */
        list[i].words.text[sizeof(list[i].words.text) - 1] = '\0';
    size_t at = old != NULL ? find_wording(list, count, old) : count;
    if (at < count) {
        buf_append_str(out, "cached state was made with ");
        append_others(out, list[at].words.text, words->text);
        buf_append_str(out, "; with ");
        append_others(out, words->text, list[at].words.text);
        buf_append_str(out, " it cannot be used, and is evicted when it is old");
    }
    if (find_wording(list, count, fingerprint) == count) {
        list[count] = (struct wording){*fingerprint, *words};
        write_records(dir, words_name, list, count + 1, sizeof(*list), log);
    }
    mem_free(list);
}

static void warn(struct log *log, const struct buf *difference)
{
    static const char unknown[] =
        "state that this model stored with other libraries, devices or settings is not used; it is "
        "evicted when it is old";

    LOG_WARN(log, "engine",
             difference->err == ERR_OK && difference->len > 0 ? buf_str(difference) : unknown);
}

void fingerprint_remember(const char *path, const struct fingerprint_seen *seen, struct log *log)
{
    struct record added = {*seen->weights, *seen->fingerprint};
    const struct record *last = NULL; /* of the model */
    size_t at = SIZE_MAX;
    struct buf difference;
    int dir;

    if (path == NULL || file_open_dir(file_sys_real(), path, true, &dir, NULL) != ERR_OK)
        return;
    struct record *records = mem_alloc_array(RECORDS_MAX + 1, sizeof(*records));
    size_t count = read_records(dir, records_name, records, sizeof(*records));
    for (size_t i = 0; i < count; i++) {
        if (!hash256_eq(&records[i].weights, seen->weights))
            continue;
        last = &records[i];
        if (hash256_eq(&last->fingerprint, seen->fingerprint))
            at = i;
    }
    bool same = at != SIZE_MAX;
    buf_init(&difference, DIFFERENCE_BYTES_MAX);
    compare_words(dir, !same && last != NULL ? &last->fingerprint : NULL, seen->fingerprint,
                  seen->words, &difference, log);
    if (!same) {
        if (seen->stored && (last != NULL || seen->loaded_before))
            warn(log, &difference);
    }
    if (!same || last != &records[at]) { /* the latest is the last one */
        if (same)
            memmove(records + at, records + at + 1, (--count - at) * sizeof(*records));
        records[count] = added;
        write_records(dir, records_name, records, count + 1, sizeof(*records), log);
    }
    buf_fini(&difference);
    mem_free(records);
    file_close(file_sys_real(), &dir);
}
