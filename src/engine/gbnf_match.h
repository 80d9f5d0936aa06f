/*
 * gbnf_match.h: follows a text through a grammar, byte by byte, with bounded work.
 *
 *      base --push--> level 1 --push--> level 2 ...
 *     pop: back to a level     commit: the last level is the new base
 *
 * All readings of the text are followed at once, and readings that expect the same are merged. Work
 * is counted in steps, not in seconds: an account starts full, is charged for each step and
 * credited with a fixed sum at each commit. A grammar that exhausts it, or that has too many
 * readings at once, is an error (keeps I108).
 *
 * OWNER: one thread at a time.
 */
#ifndef HEARTH_ENGINE_GBNF_MATCH_H
#define HEARTH_ENGINE_GBNF_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

enum {
    GBNF_STATES_MAX = 64 * 1024,        /* readings after one character */
    GBNF_STATES_HELD_MAX = 1024 * 1024, /* at all levels, 8 bytes each */
    GBNF_CALLS_MAX = 256 * 1024,        /* that can still return, 12 bytes each */
    GBNF_WORK_MAX = 16 * 1024 * 1024,   /* steps that one token may take: about 160 ms */
    GBNF_WORK_TOKEN = 4 * 1024 * 1024,  /* steps that each token adds to the account */
};

struct gbnf;
struct gbnf_match;

/* `program` must live as long. ERR_NOMEM; ERR_INVALID as gbnf_match_error. */
enum err gbnf_match_create(struct gbnf_match **match, const struct gbnf *program,
                           struct errinfo *info) NODISCARD;
void gbnf_match_destroy(struct gbnf_match **match);

/* Adds one byte. False: the grammar does not allow it, or an error; the level is unchanged. */
bool gbnf_match_push(struct gbnf_match *match, unsigned char byte);

/* The whole text or none of it. */
bool gbnf_match_push_text(struct gbnf_match *match, struct str text);

/* Levels above the base, and back to an earlier one. */
void gbnf_match_pop(struct gbnf_match *match, size_t depth);

/* The text may end here. */
bool gbnf_match_whole(const struct gbnf_match *match);

/* Makes the pushed bytes permanent. Credits the account with one token's worth of steps. */
enum err gbnf_match_commit(struct gbnf_match *match, struct errinfo *info) NODISCARD;

/* A search that may be abandoned: pushes fail when half of the account is spent, or at any other
 * limit. End pops everything and returns whether that happened; the match continues as before. */
void gbnf_match_search(struct gbnf_match *match);
bool gbnf_match_search_end(struct gbnf_match *match);

/* ERR_OK, or why a push failed for a reason other than the text: ERR_INVALID, the grammar is too
 * ambiguous; ERR_NOMEM. Lasts until the match is destroyed. */
enum err gbnf_match_error(const struct gbnf_match *match, struct errinfo *info);

/* Steps taken so far. */
uint64_t gbnf_match_steps(const struct gbnf_match *match);

#endif
