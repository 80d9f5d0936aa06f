#include "base/list.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

enum { ENTRIES = 40 };

struct entry {
    int value;
    struct list_node link;
};

static struct entry *entry_of(struct list_node *node)
{
    return LIST_ENTRY(node, struct entry, link);
}

/* Compares the list with values that end in -1, forwards through the macro and backwards by hand.
 */
static void assert_holds(const struct list *list, const int *values)
{
    size_t count = 0;

    list_check(list);
    LIST_FOREACH (struct entry, e, list, link) {
        assert_int_equal(e->value, values[count]);
        count++;
    }
    assert_int_equal(values[count], -1);
    assert_int_equal(list->count, count);
    assert_int_equal(list_empty(list), count == 0);
    for (const struct list_node *node = list_last(list); count > 0; node = node->prev)
        assert_int_equal(CONTAINER_OF(node, struct entry, link)->value, values[--count]);
}

#define assert_list(list, ...) assert_holds((list), (const int[]){__VA_ARGS__, -1})

static void test_empty_list(void **state)
{
    struct list list;
    struct entry e = {0};

    (void)state;
    list_init(&list);
    assert_holds(&list, (const int[]){-1});
    assert_null(list_first(&list));
    assert_null(list_last(&list));
    assert_null(list_pop_front(&list));
    assert_null(entry_of(list_first(&list)));
    assert_false(list_node_linked(&e.link));
}

static void test_order_of_operations(void **state)
{
    struct entry e[5] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}, {.value = 4}};
    struct list list;

    (void)state;
    list_init(&list);
    list_push_back(&list, &e[1].link);
    list_push_back(&list, &e[2].link);
    list_push_front(&list, &e[0].link);
    assert_list(&list, 0, 1, 2);
    list_insert_before(&list, &e[1].link, &e[3].link);
    list_insert_before(&list, &e[0].link, &e[4].link);
    assert_list(&list, 4, 0, 3, 1, 2);
    assert_true(list_node_linked(&e[3].link));
    list_move_back(&list, &e[0].link);
    assert_list(&list, 4, 3, 1, 2, 0);
    list_remove(&list, &e[1].link);
    assert_false(list_node_linked(&e[1].link));
    assert_list(&list, 4, 3, 2, 0);
    assert_ptr_equal(entry_of(list_pop_front(&list)), &e[4]);
    assert_false(list_node_linked(&e[4].link));
    assert_ptr_equal(entry_of(list_first(&list)), &e[3]);
    assert_ptr_equal(entry_of(list_last(&list)), &e[0]);
    assert_ptr_equal(entry_of(list_next(&list, &e[3].link)), &e[2]);
    assert_null(list_next(&list, &e[0].link));
    list_push_back(&list, &e[1].link);
    assert_list(&list, 3, 2, 0, 1);
}

static void test_safe_loop_allows_removal(void **state)
{
    struct entry e[6];
    struct list list, other;
    int visits = 0;

    (void)state;
    list_init(&list);
    list_init(&other);
    for (int i = 0; i < 6; i++) {
        e[i] = (struct entry){.value = i};
        list_push_back(&list, &e[i].link);
    }
    LIST_FOREACH_SAFE (struct entry, entry, &list, link) {
        visits++;
        if (entry->value == 1)
            continue;
        list_remove(&list, &entry->link);
        list_push_front(&other, &entry->link);
    }
    assert_int_equal(visits, 6);
    assert_list(&list, 1);
    assert_list(&other, 5, 4, 3, 2, 0);
    LIST_FOREACH_SAFE (struct entry, last, &list, link) {
        list_remove(&list, &last->link);
        memset(last, 0xEE, sizeof(*last)); /* as if freed */
    }
    assert_true(list_empty(&list));
}

/* Random operations against an array of values in list order. */
static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    struct entry e[ENTRIES];
    int oracle[ENTRIES + 1];
    size_t count = 0;
    struct list list;

    (void)state;
    list_init(&list);
    for (int i = 0; i < ENTRIES; i++)
        e[i] = (struct entry){.value = i};
    for (int step = 0; step < 50000; step++) {
        int pick = (int)test_random_below(&seed, ENTRIES);
        size_t at = 0;
        struct list_node *node = &e[pick].link;
        while (at < count && oracle[at] != pick)
            at++;
        assert_int_equal(list_node_linked(node), at < count);
        if (at == count) {
            size_t to = test_random_below(&seed, count + 1);
            if (to == count)
                list_push_back(&list, node);
            else if (to == 0)
                list_push_front(&list, node);
            else
                list_insert_before(&list, &e[oracle[to]].link, node);
            memmove(oracle + to + 1, oracle + to, (count - to) * sizeof(*oracle));
            oracle[to] = pick;
            count++;
        } else {
            memmove(oracle + at, oracle + at + 1, (count - at - 1) * sizeof(*oracle));
            if (test_random_below(&seed, 2)) {
                list_move_back(&list, node);
                oracle[count - 1] = pick;
            } else {
                list_remove(&list, node);
                count--;
            }
        }
        oracle[count] = -1;
        assert_holds(&list, oracle);
    }
}

/* Whether a misuse is stopped; in a child, since that is how it ends. */
static bool aborts(void (*misuse)(struct list *list, struct entry *e))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct entry e[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
        struct list list;
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(2);
        signal(SIGABRT, SIG_DFL);
        list_init(&list);
        list_push_back(&list, &e[0].link);
        list_push_back(&list, &e[1].link);
        misuse(&list, e);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void nothing_wrong(struct list *list, struct entry *e)
{
    (void)e;
    list_check(list);
}

static void insert_twice(struct list *list, struct entry *e)
{
    list_push_back(list, &e[0].link);
}

static void remove_stranger(struct list *list, struct entry *e)
{
    list_remove(list, &e[2].link);
}

static void check_wrong_count(struct list *list, struct entry *e)
{
    (void)e;
    list->count = 1;
    list_check(list);
}

static void check_count_too_large(struct list *list, struct entry *e)
{
    (void)e;
    list->count = 3;
    list_check(list);
}

/* Twice around the ring: the walk ends at the head as it should, but has met it before. */
static void check_count_of_two_rounds(struct list *list, struct entry *e)
{
    (void)e;
    list->count = 5;
    list_check(list);
}

static void check_broken_back_link(struct list *list, struct entry *e)
{
    e[1].link.prev = &e[1].link;
    list_check(list);
}

static void check_loop_without_head(struct list *list, struct entry *e)
{
    e[1].link.next = &e[0].link;
    e[0].link.prev = &e[1].link;
    list_check(list);
}

static void test_misuse_aborts(void **state)
{
    (void)state;
    assert_false(aborts(nothing_wrong));
    assert_true(aborts(insert_twice));
    assert_true(aborts(remove_stranger));
    assert_true(aborts(check_wrong_count));
    assert_true(aborts(check_count_too_large));
    assert_true(aborts(check_count_of_two_rounds));
    assert_true(aborts(check_broken_back_link));
    assert_true(aborts(check_loop_without_head));
}

TEST_SUITE(TEST(test_empty_list), TEST(test_order_of_operations),
           TEST(test_safe_loop_allows_removal), TEST(test_equals_oracle), TEST(test_misuse_aborts))
