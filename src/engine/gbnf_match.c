/*
 * gbnf_match.c: runs a program with calls at all of its places at once.
 *
 * A state is a place in the program (a GBNF_CHARS or GBNF_TOKEN after a push) and the frame it returns to.
 * All calls of one routine at one position of the text share a frame, which lists every place to
 * return to (a graph-structured stack):
 *
 *      state (pc, frame 7) -> frame 7: return to pc 12 in frame 3, pc 30 in frame 5 -> frame 3: ...
 *
 * So an ambiguous grammar has at most routines times positions frames. A list of whole stacks would
 * need one per reading: 2^n for a rule that ends in two ways. Calls are added to a frame only at
 * the position where it was made. Therefore popping a level is cutting four arrays.
 *
 * A frame that returns at its own position (an empty routine) is marked, because later calls must
 * return at once.
 *
 * Inside a string most characters lead to the same states again. A level remembers which ones do,
 * so that a whole vocabulary can be read quickly.
 *
 * Unreachable frames are collected at a commit, by copying the others.
 */

#include "engine/gbnf.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum {
    BOTTOM = 0, /* the frame of the root rule: returning from it is the end of the text */
    NO_CALL = UINT32_MAX,
    SLOTS_FIRST = 128,
    COLLECT_FIRST = 4096,
    RANGES_PER_STEP = 8,
};

struct state {
    uint32_t pc, frame;
};

struct frame {
    uint32_t calls; /* the last one; NO_CALL = none */
    uint32_t routine;
    bool returned; /* at its own position */
};

struct call {
    uint32_t pc, frame; /* to return to */
    uint32_t next;
};

struct level {
    uint32_t states_begin, states_end, frames, calls; /* counts */
    struct gbnf_char partial;
    bool whole;
    uint32_t origin; /* the first level with these states */
    uint64_t stays
        [2]; /* of an origin: ASCII characters after which the states are known to be the same */
};

struct slot {
    uint32_t stamp, pc, frame;
};

struct gbnf_match {
    const struct gbnf *program;
    struct state *states;
    struct frame *frames;
    struct call *calls;
    struct level *levels;
    size_t states_cap, frames_cap, calls_cap, levels_cap;
    uint32_t states_count, frames_count, calls_count;
    uint32_t top;             /* level */
    uint32_t *frame_of;       /* per routine: its last frame, which may be gone */
    uint32_t position_frames; /* frames older than the position being computed */
    struct slot *slots;       /* of the states of one position, as a set */
    uint32_t slots_count, stamp;
    uint32_t collect_at;
    int64_t account, floor; /* what a search must leave in the account; 0 = no search */
    uint64_t steps;
    enum err err;
};

static struct level *level(const struct gbnf_match *m)
{
    return &m->levels[m->top];
}

/* ---- memory and work ---- */

static bool fails(struct gbnf_match *m, enum err err)
{
    m->err = err == ERR_INVALID && m->floor > 0 ? ERR_LIMIT : err; /* LIMIT: of a search only */
    return false;
}

static bool pays(struct gbnf_match *m, uint32_t steps)
{
    m->account -= steps;
    m->steps += steps;
    return m->account >= m->floor || fails(m, ERR_INVALID);
}

/* Room for one more in an array; `items` points to it. */
static bool has_room(struct gbnf_match *m, void *items, size_t *cap, uint32_t count, uint32_t max,
                     size_t size)
{
    if (count < *cap)
        return true;
    if (count >= max)
        return fails(m, ERR_INVALID);
    return mem_try_reserve(items, (size_t)count + 1, cap, size) || fails(m, ERR_NOMEM);
}

/* ---- the states of one position ---- */

static uint32_t slot_of(const struct gbnf_match *m, struct state state)
{
    uint64_t key = ((uint64_t)state.frame << 32 | state.pc) * 0x9E3779B97F4A7C15u;

    return (uint32_t)(key >> 32) & (m->slots_count - 1);
}

/* A new, empty set. */
static void next_stamp(struct gbnf_match *m)
{
    if (++m->stamp == 0) {
        memset(m->slots, 0, m->slots_count * sizeof(*m->slots));
        m->stamp = 1;
    }
}

/* False when it was already there. */
static bool slot_add(struct gbnf_match *m, struct state state)
{
    uint32_t at = slot_of(m, state);

    for (; m->slots[at].stamp == m->stamp; at = (at + 1) & (m->slots_count - 1))
        if (m->slots[at].pc == state.pc && m->slots[at].frame == state.frame)
            return false;
    m->slots[at] = (struct slot){m->stamp, state.pc, state.frame};
    return true;
}

static bool slots_grow(struct gbnf_match *m, uint32_t begin)
{
    uint32_t count = 2 * m->slots_count;
    struct slot *slots = mem_try_alloc_array(count, sizeof(*slots));

    if (slots == NULL)
        return fails(m, ERR_NOMEM);
    mem_free(m->slots);
    m->slots = slots;
    m->slots_count = count;
    m->stamp = UINT32_MAX;
    next_stamp(m);
    for (uint32_t i = begin; i < m->states_count; i++)
        slot_add(m, m->states[i]);
    return true;
}

static bool add_state(struct gbnf_match *m, uint32_t begin, struct state state)
{
    if (!slot_add(m, state))
        return true;
    if (m->states_count - begin >= GBNF_STATES_MAX)
        return fails(m, ERR_INVALID);
    if (!has_room(m, &m->states, &m->states_cap, m->states_count, GBNF_STATES_HELD_MAX,
                  sizeof(struct state)))
        return false;
    m->states[m->states_count++] = state;
    return m->states_count - begin <= m->slots_count / 2 || slots_grow(m, begin);
}

/* ---- running to the next characters ---- */

static bool run_call(struct gbnf_match *m, uint32_t begin, struct state from,
                     const struct gbnf_op *op)
{
    uint32_t frame = m->frame_of[op->b];
    struct state back = {from.pc + 1, from.frame};

    if (frame < m->position_frames || frame >= m->frames_count ||
        m->frames[frame].routine != op->b) {
        frame = m->frames_count;
        if (!has_room(m, &m->frames, &m->frames_cap, frame, GBNF_CALLS_MAX + 1,
                      sizeof(struct frame)))
            return false;
        m->frames[m->frames_count++] = (struct frame){NO_CALL, op->b, false};
        m->frame_of[op->b] = frame;
    }
    if (!has_room(m, &m->calls, &m->calls_cap, m->calls_count, GBNF_CALLS_MAX, sizeof(struct call)))
        return false;
    m->calls[m->calls_count] = (struct call){back.pc, back.frame, m->frames[frame].calls};
    m->frames[frame].calls = m->calls_count++;
    if (m->frames[frame].returned && !add_state(m, begin, back))
        return false;
    return add_state(m, begin, (struct state){op->a, frame});
}

static bool run_return(struct gbnf_match *m, uint32_t begin, uint32_t frame, bool *whole)
{
    if (frame == BOTTOM) {
        *whole = true;
        return true;
    }
    m->frames[frame].returned |= frame >= m->position_frames;
    for (uint32_t c = m->frames[frame].calls; c != NO_CALL; c = m->calls[c].next)
        if (!pays(m, 1) || !add_state(m, begin, (struct state){m->calls[c].pc, m->calls[c].frame}))
            return false;
    return true;
}

static bool run_state(struct gbnf_match *m, uint32_t begin, struct state state, bool *whole)
{
    const struct gbnf_op *op = &m->program->ops[state.pc];

    switch ((enum gbnf_op_kind)op->kind) {
    case GBNF_CHARS:
    case GBNF_TOKEN:
        return true;
    case GBNF_SPLIT:
        return add_state(m, begin, (struct state){op->a, state.frame}) &&
               add_state(m, begin, (struct state){op->b, state.frame});
    case GBNF_JUMP:
    case GBNF_LAST_CALL:
        return add_state(m, begin, (struct state){op->a, state.frame});
    case GBNF_CALL:
        return run_call(m, begin, state, op);
    case GBNF_RETURN:
        return run_return(m, begin, state.frame, whole);
    }
    return false;
}

/* Runs all states from `begin` on, including new ones, and keeps those that expect something. */
static bool run(struct gbnf_match *m, uint32_t begin, bool *whole)
{
    uint32_t kept = begin;

    *whole = false;
    for (uint32_t i = begin; i < m->states_count; i++)
        if (!pays(m, 1) || !run_state(m, begin, m->states[i], whole))
            return false;
    for (uint32_t i = begin; i < m->states_count; i++) {
        uint8_t kind = m->program->ops[m->states[i].pc].kind;
        if (kind == GBNF_CHARS || kind == GBNF_TOKEN)
            m->states[kept++] = m->states[i];
    }
    m->states_count = kept;
    return true;
}

/* ---- characters ---- */

bool gbnf_char_add(struct gbnf_char *c, unsigned char byte)
{
    if (c->left > 0) {
        c->value = c->value << 6 | (byte & 0x3F);
        c->left--;
        bool whole = c->left == 0;
        return (byte & 0xC0) == 0x80 && (!whole || (c->value >= c->least && c->value <= 0x10FFFF &&
                                                    (c->value < 0xD800 || c->value > 0xDFFF)));
    }
    if (byte < 0x80)
        *c = (struct gbnf_char){.value = byte};
    else if (byte >= 0xC2 && byte < 0xE0)
        *c = (struct gbnf_char){byte & 0x1F, 0x80, 1};
    else if (byte >= 0xE0 && byte < 0xF0)
        *c = (struct gbnf_char){byte & 0x0F, 0x800, 2};
    else if (byte >= 0xF0 && byte < 0xF5)
        *c = (struct gbnf_char){byte & 0x07, 0x10000, 3};
    else
        return false;
    return true;
}

/* Whether one of the characters low to high fits. A negated class excludes them only if one of
 * its ranges covers them all: an extra character may pass here, and is refused at its last byte. */
static bool fits(const struct gbnf *program, const struct gbnf_op *op, uint32_t low, uint32_t high)
{
    const struct gbnf_range *range = &program->ranges[op->a];

    for (uint32_t i = 0; i < op->b; i++, range++)
        if (op->negated ? range->low <= low && range->high >= high
                        : range->low <= high && range->high >= low)
            return !op->negated;
    return op->negated;
}

/* Adds the states after the characters that fit; with a partial character only tests whether
 * there is one. */
static bool advance(struct gbnf_match *m, const struct level *from, const struct gbnf_char *c,
                    bool *any)
{
    uint32_t low = MAX(c->value << 6 * c->left, c->least);
    uint32_t high = c->value << 6 * c->left | ((1u << 6 * c->left) - 1);

    *any = false;
    for (uint32_t i = from->states_begin; i < from->states_end; i++) {
        struct state state = m->states[i];
        const struct gbnf_op *op = &m->program->ops[state.pc];
        if (!pays(m, 1 + op->b / RANGES_PER_STEP))
            return false;
        if (op->kind != GBNF_CHARS || low > high || !fits(m->program, op, low, high))
            continue;
        *any = true;
        if (c->left > 0)
            return true;
        if (!add_state(m, from->states_end, (struct state){state.pc + 1, state.frame}))
            return false;
    }
    return true;
}

static struct level *origin(const struct gbnf_match *m)
{
    return &m->levels[level(m)->origin];
}

/* Frees the states when they equal those of the previous level. */
static bool stays(struct gbnf_match *m, const struct level *from, const struct level *next)
{
    uint32_t count = from->states_end - from->states_begin;

    if (next->whole != from->whole || m->states_count - from->states_end != count ||
        memcmp(m->states + from->states_begin, m->states + from->states_end,
               count * sizeof(struct state)) != 0)
        return false;
    m->states_count = from->states_end;
    m->frames_count = from->frames;
    m->calls_count = from->calls;
    return true;
}

static bool push(struct gbnf_match *m, struct level *next)
{
    const struct level from = *level(m);
    bool any;

    next_stamp(m);
    m->position_frames = m->frames_count;
    if (!advance(m, &from, &next->partial, &any) || !any)
        return false;
    if (next->partial.left > 0) {
        next->states_begin = from.states_begin;
        /* its states mean something else: half a character has been read */
        next->origin = m->top + 1;
        return true;
    }
    if (!run(m, from.states_end, &next->whole))
        return false;
    next->states_begin = from.states_end;
    next->origin = m->top + 1;
    if (from.partial.left > 0 || next->partial.value >= 128 || !stays(m, &from, next))
        return true;
    next->states_begin = from.states_begin;
    next->origin = from.origin;
    origin(m)->stays[next->partial.value / 64] |= (uint64_t)1 << next->partial.value % 64;
    return true;
}

static void cut(struct gbnf_match *m)
{
    m->states_count = level(m)->states_end;
    m->frames_count = level(m)->frames;
    m->calls_count = level(m)->calls;
}

bool gbnf_match_push(struct gbnf_match *m, unsigned char byte)
{
    struct level next = {.partial = level(m)->partial};

    if (m->err != ERR_OK || !gbnf_char_add(&next.partial, byte) ||
        !has_room(m, &m->levels, &m->levels_cap, m->top + 1, UINT32_MAX / 2, sizeof(struct level)))
        return false;
    if (byte < 128 && (origin(m)->stays[byte / 64] >> byte % 64 & 1) != 0) {
        if (!pays(m, 1))
            return false;
        m->top++;
        *level(m) = *(level(m) - 1);
        return true;
    }
    if (!push(m, &next)) {
        cut(m);
        return false;
    }
    next.states_end = m->states_count;
    next.frames = m->frames_count;
    next.calls = m->calls_count;
    m->top++;
    *level(m) = next;
    return true;
}

static bool is_named(const struct gbnf_match *m, struct state state, int32_t token)
{
    const struct gbnf_op *op = &m->program->ops[state.pc];

    return op->kind == GBNF_TOKEN && (op->a == (uint32_t)token) != op->negated;
}

/* Adds a level after those of the token's text: the states after the text, if it was read, and
 * those after the places of level `from` that name the token. */
static bool push_named(struct gbnf_match *m, const struct level *from, int32_t token, bool read)
{
    const struct level text = *level(m);
    uint32_t begin = m->states_count;
    bool named = false;

    if (!has_room(m, &m->levels, &m->levels_cap, m->top + 1, UINT32_MAX / 2, sizeof(struct level)))
        return false;
    next_stamp(m);
    m->position_frames = m->frames_count;
    for (uint32_t i = from->states_begin; i < from->states_end; i++) {
        struct state state = m->states[i];
        if (!pays(m, 1))
            return false;
        if (!is_named(m, state, token))
            continue;
        named = true;
        if (!add_state(m, begin, (struct state){state.pc + 1, state.frame}))
            return false;
    }
    if (!named)
        return read;
    read = read && text.partial.left == 0;
    for (uint32_t i = text.states_begin; read && i < text.states_end; i++)
        if (!pays(m, 1) || !add_state(m, begin, m->states[i]))
            return false;
    struct level next = {.states_begin = begin, .origin = m->top + 1};
    if (!run(m, begin, &next.whole))
        return false;
    next.whole |= read && text.whole;
    next.states_end = m->states_count;
    next.frames = m->frames_count;
    next.calls = m->calls_count;
    m->top++;
    *level(m) = next;
    return true;
}

bool gbnf_match_push_token(struct gbnf_match *m, int32_t token, struct str text)
{
    const struct level from = *level(m);
    uint32_t depth = m->top;
    bool read = gbnf_match_push_text(m, text);

    if (!m->program->tokens || m->err != ERR_OK || from.partial.left > 0)
        return read;
    if (push_named(m, &from, token, read))
        return true;
    gbnf_match_pop(m, depth);
    return false;
}

bool gbnf_match_named(const struct gbnf_match *m, uint32_t *at, int32_t *token, bool *negated)
{
    const struct level *base = &m->levels[0];

    for (; base->partial.left == 0 && *at < base->states_end; ++*at) {
        const struct gbnf_op *op = &m->program->ops[m->states[*at].pc];
        if (op->kind != GBNF_TOKEN)
            continue;
        *token = (int32_t)op->a;
        *negated = op->negated;
        ++*at;
        return true;
    }
    return false;
}

bool gbnf_match_push_text(struct gbnf_match *m, struct str text)
{
    uint32_t depth = m->top;

    for (size_t i = 0; i < text.len; i++) {
        if (!gbnf_match_push(m, (unsigned char)text.ptr[i])) {
            gbnf_match_pop(m, depth);
            return false;
        }
    }
    return true;
}

void gbnf_match_pop(struct gbnf_match *m, size_t depth)
{
    assert(depth <= m->top);
    m->top = (uint32_t)depth;
    cut(m);
}

void gbnf_match_search(struct gbnf_match *m)
{
    assert(m->top == 0 && m->floor == 0);
    m->floor = MAX(m->account / 2, 1);
}

bool gbnf_match_search_end(struct gbnf_match *m)
{
    bool given_up = m->err == ERR_LIMIT;

    if (given_up)
        m->err = ERR_OK;
    m->floor = 0;
    gbnf_match_pop(m, 0);
    return given_up;
}

bool gbnf_match_whole(const struct gbnf_match *m)
{
    return level(m)->whole;
}

/* ---- collecting frames ---- */

/* The copies form the work queue: a copy's calls point into the old arrays until it is
 * processed. */
struct copy {
    struct frame *frames;
    struct call *calls;
    uint32_t *moved; /* per old frame: its copy; BOTTOM = none yet */
    uint32_t frames_count, calls_count;
};

static uint32_t copy_frame(const struct gbnf_match *m, struct copy *to, uint32_t frame)
{
    if (frame == BOTTOM)
        return BOTTOM;
    if (to->moved[frame] == BOTTOM) {
        to->moved[frame] = to->frames_count;
        to->frames[to->frames_count++] = m->frames[frame];
    }
    return to->moved[frame];
}

static void copy_all(struct gbnf_match *m, struct copy *to)
{
    to->frames[to->frames_count++] = m->frames[BOTTOM];
    for (uint32_t i = 0; i < m->states_count; i++)
        m->states[i].frame = copy_frame(m, to, m->states[i].frame);
    for (uint32_t i = BOTTOM + 1; i < to->frames_count; i++) {
        uint32_t last = NO_CALL;
        for (uint32_t c = to->frames[i].calls; c != NO_CALL; c = m->calls[c].next) {
            struct call call = m->calls[c];
            call.frame = copy_frame(m, to, call.frame);
            call.next = last;
            last = to->calls_count;
            to->calls[to->calls_count++] = call;
        }
        to->frames[i].calls = last;
    }
}

static enum err collect(struct gbnf_match *m)
{
    struct copy to = {
        .frames = mem_try_alloc_array(m->frames_cap, sizeof(struct frame)),
        .calls = mem_try_alloc_array(m->calls_cap, sizeof(struct call)),
        .moved = mem_try_alloc_array(m->frames_count, sizeof(uint32_t)),
    };

    if (to.frames == NULL || to.calls == NULL || to.moved == NULL) {
        mem_free(to.frames);
        mem_free(to.calls);
        mem_free(to.moved);
        return ERR_NOMEM;
    }
    memset(to.moved, 0, m->frames_count * sizeof(*to.moved));
    copy_all(m, &to);
    mem_free(to.moved);
    mem_free(m->frames);
    mem_free(m->calls);
    m->frames = to.frames;
    m->calls = to.calls;
    m->frames_count = level(m)->frames = to.frames_count;
    m->calls_count = level(m)->calls = to.calls_count;
    m->collect_at = MIN(MAX(2 * m->calls_count, (uint32_t)COLLECT_FIRST), GBNF_CALLS_MAX / 2);
    return ERR_OK;
}

enum err gbnf_match_commit(struct gbnf_match *m, struct errinfo *info)
{
    struct level last = *level(m);
    uint32_t count = last.states_end - last.states_begin;

    m->account = MIN(m->account + GBNF_WORK_TOKEN, GBNF_WORK_MAX);
    memmove(m->states, m->states + last.states_begin, count * sizeof(struct state));
    m->top = 0;
    last.states_begin = 0;
    last.origin = 0;
    memset(last.stays, 0, sizeof(last.stays));
    m->states_count = last.states_end = count;
    *level(m) = last;
    if (m->err == ERR_OK && m->calls_count > m->collect_at)
        m->err = collect(m);
    return gbnf_match_error(m, info);
}

/* ---- public ---- */

static bool setup(struct gbnf_match *m)
{
    struct level base = {0};

    m->slots_count = SLOTS_FIRST;
    m->slots = mem_try_alloc_array(SLOTS_FIRST, sizeof(*m->slots));
    m->frame_of = mem_try_alloc_array(m->program->routines_count, sizeof(*m->frame_of));
    if (m->slots == NULL || m->frame_of == NULL)
        return fails(m, ERR_NOMEM);
    memset(m->frame_of, 0, m->program->routines_count * sizeof(*m->frame_of));
    m->stamp = UINT32_MAX;
    if (!has_room(m, &m->frames, &m->frames_cap, 0, GBNF_CALLS_MAX, sizeof(struct frame)) ||
        !has_room(m, &m->calls, &m->calls_cap, 0, GBNF_CALLS_MAX, sizeof(struct call)) ||
        !has_room(m, &m->levels, &m->levels_cap, 0, 1, sizeof(struct level)))
        return false;
    next_stamp(m);
    m->frames[m->frames_count++] = (struct frame){NO_CALL, UINT32_MAX, false};
    m->position_frames = m->frames_count;
    if (!add_state(m, 0, (struct state){m->program->entry, BOTTOM}) || !run(m, 0, &base.whole))
        return false;
    base.states_end = m->states_count;
    base.frames = m->frames_count;
    base.calls = m->calls_count;
    *level(m) = base;
    return true;
}

enum err gbnf_match_create(struct gbnf_match **out, const struct gbnf *program,
                           struct errinfo *info)
{
    struct gbnf_match *m = mem_alloc(sizeof(*m));

    *out = NULL;
    m->program = program;
    m->account = GBNF_WORK_MAX;
    m->collect_at = COLLECT_FIRST;
    if (!setup(m)) {
        enum err err = gbnf_match_error(m, info);
        gbnf_match_destroy(&m);
        return err;
    }
    *out = m;
    return ERR_OK;
}

void gbnf_match_destroy(struct gbnf_match **m)
{
    if (*m == NULL)
        return;
    mem_free((*m)->states);
    mem_free((*m)->frames);
    mem_free((*m)->calls);
    mem_free((*m)->levels);
    mem_free((*m)->frame_of);
    mem_free((*m)->slots);
    mem_free(*m);
    *m = NULL;
}

enum err gbnf_match_error(const struct gbnf_match *m, struct errinfo *info)
{
    if (m->err == ERR_NOMEM)
        return err_set(info, ERR_NOMEM, "no memory to follow the grammar");
    if (m->err == ERR_OK)
        return ERR_OK;
    if (m->account < 0)
        return err_set(info, m->err, "the grammar is too ambiguous: a token takes too many steps");
    return err_set(info, m->err,
                   "the grammar is too ambiguous: there are too many ways to continue");
}

uint64_t gbnf_match_steps(const struct gbnf_match *m)
{
    return m->steps;
}
