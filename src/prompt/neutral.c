/*
 * neutral.c: the rules, one function each, over text. See neutral.h.
 */
#include "prompt/neutral.h"

#include <stdatomic.h>

#include "base/arena.h"
#include "base/mem.h"

struct neutral {
    bool on[NEUTRAL_COUNT];
    atomic_uint_fast64_t counts[NEUTRAL_COUNT]; /* relaxed: numbers for people */
};

static const struct {
    const char *name;
    bool on;
    const char *description;
} rules[] = {
#define X(value, name, on, description) {name, on, description},
    NEUTRAL_TABLE(X)
#undef X
};

struct neutral *neutral_create(void)
{
    struct neutral *neutral = mem_alloc(sizeof(*neutral));

    for (size_t i = 0; i < NEUTRAL_COUNT; i++)
        neutral->on[i] = rules[i].on;
    return neutral;
}

void neutral_destroy(struct neutral **neutral)
{
    mem_free(*neutral);
    *neutral = NULL;
}

enum err neutral_switch(struct neutral *neutral, struct str name, bool on)
{
    for (size_t i = 0; i < NEUTRAL_COUNT; i++)
        if (str_eq(name, str_from(rules[i].name))) {
            neutral->on[i] = on;
            return ERR_OK;
        }
    return ERR_NOT_FOUND;
}

struct neutral_info neutral_info(const struct neutral *neutral, enum neutral_rule rule)
{
    return (struct neutral_info){
        .name = rules[rule].name,
        .description = rules[rule].description,
        .on = neutral->on[rule],
        .count = atomic_load_explicit(&neutral->counts[rule], memory_order_relaxed),
    };
}

enum err neutral_text(struct neutral *neutral, struct arena *arena, struct str text, struct str *out)
{
    (void)neutral;
    (void)arena;
    *out = text;
    return ERR_OK;
}

int64_t neutral_now(struct neutral *neutral, int64_t now_s)
{
    if (!neutral->on[NEUTRAL_TEMPLATE_CLOCK])
        return now_s;
    int64_t within = now_s % 86400;
    return now_s - (within < 0 ? within + 86400 : within);
}
