/*
 * tree.h: the contents of the cache as a tree of prefixes, small enough to display.
 *
 *      rows [0, 2048) <- rows [2048, 4096) <- rows [4096, 4300)
 *                                 ^---------- rows [4096, 6144)
 *
 * Chains without a branch become one node. Of the rest, the nodes with the most bytes below them
 * are kept.
 *
 * A child that branches off within a run of blocks has a parent key that belongs to no object. It
 * is attached to the run that covers its start if there is only one; otherwise it is a root, with
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

/* Rows form the tree; other objects at the same places count in bytes. False: the tree is full, and
 * this object was left out. */
bool admin_tree_add(struct admin_tree *tree, const struct hearth_held *held);

/* "nodes":[...], "objects", "left_out", into an open object; parents come before their children. */
void admin_tree_write(struct json *json, struct admin_tree *tree, const struct admin_book *book,
                      size_t limit);

#endif
