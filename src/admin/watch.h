/*
 * watch.h: looks at what changes by itself, and tells the feed: events of the cache, states of
 * models, the level of memory, warnings of the log.
 *
 * Owner: one thread, which calls watch_poll from time to time. Nothing is told of before the first
 * call.
 */
#ifndef HEARTH_ADMIN_WATCH_H
#define HEARTH_ADMIN_WATCH_H

struct admin;
struct watch;

struct watch *watch_create(struct admin *admin);
void watch_destroy(struct watch **watch);
void watch_poll(struct watch *watch);

#endif
