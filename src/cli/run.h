/*
 * run.h: `hearth run`: its options, and its two ways: a chat (run_chat.c), or plain text that a model
 * continues (run_raw.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/model_settings.h"
#include "cli/remote.h"

struct run_options {
    struct model_settings model;
    struct remote_options remote;
    uint64_t tokens;
    double temperature, top_p, min_p;
    int64_t top_k;
    int64_t seed;
    const char *system;
    bool ignore_end, raw;

    /* Whether these were set at all; by the command, after parsing. */
    bool tokens_set, temperature_set, top_p_set, min_p_set, top_k_set;
};

enum cli_exit run_raw(struct cli *cli, const struct run_options *options);
enum cli_exit run_chat(struct cli *cli, const struct run_options *options);
