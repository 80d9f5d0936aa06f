/*
 * tree.h: an index with objects, for the suites of cache/index and its parts. Prompts are written
 * as text, one letter a token:
 *
 *      tree_init(&tree, 4);
 *      struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aaaabbbb");     two blocks, one run
 *      match = tree_match(&tree, "aaaabbcc");                                   6 tokens
 *
 * Every call checks the index before it returns. The tree owns its objects: what is dropped or
 * detached is freed when it ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/index.h"

enum { TREE_TOKENS_MAX = 64, TREE_OBJECTS_MAX = 64 };

struct tree {
    struct index *index;
    struct object *objects[TREE_OBJECTS_MAX]; /* all that were ever stored */
    bool evictable[TREE_OBJECTS_MAX];         /* as the index reported last */
    size_t objects_count;
    size_t told;    /* reports of the index */
    size_t dropped; /* calls of drop */
    struct object *dropped_last;
};

void tree_init(struct tree *tree, uint32_t block_tokens);
void tree_fini(struct tree *tree);

/* Letters as tokens; returns how many. */
size_t tree_tokens(const char *text, int32_t tokens[TREE_TOKENS_MAX]);

struct index_match tree_match(struct tree *tree, const char *text);
/* Only the nodes; the caller attaches or prunes. */
struct node *tree_insert(struct tree *tree, const char *text);
/* An object [begin, length of text), in no tree yet. */
struct object *tree_object(struct tree *tree, enum hearth_object_kind kind, uint32_t begin,
                           const char *text);
/* The same, attached. NULL if it is stored already. */
struct object *tree_store(struct tree *tree, enum hearth_object_kind kind, uint32_t begin,
                          const char *text);
void tree_detach(struct tree *tree, struct object *object);
void tree_clear(struct tree *tree);
/* Undoes a pin of exactly this text. */
void tree_unpin(struct tree *tree, const char *text);

/* What the index reported last, which must equal what it says now. */
bool tree_evictable(const struct tree *tree, const struct object *object);

/* Whether `misuse` of a tree with two stored blocks of 4 ("aaaabbbb", rows in one object, and a
 * snapshot at 8) aborts. */
bool tree_aborts(void (*misuse)(struct tree *tree, struct object *rows, struct object *snapshot));
