/*
 * bench.h: what the files of `hearth bench` share.
 *
 *      bench.c          options, models, servers
 *      bench_prefix.c   one prompt, from everywhere that it can come from
 *      bench_load.c     `serve`: many requests at a time, against any server
 *      bench_peer.c     hearth and llama-server side by side
 *      bench_forks.c    the same, for prompts that diverge inside a message
 *      bench_drafts.c   answers with and without drafts
 *      bench_micro.c    one part of the program: what is in bench/
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/option.h"
#include "lab/bench_ask.h"
#include "lab/bench_server.h"
#include "lab/cli/sheets.h"

struct bench_options {
    const char *model, *other_model, *url, *key, *name, *llama, *answers, *draft_model, *drafts;
    struct option_list sizes, concurrency, prompts, generations, rows;
    uint64_t generate, tokens, threads, rounds, requests, chunk, timeout_ns, row_ns;
    bool chat, keep, raw, is_long;
    struct sheet_outputs outputs;
};

struct bench {
    struct cli *cli;
    const struct bench_options *options;
    char scratch[SERVER_PATH_BYTES];
    struct sheet *sheet;
    struct progress *bar;
    uint64_t done, total; /* steps, for the bar */
    bool failed;
};

/* The microbenchmarks, by the name that is the first argument. */
bool bench_is_micro(const char *name) NODISCARD;
const char *bench_micro_name(size_t number); /* NULL after the last */
enum cli_exit bench_micro(struct cli *cli, const struct bench_options *options) NODISCARD;

/* Prints a line to standard error at once: a row that was measured, before the table is whole. */
void bench_tell(struct bench *bench, const char *fmt, ...) PRINTF(2, 3);
/* Sets the number of steps (0 = unknown), and counts one as done. */
void bench_expect(struct bench *bench, const char *label, uint64_t steps);
void bench_step(struct bench *bench);

struct bench_list {
    uint32_t items[16];
    size_t count;
};

/* Numbers of a list: "2K" is 2,000. Prints an error and returns false on failure. */
bool bench_numbers(struct bench *bench, const char *option, const struct option_list *list,
                   struct bench_list *out) NODISCARD;

/* The path of a file as given; a preset or family is made below the scratch folder; NULL is the
 * model with random weights. On failure prints an error and returns NULL. */
const char *bench_model(struct bench *bench, const char *name);
struct server_setup bench_setup(const struct bench *bench, const char *model, uint32_t context);

/* Prints an error and makes the command fail. Returns false. */
bool bench_fail(struct bench *bench, const char *fmt, ...) PRINTF(2, 3);

/* Average bytes of text per token of this server's model. 0: not reported. */
double bench_bytes_per_token(struct bench *bench, const struct server *server);

/* One completion of `text`. Prints an error and returns false unless there is an answer; the
 * caller finishes the result in any case. */
bool bench_ask(struct bench *bench, const struct client_url *url,
               const struct ask_message *messages, size_t count, uint32_t tokens,
               struct ask_result *result);

/* What can be measured: fills the sheet. */
struct bench_kind {
    const char *name;
    const struct sheet_column *columns;
    size_t columns_count;
    struct plot plot;
    enum cli_exit (*run)(struct bench *bench);
};
extern const struct bench_kind bench_prefix, bench_load, bench_peer, bench_forks, bench_drafts;
