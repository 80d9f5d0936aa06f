/*
 * driver.c: runs a fuzz target without libFuzzer: over its corpus, and over random changes of it.
 *
 *      driver --list | --run corpus | --run mutations      as a suite of `make test`: every finding that was kept, and a short run
 *      driver --seconds N                                  as much as fits in that time
 *      driver FILE...                                      these inputs, to see a finding again
 *
 * It has no feedback from the code, so that it finds less than libFuzzer; it is there for machines
 * without it, and so that the corpus is part of every test run. The n-th input depends on the seed
 * and the corpus only: HEARTH_TEST_SEED repeats a run.
 */
#include "fuzz.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"

enum { INPUT_BYTES_MAX = 32 * 1024, INPUTS_MAX = 1000, SECONDS_MAX = 1000000 };
enum { TEST_MUTATIONS = 2000, TEST_NS = 500 * 1000 * 1000 }; /* whichever comes first */

struct input {
    char name[256];
    char *data;
    size_t len;
};

struct corpus {
    struct input inputs[INPUTS_MAX];
    size_t count;
};

/* The input that runs now, for the handler of its crash: which can be given nothing else. */
static struct {
    const uint8_t *data;
    size_t len;
    int fd;
} current = {.fd = -1};

static char target_name[64];

/* "build/release/tests/fuzz/ssd_format_test" -> "ssd_format". */
static void name_target(const char *path)
{
    struct str name = str_from(path), piece;

    while (str_next(&name, '/', &piece))
        path = piece.ptr;
    name = str_from(path);
    if (str_ends(name, STR("_test")))
        name.len -= STR("_test").len;
    snprintf(target_name, sizeof(target_name), STR_FMT, STR_ARG(name));
}

/* The sanitizers' runtimes have it; other builds do not. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void save_current(void)
{
    static const char note[] = "the input is in the file named above\n";

    if (current.fd < 0 || current.data == NULL)
        return;
    if (write(current.fd, current.data, current.len) == (ssize_t)current.len)
        (void)!write(STDERR_FILENO, note, sizeof(note) - 1);
    current.data = NULL;
}

static void on_signal(int number)
{
    save_current();
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_for_crashes(void)
{
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    const char *dir = getenv("HEARTH_BUILD");
    char path[1024];

    snprintf(path, sizeof(path), "%s/%s.crash", dir ? dir : "build", target_name);
    if (file_open_at(file_sys_real(), AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600,
                     &current.fd, NULL) != ERR_OK)
        return;
    printf("a crashing input goes to %s\n", path);
    fflush(stdout);
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        signal(signals[i], on_signal);
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(save_current);
}

/* Copied to memory of exactly its length, so that a sanitizer notices reads beyond it. */
static void run_one(const void *data, size_t len)
{
    uint8_t *copy = mem_alloc(MAX(len, 1));

    if (len > 0)
        memcpy(copy, data, len);
    current.data = copy;
    current.len = len;
    LLVMFuzzerTestOneInput(copy, len);
    current.data = NULL;
    mem_free(copy);
}

/* ---- the corpus ---- */

static void note_name(const char *name, unsigned char d_type, void *arg)
{
    struct corpus *corpus = arg;

    (void)d_type;
    assert(corpus->count < INPUTS_MAX && strlen(name) < sizeof(corpus->inputs[0].name));
    snprintf(corpus->inputs[corpus->count++].name, sizeof(corpus->inputs[0].name), "%s", name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct input *)a)->name, ((const struct input *)b)->name);
}

static bool read_input(int dir, struct input *input)
{
    struct errinfo info;

    if (file_read_all(file_sys_real(), dir, input->name, INPUT_BYTES_MAX, &input->data, &input->len,
                      &info) == ERR_OK)
        return true;
    fprintf(stderr, "%s\n", info.text);
    return false;
}

static bool read_corpus(struct corpus *corpus)
{
    const struct file_sys *fs = file_sys_real();
    struct errinfo info;
    char path[512];
    int dir;

    snprintf(path, sizeof(path), "fuzz/corpus/%s", target_name);
    if (file_open_dir(fs, path, false, &dir, &info) != ERR_OK) {
        fprintf(stderr, "%s\n", info.text);
        return false;
    }
    bool ok = fs->ops->list(fs->ctx, dir, note_name, corpus) == 0 && corpus->count > 0;
    qsort(corpus->inputs, corpus->count, sizeof(corpus->inputs[0]), by_name);
    for (size_t i = 0; ok && i < corpus->count; i++)
        ok = read_input(dir, &corpus->inputs[i]);
    file_close(fs, &dir);
    return ok;
}

static void run_corpus(const struct corpus *corpus, bool verbose)
{
    run_one("", 0);
    for (size_t i = 0; i < corpus->count; i++) {
        if (verbose) {
            printf("%s\n", corpus->inputs[i].name);
            fflush(stdout); /* the last one is the culprit */
        }
        run_one(corpus->inputs[i].data, corpus->inputs[i].len);
    }
}

/* ---- mutations ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static size_t random_below(uint64_t *state, size_t limit)
{
    return (size_t)(next_random(state) % limit);
}

/* A number that parsers get wrong, in 1, 2, 4 or 8 bytes. */
static void put_interesting(uint8_t *data, size_t len, uint64_t *seed)
{
    static const uint64_t values[] = {0,          1,          0x7F,       0x80,        0xFF,
                                      0x7FFF,     0x8000,     0xFFFF,     0x7FFFFFFF,  0x80000000,
                                      0x40000000, 0xFFFFFFFF, 0xFFFFF000, 0x100000000, UINT64_MAX,
                                      INT64_MAX,  4095,       4096,       4097};
    size_t width = (size_t)1 << random_below(seed, 4);
    size_t at = random_below(seed, len);
    uint64_t value = values[random_below(seed, COUNT_OF(values))];

    for (size_t i = 0; i < width && at + i < len; i++)
        data[at + i] = (uint8_t)(value >> (8 * i));
}

/* Replaces the bytes from a place on by those of another input, or removes them. */
static size_t join_inputs(uint8_t *data, size_t len, const struct input *other, uint64_t *seed)
{
    size_t at = random_below(seed, len + 1), from = random_below(seed, other->len + 1);
    size_t more = MIN(other->len - from, INPUT_BYTES_MAX - at);

    memcpy(data + at, other->data + from, more);
    return at + more;
}

static size_t mutate(uint8_t *data, size_t len, const struct corpus *corpus, uint64_t *seed)
{
    size_t from, to;

    switch (len == 0 ? 4 : random_below(seed, 6)) {
    case 0:
        data[random_below(seed, len)] ^= (uint8_t)(1u << random_below(seed, 8));
        return len;
    case 1:
        data[random_below(seed, len)] = (uint8_t)next_random(seed);
        return len;
    case 2:
        put_interesting(data, len, seed);
        return len;
    case 3:
        from = random_below(seed, len);
        to = random_below(seed, len);
        memmove(data + to, data + from, MIN(len - MAX(from, to), (size_t)64));
        return len;
    case 4:
        return join_inputs(data, len, &corpus->inputs[random_below(seed, corpus->count)], seed);
    default:
        return random_below(seed, len + 1);
    }
}

static uint64_t start_seed(void)
{
    const char *text = getenv("HEARTH_TEST_SEED");
    uint64_t seed;

    if (text != NULL)
        seed = strtoull(text, NULL, 0);
    else
        hash_random(&seed, sizeof(seed));
    printf("HEARTH_TEST_SEED=0x%" PRIx64 "\n", seed);
    fflush(stdout);
    return seed;
}

/* Until one of the two is used up. */
static void run_mutations(const struct corpus *corpus, uint64_t count, uint64_t time_ns)
{
    static uint8_t data[INPUT_BYTES_MAX];
    uint64_t seed = start_seed(), done = 0;
    const struct clock *clock = clock_real();
    uint64_t end_ns = clock_deadline_ns(clock, time_ns);

    while (done < count && clock_mono_ns(clock) < end_ns) {
        const struct input *input = &corpus->inputs[random_below(&seed, corpus->count)];
        size_t len = input->len;
        memcpy(data, input->data, len);
        for (size_t n = 1 + random_below(&seed, 6); n > 0; n--)
            len = mutate(data, len, corpus, &seed);
        run_one(data, len);
        done++;
    }
    printf("%s: %zu inputs of the corpus, %" PRIu64 " mutations\n", target_name, corpus->count,
           done);
}

static int run_files(char **names, int count)
{
    for (int i = 0; i < count; i++) {
        struct input input = {0};
        snprintf(input.name, sizeof(input.name), "%s", names[i]);
        if (!read_input(AT_FDCWD, &input))
            return 1;
        run_one(input.data, input.len);
        mem_free(input.data);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct corpus corpus;
    uint64_t seconds = 0;

    name_target(argv[0]);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        printf("corpus\nmutations\n");
        return 0;
    }
    bool run = argc == 3 && strcmp(argv[1], "--run") == 0;
    bool timed = argc == 3 && strcmp(argv[1], "--seconds") == 0;
    if (timed &&
        (!str_to_u64(str_from(argv[2]), &seconds) || seconds == 0 || seconds > SECONDS_MAX)) {
        fprintf(stderr, "usage: %s [--list | --run NAME | --seconds N | FILE...]\n", argv[0]);
        return 2;
    }
    if (!run && !timed)
        return run_files(argv + 1, argc - 1);
    if (!read_corpus(&corpus))
        return 1;
    run_corpus(&corpus, run);
    if (timed || strcmp(argv[2], "mutations") == 0) {
        watch_for_crashes();
        if (timed)
            run_mutations(&corpus, UINT64_MAX, seconds * NS_PER_S);
        else
            run_mutations(&corpus, TEST_MUTATIONS, TEST_NS);
    }
    for (size_t i = 0; i < corpus.count; i++)
        mem_free(corpus.inputs[i].data);
    return 0;
}
