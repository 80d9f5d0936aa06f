/*
 * symbols.c: the state of one scope: for each name id the slot it means (`ref`) and how that
 * slot is filled on entry (`load`). The rules are in scope.c.
 */
#include "jinja/scope.h"

#include <string.h>

void jinja_scope_fail(struct resolver *resolver, enum err err, uint32_t pos, const char *text,
                      struct str name)
{
    if (resolver->failed)
        return;
    resolver->failed = true;
    resolver->err = jinja_error_at(resolver->error, err, resolver->tmpl->source, pos, "%s" STR_FMT,
                                   text, STR_ARG(name));
}

void *jinja_scope_alloc(struct resolver *resolver, struct arena *arena, size_t size)
{
    void *memory = resolver->failed ? NULL : arena_alloc(arena, size);

    if (memory == NULL)
        jinja_scope_fail(resolver, arena->err ? arena->err : ERR_LIMIT, 0,
                         "the template is too large", STR(""));
    return memory;
}

struct symbols *jinja_symbols_new(struct resolver *resolver, struct symbols *parent,
                                  struct unit *unit)
{
    struct symbols *symbols = jinja_scope_alloc(resolver, &resolver->scratch, sizeof(*symbols));
    struct symbol *names =
        jinja_scope_alloc(resolver, &resolver->scratch, resolver->name_count * sizeof(*names));

    if (names == NULL)
        return NULL;
    *symbols = (struct symbols){parent, unit, parent ? parent->level + 1 : 0, names};
    return symbols;
}

struct symbols *jinja_symbols_copy(struct resolver *resolver, const struct symbols *from)
{
    struct symbols *copy = jinja_symbols_new(resolver, NULL, NULL);

    if (copy == NULL)
        return NULL;
    struct symbol *names = copy->names;
    *copy = *from;
    copy->names = names;
    if (resolver->name_count > 0)
        memcpy(names, from->names, resolver->name_count * sizeof(*names));
    return copy;
}

struct ident *jinja_symbols_find(const struct symbols *symbols, uint32_t id)
{
    for (; symbols != NULL; symbols = symbols->parent)
        if (symbols->names[id].ref != NULL)
            return symbols->names[id].ref;
    return NULL;
}

static void define(struct resolver *resolver, struct symbols *symbols, uint32_t id,
                   enum load_state load, struct ident *from)
{
    struct ident *ident = symbols->unit->idents;

    while (ident != NULL && (ident->id != id || ident->level != symbols->level))
        ident = ident->next;
    if (ident == NULL) {
        ident = jinja_scope_alloc(resolver, &resolver->tmpl->arena, sizeof(*ident));
        if (ident == NULL)
            return;
        *ident = (struct ident){symbols->unit->idents, symbols->unit, symbols->level, id,
                                symbols->unit->function->slot_count++};
        symbols->unit->idents = ident;
    }
    symbols->names[id].ref = ident;
    symbols->names[id].load = (uint8_t)load;
    symbols->names[id].from = from;
}

void jinja_symbols_add_param(struct resolver *resolver, struct symbols *symbols, uint32_t id)
{
    symbols->names[id].stored = true;
    define(resolver, symbols, id, LOAD_PARAM, NULL);
}

void jinja_symbols_add_load(struct resolver *resolver, struct symbols *symbols, uint32_t id)
{
    if (jinja_symbols_find(symbols, id) == NULL)
        define(resolver, symbols, id, LOAD_FROM_VARS, NULL);
}

void jinja_symbols_add_store(struct resolver *resolver, struct symbols *symbols, uint32_t id)
{
    symbols->names[id].stored = true;
    if (symbols->names[id].ref != NULL)
        return;
    struct ident *outer = symbols->parent ? jinja_symbols_find(symbols->parent, id) : NULL;
    define(resolver, symbols, id, outer ? LOAD_FROM_OUTER : LOAD_NOTHING, outer);
}

void jinja_symbols_merge(struct symbols *symbols, size_t name_count, struct symbols *branches[3])
{
    for (size_t id = 0; id < name_count; id++) {
        struct symbol *symbol = &symbols->names[id];
        bool was_stored = symbol->stored;
        int stores = 0;
        for (int i = 0; i < 3; i++) {
            struct symbol *branch = &branches[i]->names[id];
            stores += branch->stored && !was_stored;
            if (branch->ref != NULL && branch->load != LOAD_NOT) {
                symbol->ref = branch->ref;
                symbol->load = branch->load;
                symbol->from = branch->from;
            }
            symbol->stored = symbol->stored || branch->stored;
        }
        if (stores == 0 || stores == 3)
            continue;
        symbol->from = symbols->parent ? jinja_symbols_find(symbols->parent, (uint32_t)id) : NULL;
        symbol->load = symbol->from ? LOAD_FROM_OUTER : LOAD_FROM_VARS;
    }
}
