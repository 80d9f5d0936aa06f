/*
 * attr.h: compiler attributes under one name each, and the few macros that every module needs.
 */
#ifndef HEARTH_BASE_ATTR_H
#define HEARTH_BASE_ATTR_H

#define NODISCARD         __attribute__((warn_unused_result))
#define NORETURN          __attribute__((noreturn))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Who guards a field and what a function needs. Clang's analysis understands them only on its own
 * capability types; here they are documentation that a reader can trust because lock_assert_held()
 * stands in the function. */
#define GUARDED_BY(mu)
#define REQUIRES(mu)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The struct that `member` is embedded in. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* sys/param.h, which headers of libraries include, has them as well. */
#undef MIN
#undef MAX
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
