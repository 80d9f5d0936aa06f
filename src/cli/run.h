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
};

enum cli_exit run_raw(struct cli *cli, const struct run_options *options);
enum cli_exit run_chat(struct cli *cli, const struct run_options *options);
