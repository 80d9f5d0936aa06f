/*
 * lab.h: the commands of `hearth-lab`, the makers' program: what hearth is measured and tested with.
 *
 * `hearth bench` runs `hearth-bench`, a link to this program, so users type one name (cli.c).
 */
#pragma once

#include "cli/cli.h"

extern const struct command command_bench, command_model_make, command_qa, command_replay;
extern struct command command_lab_serve;

/* Makes command_lab_serve of the product's command; to be called before it is used. */
void lab_serve_setup(void);
