#include "support/tree.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "support/cache_check.h"
#include "support/test.h"

static void drop(struct object *object, void *arg)
{
    struct tree *tree = arg;

    assert_null(object->last);
    tree->dropped++;
    tree->dropped_last = object;
}

static size_t slot_of(const struct tree *tree, const struct object *object)
{
    size_t slot = 0;

    while (slot < tree->objects_count && tree->objects[slot] != object)
        slot++;
    assert_true(slot < tree->objects_count);
    return slot;
}

static void on_change(struct object *object, bool evictable, void *arg)
{
    struct tree *tree = arg;
    size_t slot = slot_of(tree, object);

    assert_true(tree->evictable[slot] != evictable); /* it is called for changes only */
    assert_int_equal(index_evictable(tree->index, object), evictable && object->leases == 0);
    tree->evictable[slot] = evictable;
    tree->told++;
}

void tree_init(struct tree *tree, uint32_t block_tokens)
{
    struct hash256 key = hash256_of("space", 5);

    *tree = (struct tree){.index = index_create(&key, block_tokens)};
    index_on_change(tree->index, on_change, tree);
}

void tree_fini(struct tree *tree)
{
    index_destroy(&tree->index, drop, tree);
    assert_null(tree->index);
    for (size_t i = 0; i < tree->objects_count; i++) {
        assert_null(tree->objects[i]->last);
        assert_false(tree->evictable[i]);
        mem_free(tree->objects[i]);
    }
}

size_t tree_tokens(const char *text, int32_t tokens[TREE_TOKENS_MAX])
{
    size_t count = strlen(text);

    assert_true(count <= TREE_TOKENS_MAX);
    for (size_t i = 0; i < count; i++)
        tokens[i] = text[i];
    return count;
}

struct index_match tree_match(struct tree *tree, const char *text)
{
    int32_t tokens[TREE_TOKENS_MAX];
    size_t count = tree_tokens(text, tokens);
    struct index_match match = index_match(tree->index, tokens, count);

    index_check(tree->index);
    return match;
}

struct node *tree_insert(struct tree *tree, const char *text)
{
    int32_t tokens[TREE_TOKENS_MAX];
    size_t count = tree_tokens(text, tokens);

    return index_insert(tree->index, tokens, count);
}

struct object *tree_object(struct tree *tree, enum hearth_object_kind kind, uint32_t begin,
                           const char *text)
{
    struct object *object = mem_alloc(sizeof(*object));

    assert_true(tree->objects_count < TREE_OBJECTS_MAX);
    tree->objects[tree->objects_count++] = object;
    object->kind = kind;
    object->begin = begin;
    object->end = (uint32_t)strlen(text);
    object->heap_slot = OBJECT_NOT_IN_HEAP;
    return object;
}

struct object *tree_store(struct tree *tree, enum hearth_object_kind kind, uint32_t begin,
                          const char *text)
{
    struct object *object = tree_object(tree, kind, begin, text);
    struct node *last = tree_insert(tree, text);

    assert_non_null(last);
    if (index_may_attach(tree->index, last, object)) {
        index_attach(tree->index, last, object, drop, tree);
        assert_ptr_equal(object->last, last);
    } else {
        index_prune(tree->index, last);
        object = NULL;
    }
    index_check(tree->index);
    return object;
}

void tree_detach(struct tree *tree, struct object *object)
{
    index_detach(tree->index, object);
    assert_null(object->last);
    index_check(tree->index);
}

void tree_unpin(struct tree *tree, const char *text)
{
    int32_t tokens[TREE_TOKENS_MAX];
    size_t count = tree_tokens(text, tokens);
    struct index_pin *pin = index_find_pin(tree->index, tokens, count);

    assert_non_null(pin);
    assert_int_equal(index_pin_end(pin), count);
    index_unpin(tree->index, pin);
}

void tree_clear(struct tree *tree)
{
    index_clear(tree->index, drop, tree);
    index_check(tree->index);
}

bool tree_evictable(const struct tree *tree, const struct object *object)
{
    bool evictable = tree->evictable[slot_of(tree, object)];

    assert_int_equal(index_evictable(tree->index, object), evictable && object->leases == 0);
    return evictable;
}

bool tree_aborts(void (*misuse)(struct tree *tree, struct object *rows, struct object *snapshot))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct tree tree;
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(2);
        signal(SIGABRT, SIG_DFL);
        tree_init(&tree, 4);
        struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aaaabbbb");
        struct object *snapshot = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aaaabbbb");
        misuse(&tree, rows, snapshot);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
