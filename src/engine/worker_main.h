/*
 * worker_main.h: the child's side of an engine in a child process: a loop that receives calls over
 * a socket and runs them on its own engine. worker_wire.h has the messages.
 */
#pragma once

#include "base/err.h"

struct engine;
struct engine_options;

/* All of the child: serves until the socket is closed, which is also how it learns that its
 * parent is gone; ends the process even when the library never returns. `load` makes the engine:
 * engine_load, or a test's replacement. Returns the exit status. To be called first thing in
 * main, before any thread exists. */
int worker_main(int socket,
                enum err (*load)(struct engine **engine, const struct engine_options *options,
                                 struct errinfo *info));
