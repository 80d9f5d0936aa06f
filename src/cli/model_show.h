/*
 * model_show.h: `hearth model show FILE`.
 */
#ifndef HEARTH_CLI_MODEL_SHOW_H
#define HEARTH_CLI_MODEL_SHOW_H

#include "cli/cli.h"

struct model_settings;

/* Loads the model named by the second argument and prints what is known of it. */
enum cli_exit model_show(struct cli *cli, const struct model_settings *settings);

#endif
