/*
 * worker_main.h: the child's side of an engine in a process of its own: a loop that is asked over a
 * socket and does what it is asked with an engine of its own (engine_llama or engine_fake).
 * worker_wire.h has the messages.
 */
#ifndef HEARTH_ENGINE_WORKER_MAIN_H
#define HEARTH_ENGINE_WORKER_MAIN_H

/* All of the child: serves until the socket is closed, which is also how it learns that its parent
 * is gone; ends the process even then when the library never returns. Returns the exit status. To
 * be called first thing in main, before any thread exists. */
int worker_main(int socket);

#endif
