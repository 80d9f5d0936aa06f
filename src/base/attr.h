/* attr.h: compiler attributes, and the few macros that every module needs. */
#pragma once

#define NODISCARD         __attribute__((warn_unused_result))
#define NORETURN          __attribute__((noreturn))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Which lock guards a field, and which locks a function requires. Clang's analysis accepts them
 * only on its own capability types; here they are documentation, which lock_assert_held() in the
 * function enforces. */
#define GUARDED_BY(mu)
#define REQUIRES(mu)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Columns of a table of X(value, name, ...):
 *      enum role { ROLE_TABLE(TABLE_VALUE) ROLE_COUNT };
 *      static const char *const role_names[] = {ROLE_TABLE(TABLE_NAME)}; */
#define TABLE_VALUE(value, ...)      value,
#define TABLE_NAME(value, name, ...) [value] = (name),

/* The struct that `member` is embedded in. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* sys/param.h, included by some library headers, defines them as well. */
#undef MIN
#undef MAX
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
