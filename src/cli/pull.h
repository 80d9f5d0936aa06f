/* pull.h: for commands that download a model before they use it. */
#pragma once

#include "base/err.h"
#include "models/model_file.h"

struct cli;

/* As hub_pull, with the environment and the terminal of the command. */
enum err pull_model(const struct cli *cli, const char *name, char path[MODEL_FILE_PATH_BYTES],
                    struct errinfo *info) NODISCARD;
