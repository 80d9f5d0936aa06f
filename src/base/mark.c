/* mark.c: the names of roles and marks. */
#include "base/mark.h"

#include <assert.h>

static const char *const role_names[] = {ROLE_TABLE(TABLE_NAME)};

static const char *const mark_names[] = {MARK_TABLE(TABLE_NAME)};

const char *role_name(enum role role)
{
    return (unsigned)role < ROLE_COUNT ? role_names[role] : "";
}

enum role role_from(struct str name)
{
    if (str_eq(name, STR("developer")))
        return ROLE_SYSTEM;
    for (enum role role = 0; role < ROLE_NONE; role++)
        if (str_eq(name, str_from(role_names[role])))
            return role;
    return ROLE_NONE;
}

const char *mark_name(enum mark_kind kind)
{
    assert((unsigned)kind < MARK_COUNT);
    return mark_names[kind];
}
