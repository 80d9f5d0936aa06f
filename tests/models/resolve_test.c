/* resolve_test.c: every way to call a model, on folders that look like those of the programs that
 * fill them. */
#include "models/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "lab/file_fault.h"
#include "base/mem.h"
#include "support/test.h"

enum { VARIABLES = 8 };

/* A folder, its environment, and a question. */
struct place {
    const char *dir;
    char names[VARIABLES][32], values[VARIABLES][600];
    size_t variables;
    char models_dir[600];
    struct resolve_options options;
    struct resolved found;
    struct errinfo info;
};

static const char *get_env(const char *name, void *arg)
{
    struct place *place = arg;

    for (size_t i = 0; i < place->variables; i++)
        if (strcmp(place->names[i], name) == 0)
            return place->values[i];
    return NULL;
}

static void place_init(struct place *place)
{
    memset(place, 0, sizeof(*place));
    place->dir = test_dir();
    place->options = (struct resolve_options){file_sys_real(), NULL, get_env, place};
}

static void place_set(struct place *place, const char *name, const char *below)
{
    snprintf(place->names[place->variables], sizeof(place->names[0]), "%s", name);
    snprintf(place->values[place->variables++], sizeof(place->values[0]), "%s/%s", place->dir,
             below);
}

static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
}

static void put(struct place *place, const char *below, const char *text)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s/%s", place->dir, below);
    make_parents(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static enum err ask(struct place *place, const char *name)
{
    return resolve_model(&place->options, name, &place->found, &place->info);
}

static void expect(struct place *place, const char *name, enum resolve_kind kind, const char *below)
{
    char path[1024];

    if (ask(place, name) != ERR_OK)
        fail_msg("%s: %s", name, place->info.text);
    snprintf(path, sizeof(path), "%s/%s", place->dir, below);
    assert_string_equal(place->found.path, path);
    assert_int_equal(place->found.kind, kind);
}

static char *at(struct place *place, const char *below)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/%s", place->dir, below);
    return path;
}

static void test_files_and_folders(void **state)
{
    struct place place;

    (void)state;
    place_init(&place);
    put(&place, "m.gguf", "x");
    put(&place, "big/b-00001-of-00002.gguf", "x");
    put(&place, "big/b-00002-of-00002.gguf", "x");
    put(&place, "big/mmproj-b.gguf", "x");
    put(&place, "big/readme.txt", "x");
    put(&place, "two/a.gguf", "x");
    put(&place, "two/b.gguf", "x");
    put(&place, "none/readme.txt", "x");
    expect(&place, at(&place, "m.gguf"), RESOLVE_FILE, "m.gguf");
    expect(&place, at(&place, "big/b-00002-of-00002.gguf"), RESOLVE_FILE,
           "big/b-00001-of-00002.gguf");
    expect(&place, at(&place, "big"), RESOLVE_FOLDER, "big/b-00001-of-00002.gguf");
    assert_err(ask(&place, at(&place, "two")), ERR_INVALID);
    assert_non_null(strstr(place.info.text, "a.gguf"));
    assert_err(ask(&place, at(&place, "none")), ERR_INVALID);
    assert_err(ask(&place, at(&place, "nowhere.gguf")), ERR_NOT_FOUND);
    assert_non_null(strstr(place.info.text, "nowhere.gguf"));
    assert_err(ask(&place, at(&place, "m.gguf/x")), ERR_NOT_FOUND);
    assert_err(ask(&place, ""), ERR_INVALID);
}

static void test_models_dir(void **state)
{
    struct place place;

    (void)state;
    place_init(&place);
    put(&place, "d/tiny.gguf", "x");
    put(&place, "d/sub/large-Q8_0.gguf", "x");
    snprintf(place.models_dir, sizeof(place.models_dir), "%s/d", place.dir);
    place.options.models_dir = place.models_dir;
    expect(&place, "tiny", RESOLVE_MODELS_DIR, "d/tiny.gguf");
    expect(&place, "tiny.gguf", RESOLVE_MODELS_DIR, "d/tiny.gguf");
    expect(&place, "sub", RESOLVE_MODELS_DIR, "d/sub/large-Q8_0.gguf");
    assert_err(ask(&place, "other"), ERR_NOT_FOUND);
}

#define REVISION "0123456789abcdef0123456789abcdef01234567"

static void put_repo(struct place *place, const char *hub)
{
    static const char *const files[] = {"Tiny-Q8_0.gguf",
                                        "Tiny-Q4_K_M.gguf",
                                        "Tiny-IQ4_XS.gguf",
                                        "mmproj-F16.gguf",
                                        "BF16/Tiny-BF16-00001-of-00002.gguf",
                                        "BF16/Tiny-BF16-00002-of-00002.gguf"};
    char path[512];

    snprintf(path, sizeof(path), "%s/models--Some-User--Tiny-GGUF/refs/main", hub);
    put(place, path, REVISION "\n");
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        snprintf(path, sizeof(path), "%s/models--Some-User--Tiny-GGUF/snapshots/" REVISION "/%s",
                 hub, files[i]);
        put(place, path, "x");
    }
    snprintf(path, sizeof(path), "%s/models--Some-User--Tiny-GGUF/snapshots/ffff/Tiny-Q2_K.gguf",
             hub);
    put(place, path, "x");
}

static void test_hugging_face(void **state)
{
#define SNAPSHOT "hub/models--Some-User--Tiny-GGUF/snapshots/" REVISION
    struct place place;

    (void)state;
    place_init(&place);
    place_set(&place, "HF_HUB_CACHE", "hub");
    put_repo(&place, "hub");
    expect(&place, "Some-User/Tiny-GGUF", RESOLVE_HUGGING_FACE, SNAPSHOT "/Tiny-Q4_K_M.gguf");
    expect(&place, "some-user/tiny-gguf:q8_0", RESOLVE_HUGGING_FACE, SNAPSHOT "/Tiny-Q8_0.gguf");
    expect(&place, "some-user/tiny-gguf:BF16", RESOLVE_HUGGING_FACE,
           SNAPSHOT "/BF16/Tiny-BF16-00001-of-00002.gguf");
    assert_err(ask(&place, "some-user/tiny-gguf:Q4_K"), ERR_NOT_FOUND); /* its own word */
    assert_err(ask(&place, "some-user/tiny-gguf:Q4_XS"), ERR_NOT_FOUND);
    assert_err(ask(&place, "some-user/tiny-gguf:Q2_K"), ERR_NOT_FOUND); /* another revision's */
    assert_err(ask(&place, "some-user/other"), ERR_NOT_FOUND);
    assert_err(ask(&place, "../hub"), ERR_NOT_FOUND);
    /* Without the default quant: the first one. Without a reference: the last snapshot. */
    unlink(at(&place, SNAPSHOT "/Tiny-Q4_K_M.gguf"));
    expect(&place, "some-user/tiny-gguf", RESOLVE_HUGGING_FACE, SNAPSHOT "/Tiny-IQ4_XS.gguf");
    put(&place, "hub/models--Some-User--Tiny-GGUF/refs/main", "../../../etc");
    expect(&place, "some-user/tiny-gguf", RESOLVE_HUGGING_FACE,
           "hub/models--Some-User--Tiny-GGUF/snapshots/ffff/Tiny-Q2_K.gguf");
}

/* The places in their order: the first that has it. */
static void test_places_of_the_cache(void **state)
{
    static const struct {
        const char *variable, *value, *hub;
    } places[] = {
        {"HOME", "home", "home/.cache/huggingface/hub"},
        {"XDG_CACHE_HOME", "xdg", "xdg/huggingface/hub"},
        {"HF_HOME", "hf", "hf/hub"},
        {"HUGGINGFACE_HUB_CACHE", "old", "old"},
        {"HF_HUB_CACHE", "hub", "hub"},
        {"LLAMA_CACHE", "llama", "llama"},
    };
    struct place place;
    char below[512];

    (void)state;
    place_init(&place);
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        place_set(&place, places[i].variable, places[i].value);
        put_repo(&place, places[i].hub);
        snprintf(below, sizeof(below),
                 "%s/models--Some-User--Tiny-GGUF/snapshots/" REVISION "/Tiny-Q4_K_M.gguf",
                 places[i].hub);
        expect(&place, "some-user/tiny-gguf", RESOLVE_HUGGING_FACE, below);
    }
}

#define DIGEST "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999"

static void put_ollama(struct place *place, const char *manifest, const char *digest)
{
    char text[1024], path[512];

    snprintf(text, sizeof(text),
             "{\"schemaVersion\":2,\"layers\":[{\"mediaType\":\"application/"
             "vnd.ollama.image.template\",\"digest\":"
             "\"sha256:1\"},{\"mediaType\":\"application/"
             "vnd.ollama.image.model\",\"digest\":\"%s\",\"size\":1}]}",
             digest);
    snprintf(path, sizeof(path), "ollama/manifests/%s", manifest);
    put(place, path, text);
}

static void test_ollama(void **state)
{
    struct place place;

    (void)state;
    place_init(&place);
    place_set(&place, "OLLAMA_MODELS", "ollama");
    put(&place, "ollama/blobs/sha256-" DIGEST, "x");
    put_ollama(&place, "some.host/library/tiny/latest", "sha256:" DIGEST);
    put_ollama(&place, "some.host/library/tiny/1b", "sha256:" DIGEST);
    put_ollama(&place, "some.host/user/own/latest", "sha256:" DIGEST);
    put_ollama(&place, "some.host/library/evil/latest",
               "sha256:../../../../../../../../../../../../../../../../../etc/x");
    put_ollama(&place, "some.host/library/lost/latest",
               "sha256:0000000000000000000000000000000000000000000000000000000000000000");
    put(&place, "ollama/manifests/some.host/library/broken/latest", "{\"layers\":");
    expect(&place, "tiny", RESOLVE_OLLAMA, "ollama/blobs/sha256-" DIGEST);
    expect(&place, "tiny:1b", RESOLVE_OLLAMA, "ollama/blobs/sha256-" DIGEST);
    expect(&place, "user/own", RESOLVE_OLLAMA, "ollama/blobs/sha256-" DIGEST);
    expect(&place, "some.host/user/own:latest", RESOLVE_OLLAMA, "ollama/blobs/sha256-" DIGEST);
    assert_err(ask(&place, "tiny:7b"), ERR_NOT_FOUND);
    assert_err(ask(&place, "other.host/user/own"), ERR_NOT_FOUND);
    assert_err(ask(&place, "evil"), ERR_CORRUPT);
    assert_err(ask(&place, "broken"), ERR_CORRUPT);
    assert_err(ask(&place, "lost"), ERR_NOT_FOUND);
    assert_err(ask(&place, "tiny:.."), ERR_NOT_FOUND);
}

/* ---- folders of models ---- */

struct listing {
    char text[2048];
    size_t dir_len;
};

static void take(const char *name, const char *path, void *arg)
{
    struct listing *listing = arg;
    size_t len = strlen(listing->text);

    snprintf(listing->text + len, sizeof(listing->text) - len, "%s=%s;", name,
             path + listing->dir_len + 1);
}

static void test_list(void **state)
{
    struct listing listing = {0};
    struct place place;

    (void)state;
    place_init(&place);
    listing.dir_len = strlen(at(&place, "d"));
    put(&place, "d/z.gguf", "x");
    put(&place, "d/A-Q8_0-00001-of-00002.gguf", "x");
    put(&place, "d/A-Q8_0-00002-of-00002.gguf", "x");
    put(&place, "d/mmproj-A.gguf", "x");
    put(&place, "d/one/x-Q4_0.gguf", "x");
    put(&place, "d/two/x.gguf", "x");
    put(&place, "d/two/y.gguf", "x");
    put(&place, "d/two/deeper/n.gguf", "x");
    put(&place, "d/.hidden/n.gguf", "x");
    assert_ok(resolve_list(file_sys_real(), at(&place, "d"), take, &listing, NULL));
    assert_string_equal(listing.text,
                        "A-Q8_0=A-Q8_0-00001-of-00002.gguf;z=z.gguf;one=one/x-Q4_0.gguf;"
                        "two/x=two/x.gguf;two/y=two/y.gguf;");
    assert_err(resolve_list(file_sys_real(), at(&place, "nowhere"), take, &listing, NULL),
               ERR_NOT_FOUND);
}

struct untold {
    file_entry_fn *fn;
    void *arg;
};

static void untell(const char *name, unsigned char d_type, void *arg)
{
    struct untold *untold = arg;

    (void)d_type;
    untold->fn(name, DT_UNKNOWN, untold->arg);
}

static int list_unknown(void *ctx, int dir, file_entry_fn *fn, void *arg)
{
    struct untold untold = {fn, arg};

    return file_sys_real()->ops->list(ctx, dir, untell, &untold);
}

/* A folder may be a link, and a file system may leave it to others what an entry is. */
static void test_linked_and_unknown_entries(void **state)
{
    struct file_ops ops = *file_sys_real()->ops;
    struct file_sys unknown = {&ops, file_sys_real()->ctx};
    struct listing listing = {0};
    struct place place;
    char to[1024];

    (void)state;
    place_init(&place);
    ops.list = list_unknown;
    listing.dir_len = strlen(at(&place, "d"));
    put(&place, "d/a.gguf", "x");
    put(&place, "d/one/b.gguf", "x");
    put(&place, "elsewhere/c.gguf", "x");
    snprintf(to, sizeof(to), "%s", at(&place, "elsewhere"));
    assert_int_equal(symlink(to, at(&place, "d/two")), 0);
    assert_int_equal(symlink("nowhere", at(&place, "d/three")), 0);
    snprintf(to, sizeof(to), "%s", at(&place, "d"));
    assert_ok(resolve_list(file_sys_real(), to, take, &listing, NULL));
    assert_string_equal(listing.text, "a=a.gguf;one=one/b.gguf;two=two/c.gguf;");
    listing.text[0] = '\0';
    assert_ok(resolve_list(&unknown, to, take, &listing, NULL));
    assert_string_equal(listing.text, "a=a.gguf;one=one/b.gguf;two=two/c.gguf;");
}

/* Every call of the disk and every allocation fails once: an error or the right answer, nothing
 * else. */
static void test_faults(void **state)
{
    static const char *const names[] = {"some-user/tiny-gguf:BF16", "tiny"};
    struct file_fault disk;
    struct fault memory = {0};
    struct place place;

    (void)state;
    place_init(&place);
    place_set(&place, "HF_HUB_CACHE", "hub");
    place_set(&place, "OLLAMA_MODELS", "ollama");
    put_repo(&place, "hub");
    put(&place, "ollama/blobs/sha256-" DIGEST, "x");
    put_ollama(&place, "some.host/library/tiny/latest", "sha256:" DIGEST);
    file_fault_init(&disk, file_sys_real());
    disk.errnum = 5; /* EIO */
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char right[MODEL_FILE_PATH_BYTES];

        assert_ok(ask(&place, names[i]));
        snprintf(right, sizeof(right), "%s", place.found.path);
        place.options.fs = &disk.sys;
        disk.when = (struct fault){0};
        FAULT_LOOP (&disk.when) {
            if (ask(&place, names[i]) == ERR_OK && strstr(place.found.path, "ffff") == NULL)
                assert_string_equal(place.found.path, right);
        }
        place.options.fs = file_sys_real();
        memory = (struct fault){0};
        mem_set_fault(&memory);
        FAULT_LOOP (&memory) {
            if (ask(&place, names[i]) == ERR_OK && strstr(place.found.path, "ffff") == NULL)
                assert_string_equal(place.found.path, right);
        }
        mem_set_fault(NULL);
    }
}

/* A file that may not be read is not a file that is missing. */
static void test_denied(void **state)
{
    struct file_fault disk;
    struct place place;
    int denied = 0;

    (void)state;
    place_init(&place);
    put(&place, "m.gguf", "x");
    file_fault_init(&disk, file_sys_real());
    disk.errnum = EACCES;
    disk.calls = UINT64_C(1) << FILE_CALL_OPENAT;
    place.options.fs = &disk.sys;
    FAULT_LOOP (&disk.when) {
        enum err err = ask(&place, at(&place, "m.gguf"));
        if (err == ERR_OK)
            continue;
        assert_err(err, ERR_DENIED);
        assert_non_null(strstr(place.info.text, "m.gguf"));
        denied++;
    }
    assert_true(denied > 0);
}

/* The model that comes with the program: after everything that the user has under that name. */
static void test_demo(void **state)
{
    struct place place;

    (void)state;
    place_init(&place);
    place_set(&place, "HEARTH_DEMO", "none.gguf");
    assert_int_equal(ask(&place, "demo"), ERR_NOT_FOUND);
    put(&place, "none.gguf", "x");
    expect(&place, "demo", RESOLVE_DEMO, "none.gguf");
    assert_int_equal(ask(&place, "demo2"), ERR_NOT_FOUND);
    put(&place, "models/demo.gguf", "x");
    place.options.models_dir = at(&place, "models");
    expect(&place, "demo", RESOLVE_MODELS_DIR, "models/demo.gguf");
}

TEST_SUITE(TEST(test_files_and_folders), TEST(test_models_dir), TEST(test_hugging_face),
           TEST(test_places_of_the_cache), TEST(test_ollama), TEST(test_demo), TEST(test_list),
           TEST(test_linked_and_unknown_entries), TEST(test_faults), TEST(test_denied))
