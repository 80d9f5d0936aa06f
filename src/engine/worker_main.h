/*
 * worker_main.h: the child's side of an engine in a process of its own: a loop that is asked over a
 * socket and does what it is asked with an engine of its own. worker_wire.h has the messages.
 */
#ifndef HEARTH_ENGINE_WORKER_MAIN_H
#define HEARTH_ENGINE_WORKER_MAIN_H

#include "base/err.h"

struct engine;
struct engine_options;

/* All of the child: serves until the socket is closed, which is also how it learns that its parent
 * is gone; ends the process even then when the library never returns. `load` makes the engine:
 * engine_load, or what a test has instead. Returns the exit status. To be called first thing in
 * main, before any thread exists. */
int worker_main(int socket,
                enum err (*load)(struct engine **engine, const struct engine_options *options,
                                 struct errinfo *info));

#endif
