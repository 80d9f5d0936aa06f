/*
 * tree.h: what the cache holds as a tree of prefixes, small enough to be looked at.
 *
 *      rows [0, 2048) <- rows [2048, 4096) <- rows [4096, 4300)        chains without a branch
 *      become one node
 *                                 ^---------- rows [4096, 6144)        of the rest, those with most bytes below them are kept
 *
 * A child that branches off within a run of blocks has a parent that no object is named by: it
 * hangs on the run that covers its beginning if there is only one, else it stands at the top, with
 * its parent's key.
 *
 * Owner: the caller; not thread-safe.
 */
#ifndef HEARTH_ADMIN_TREE_H
#define HEARTH_ADMIN_TREE_H

#include <hearth/hearth.h>

#include <stddef.h>

#include "admin/admin_impl.h"
#include "base/json_write.h"

enum { ADMIN_TREE_NODES_MAX = 1000, ADMIN_TREE_OBJECTS_MAX = 65536 };

struct admin_tree;

struct admin_tree *admin_tree_create(void);
void admin_tree_destroy(struct admin_tree **tree);

/* Rows make the tree; what else lies at its places counts in bytes. False: it is full, and this one
 * was left out. */
bool admin_tree_add(struct admin_tree *tree, const struct hearth_held *held);

/* "nodes":[...], "objects", "left_out", into an open object; parents stand before their children.
 */
void admin_tree_write(struct json *json, struct admin_tree *tree, const struct admin_book *book,
                      size_t limit);

#endif
