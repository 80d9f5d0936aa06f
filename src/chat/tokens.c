/*
 * tokens.c: from text to pieces to tokens. See tokens.h for why pieces are safe, tokens_impl.h
 * for where they end and how they are remembered.
 *
 * One walk over the text, from one control token to the next:
 *
 *      touched by a span of the client   -> stays where it is; the piece is `guarded`
 *      the template's, safe to cut       -> the piece before it is done; the token itself needs no
 *                                        tokenizer
 *      the template's, not safe          -> stays in the piece, where the library will find it
 *
 * A guarded piece is tokenized without looking for control tokens; those that the template wrote
 * into it are taken out first.
 */
#include "chat/tokens.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "chat/pictures.h"
#include "chat/tokens_impl.h"

enum {
    MEMORY_BYTES = 64 << 20,
    TOKENS_MAX = 16 << 20,
};

struct tokens {
    const struct engine *engine;
    const struct engine_facts *facts;
    struct token_controls *controls;
    struct token_controls *specials; /* with the markers */
    struct token_memo *memo;
    size_t tokens_max, text_bytes_max, run_bytes_max, part_bytes, part_specials;
    size_t longest; /* most bytes of text that one token can represent; 0: unknown */
    bool words;     /* pieces are cut between words */
    struct str bos; /* its text; empty: none */
    /* Relaxed: statistics only. */
    atomic_uint_fast64_t hit_tokens, tokenized_tokens, guarded, parts, stopped;
};

/* A token that is not special represents its own bytes. So the longest one bounds what any token
 * can represent, if each byte has a token (otherwise the library drops it, or makes one token of a
 * whole word) and no token strips adjacent white space. */
static size_t longest_token(const struct engine *engine, const struct token_controls *controls)
{
    bool bytes[256] = {false};
    size_t longest = 0, singles = 0;
    char text[8];

    if (!engine_facts(engine)->words || token_controls_strip(controls))
        return 0;
    for (uint32_t token = 0; token < engine_facts(engine)->vocab; token++) {
        size_t len = engine_token_bytes(engine, (int32_t)token, true, text, sizeof(text));
        longest = MAX(longest, len);
        if (len == 1 && !bytes[(unsigned char)text[0]]) {
            bytes[(unsigned char)text[0]] = true;
            singles++;
        }
    }
    return singles == COUNT_OF(bytes) ? longest : 0;
}

size_t tokens_at_least(const struct tokens *tokens, size_t bytes)
{
    return tokens->longest > 0 ? bytes / tokens->longest : 0;
}

static size_t or_default(size_t wanted, size_t usual)
{
    return wanted > 0 ? wanted : usual;
}

static struct tokens *create(const struct tokens_options *options)
{
    struct tokens *tokens = mem_alloc(sizeof(*tokens));

    tokens->engine = options->engine;
    tokens->facts = engine_facts(options->engine);
    tokens->tokens_max = or_default(options->tokens_max, TOKENS_MAX);
    tokens->text_bytes_max = or_default(options->text_bytes_max, TOKENS_TEXT_BYTES);
    tokens->run_bytes_max = or_default(options->run_bytes_max, TOKENS_RUN_BYTES);
    tokens->part_bytes = or_default(options->part_bytes, TOKENS_PART_BYTES);
    tokens->part_specials = or_default(options->part_specials, TOKENS_PART_SPECIALS);
    tokens->memo = token_memo_create(or_default(options->memory_bytes_max, MEMORY_BYTES));
    return tokens;
}

enum err tokens_create(const struct tokens_options *options, struct tokens **out,
                       struct errinfo *info)
{
    struct tokens *tokens = create(options);

    *out = NULL;
    enum err err = token_controls_create(tokens->engine, ENGINE_TOKEN_CONTROL, &tokens->controls);
    if (err == ERR_OK)
        err = token_controls_create(tokens->engine, ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_MARKER,
                                    &tokens->specials);
    if (err != ERR_OK) {
        tokens_destroy(&tokens);
        return err_set(info, err, "no memory for the control tokens of the vocabulary");
    }
    tokens->words = tokens->facts->words && token_controls_spare_words(tokens->controls);
    tokens->longest = longest_token(tokens->engine, tokens->controls);
    for (size_t i = 0; i < token_controls_count(tokens->controls); i++)
        if (token_controls_get(tokens->controls, i)->token == tokens->facts->bos)
            tokens->bos = token_controls_get(tokens->controls, i)->text;
    *out = tokens;
    return ERR_OK;
}

void tokens_destroy(struct tokens **tokens)
{
    if (*tokens == NULL)
        return;
    token_controls_destroy(&(*tokens)->controls);
    token_controls_destroy(&(*tokens)->specials);
    token_memo_destroy(&(*tokens)->memo);
    mem_free(*tokens);
    *tokens = NULL;
}

void token_prompt_fini(struct token_prompt *prompt)
{
    mem_free(prompt->tokens);
    mem_free(prompt->marks);
    *prompt = (struct token_prompt){0};
}

/* ---- one piece ---- */

/* A prompt under construction. */
struct walk {
    struct tokens *tokens;
    const struct tokens_caller *caller;
    const struct chat_text *text;
    struct token_list list;
    struct mark *marks;
    size_t mark_count;
    size_t mark_next;  /* of text->marks */
    size_t span_next;  /* of text->spans: all before it end before the current position */
    size_t span_piece; /* its value where the piece began */
    size_t memo_tokens;
    size_t charged; /* for the whole text */
    bool guarded;
    struct errinfo *info;
};

static const struct tokens_caller no_caller = {0};

static enum err fail_memory(struct walk *walk)
{
    return err_set(walk->info, ERR_NOMEM, "no memory for the tokens of the prompt");
}

static enum err check_limit(struct walk *walk)
{
    return walk->list.count <= walk->tokens->tokens_max
               ? ERR_OK
               : err_set(walk->info, ERR_LIMIT, "the prompt has more than %zu tokens",
                         walk->tokens->tokens_max);
}

static enum err push(struct walk *walk, int32_t token)
{
    if (!token_list_reserve(&walk->list, 1))
        return fail_memory(walk);
    walk->list.ids[walk->list.count++] = token;
    walk->memo_tokens++;
    return check_limit(walk);
}

/* ---- the caller's memory and time limits ---- */

/* Short texts are covered by the account's margin. *charged must be released. */
static enum err charge(struct walk *walk, size_t text_bytes, size_t factor, size_t *charged)
{
    *charged = 0;
    if (walk->caller->charge == NULL || text_bytes <= TOKENS_CHARGE_BYTES)
        return ERR_OK;
    TRY(walk->caller->charge(walk->caller->arg, text_bytes * factor, walk->info));
    *charged = text_bytes * factor;
    return ERR_OK;
}

static void release(struct walk *walk, size_t charged)
{
    if (charged > 0)
        walk->caller->release(walk->caller->arg, charged);
}

static enum err check_stopped(struct walk *walk)
{
    if (walk->caller->stopped == NULL || !walk->caller->stopped(walk->caller->arg))
        return ERR_OK;
    atomic_fetch_add_explicit(&walk->tokens->stopped, 1, memory_order_relaxed);
    return err_set(walk->info, ERR_CANCELLED,
                   "the client disconnected while its text was tokenized");
}

/* ---- parts of a piece ---- */

static enum err ask_part(struct walk *walk, struct str text, unsigned flags,
                         struct token_list *list)
{
    /* A part nearly always has at most one token per byte. A long run has fewer, or is tokenized
     * twice. */
    size_t count = (text.len <= walk->tokens->part_bytes ? text.len : text.len / 2) + 16;
    enum err err = ERR_LIMIT;

    for (int round = 0; round < 2 && err == ERR_LIMIT; round++) {
        if (!token_list_reserve(list, count))
            return fail_memory(walk);
        err = engine_tokenize(walk->tokens->engine, text, flags, list->ids + list->count,
                              list->cap - list->count, &count, walk->info);
    }
    if (err != ERR_OK)
        return err;
    list->count += count;
    atomic_fetch_add_explicit(&walk->tokens->tokenized_tokens, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&walk->tokens->parts, 1, memory_order_relaxed);
    return ERR_OK;
}

/* The bytes of the next part: up to the last cut within reach, else to the first one after it, else
 * all. */
static size_t part_length(const struct tokens *tokens, struct str text)
{
    size_t reach = tokens->part_bytes;

    if (!tokens->words || text.len <= reach)
        return text.len;
    for (size_t at = reach; at > reach / 2; at--)
        if (token_words_end(text, at))
            return at;
    for (size_t at = reach + 1; at < text.len; at++)
        if (token_words_end(text, at))
            return at;
    return text.len;
}

static enum err check_run(struct walk *walk, size_t bytes)
{
    size_t max = walk->tokens->run_bytes_max;

    if (bytes <= max)
        return ERR_OK;
    return err_set(
        walk->info, ERR_LIMIT,
        "the prompt has %zu bytes of text in which the tokenizer finds no end of a word; "
        "the limit is %zu",
        bytes, max);
}

/* Shortens the part that the text begins with so that it has few special tokens. */
static enum err cut_after_specials(struct walk *walk, struct str text, unsigned flags,
                                   struct str *part)
{
    const struct tokens *tokens = walk->tokens;
    const struct token_control *found;
    size_t count = 0, at = 0;

    while ((at = token_controls_find(tokens->specials, *part, at, &found)) != SIZE_MAX) {
        bool parsed = found->marker || (flags & ENGINE_TOKENIZE_CONTROL);
        size_t end = at + found->text.len;
        count += parsed;
        if (count > TOKENS_RUN_SPECIALS)
            return err_set(walk->info, ERR_LIMIT,
                           "the prompt has more than %d control tokens or markers of the model in "
                           "a row",
                           TOKENS_RUN_SPECIALS);
        if (parsed && count >= tokens->part_specials &&
            token_controls_alone(tokens->specials, text, at, found)) {
            part->len = end;
            return ERR_OK;
        }
        at = parsed ? end : at + 1;
    }
    return ERR_OK;
}

/* What the library gets next. A part of the usual size is looked at first: the end of a longer one may
 * be far away. */
static enum err next_part(struct walk *walk, struct str text, unsigned flags, struct str *part)
{
    size_t usual = MIN(text.len, walk->tokens->part_bytes);

    *part = (struct str){text.ptr, usual};
    TRY(cut_after_specials(walk, text, flags, part));
    if (part->len < usual)
        return ERR_OK;
    part->len = part_length(walk->tokens, text);
    TRY(cut_after_specials(walk, text, flags, part));
    return check_run(walk, part->len);
}

static enum err ask_engine(struct walk *walk, struct str text, unsigned flags,
                           struct token_list *list)
{
    while (text.len > 0) {
        struct str part;
        size_t charged;

        TRY(next_part(walk, text, flags, &part));
        TRY(check_stopped(walk));
        TRY(charge(walk, part.len, TOKENS_COST, &charged));
        enum err err = ask_part(walk, part, flags, list);
        release(walk, charged);
        TRY(err);
        text = str_skip(text, part.len);
    }
    return ERR_OK;
}

/* Appends the tokens of a piece that is tokenized as a whole. */
static enum err add_whole(struct walk *walk, struct str text, unsigned flags,
                          struct token_list *list)
{
    struct hash256 key = token_memo_key(walk->caller->tenant, walk->caller->salt, text, flags);
    size_t before = list->count;

    if (text.len == 0)
        return ERR_OK;
    switch (token_memo_get(walk->tokens->memo, &key, list)) {
    case TOKEN_MEMO_NOMEM:
        return fail_memory(walk);
    case TOKEN_MEMO_HIT:
        walk->memo_tokens += list->count - before;
        atomic_fetch_add_explicit(&walk->tokens->hit_tokens, list->count - before,
                                  memory_order_relaxed);
        break;
    case TOKEN_MEMO_MISS:
        TRY(ask_engine(walk, text, flags, list));
        token_memo_put(walk->tokens->memo, &key, list->ids + before, list->count - before);
        break;
    }
    return check_limit(walk);
}

/* ---- spans ---- */

/* Does the client's text touch [begin, end)? Positions must not decrease between calls. */
static bool is_touched(struct walk *walk, size_t begin, size_t end)
{
    const struct chat_text *text = walk->text;

    while (walk->span_next < text->span_count && text->spans[walk->span_next].end <= begin)
        walk->span_next++;
    return walk->span_next < text->span_count && text->spans[walk->span_next].begin < end;
}

/* The next control token in [at, end) that the template wrote; SIZE_MAX if there is none. Sets
 * *guarded if it skipped one that the client wrote. */
static size_t next_trusted(struct walk *walk, size_t at, size_t end, bool *guarded,
                           const struct token_control **found)
{
    struct str text = {walk->text->text.ptr, end};

    for (;; at++) {
        at = token_controls_find(walk->tokens->controls, text, at, found);
        if (at == SIZE_MAX)
            return SIZE_MAX;
        while (*found != NULL && is_touched(walk, at, at + (*found)->text.len)) {
            *guarded = true;
            *found = token_controls_shorter(walk->tokens->controls, *found);
        }
        if (*found != NULL)
            return at;
    }
}

/* A piece that contains control tokens written by the client. */
static enum err add_guarded(struct walk *walk, size_t begin, size_t end)
{
    const char *text = walk->text->text.ptr;
    const struct token_control *found;
    bool ignored;

    walk->guarded = true;
    walk->span_next = walk->span_piece; /* the walk has already reached the end of the piece */
    while (begin < end) {
        size_t at = next_trusted(walk, begin, end, &ignored, &found);
        size_t stop = at == SIZE_MAX ? end : at;
        TRY(add_whole(walk, (struct str){text + begin, stop - begin}, 0, &walk->list));
        if (at == SIZE_MAX)
            break;
        TRY(push(walk, found->token));
        begin = at + found->text.len;
    }
    return ERR_OK;
}

/* ---- marks ---- */

static void keep_mark(struct walk *walk, size_t count)
{
    const struct mark *mark = &walk->text->marks[walk->mark_next++];

    walk->marks[walk->mark_count++] = (struct mark){count, mark->kind, mark->message, mark->role};
}

static bool mark_is_before(const struct walk *walk, size_t offset)
{
    return walk->mark_next < walk->text->mark_count &&
           walk->text->marks[walk->mark_next].at < offset;
}

/* Marks in [begin, end], a token boundary however the text is cut. */
static void keep_marks(struct walk *walk, size_t end)
{
    while (mark_is_before(walk, end + 1))
        keep_mark(walk, walk->list.count);
}

/* The tokens of [begin, end), with control tokens that the client wrote as text. */
static enum err add_text(struct walk *walk, size_t begin, size_t end, bool guarded)
{
    struct str text = {walk->text->text.ptr + begin, end - begin};

    return guarded ? add_guarded(walk, begin, end)
                   : add_whole(walk, text, ENGINE_TOKENIZE_CONTROL, &walk->list);
}

/* How many tokens of the list also result from the text before the mark alone. The tokens from
 * `first` on are the piece at `begin`. */
static enum err count_before(struct walk *walk, size_t begin, size_t first, bool guarded,
                             size_t *out)
{
    size_t offset = walk->text->marks[walk->mark_next].at;
    size_t memo_tokens = walk->memo_tokens, n = 0;
    struct token_list whole = walk->list;

    walk->list = (struct token_list){0};
    enum err err = add_text(walk, begin, offset, guarded);
    struct token_list head = walk->list;
    walk->list = whole;
    walk->memo_tokens = memo_tokens; /* these are not tokens of the prompt */
    while (n < head.count && first + n < whole.count && head.ids[n] == whole.ids[first + n])
        n++;
    mem_free(head.ids);
    *out = first + n;
    return err;
}

/* Is it useful even a few tokens before its place? */
static bool may_move(enum mark_kind kind)
{
    return kind == MARK_SYSTEM_END || kind == MARK_TRANSIENT || kind == MARK_PART ||
           kind == MARK_CUT;
}

/* Each of them costs the tokens of its piece up to there. The others are dropped. */
enum { MOVES_MAX = 8 };

/* Marks inside a piece that was added. */
static enum err pass_marks(struct walk *walk, size_t begin, size_t end, size_t first, bool guarded)
{
    size_t count, moves[MARK_COUNT] = {0};

    while (mark_is_before(walk, end)) {
        enum mark_kind kind = walk->text->marks[walk->mark_next].kind;

        if (!may_move(kind) || moves[kind]++ >= MOVES_MAX) {
            walk->mark_next++;
            continue;
        }
        TRY(count_before(walk, begin, first, guarded, &count));
        keep_mark(walk, count);
    }
    return ERR_OK;
}

/* ---- the walk ---- */

static enum err add_piece(struct walk *walk, size_t begin, size_t end, bool guarded)
{
    size_t first = walk->list.count;

    TRY(add_text(walk, begin, end, guarded));
    return pass_marks(walk, begin, end, first, guarded);
}

static size_t skip_space(struct str text, size_t at)
{
    while (at < text.len && str_is_space(text.ptr[at]))
        at++;
    return at;
}

/* From `begin` to `end`, where the text ends or a picture begins. */
static enum err walk_range(struct walk *walk, size_t begin, size_t end)
{
    struct str text = {walk->text->text.ptr, end};
    const struct token_control *found;
    size_t at = begin;
    bool guarded = false;

    walk->span_piece = walk->span_next;
    for (;;) {
        at = next_trusted(walk, at, end, &guarded, &found);
        if (at == SIZE_MAX)
            return add_piece(walk, begin, end, guarded);
        if (!found->cut) {
            at++; /* one that the client completed may begin inside it */
            continue;
        }
        TRY(add_piece(walk, begin, at, guarded));
        keep_marks(walk, at);
        TRY(push(walk, found->token));
        begin = at = at + found->text.len;
        if (found->strips)
            begin = at = skip_space(text, at);
        keep_marks(walk, at);
        walk->span_piece = walk->span_next;
        guarded = false;
    }
}

/* The next picture at or after `at`; SIZE_MAX if there is none. */
static size_t next_picture(const struct walk *walk, size_t at, const struct chat_picture **found)
{
    const struct chat_text *text = walk->text;

    while (text->picture_count > 0 && at < text->text.len) {
        struct str rest = str_skip(text->text, at);
        size_t skip = str_find(rest, STR(PICTURE_MARKER));
        if (skip == SIZE_MAX)
            break;
        rest = str_skip(rest, skip);
        for (size_t i = 0; i < text->picture_count; i++) {
            *found = &text->pictures[i];
            if (str_starts(rest, (*found)->marker))
                return at + skip;
        }
        at += skip + 1; /* a text that looks like a marker is text */
    }
    return SIZE_MAX;
}

static enum err walk_text(struct walk *walk)
{
    const struct chat_picture *picture;
    size_t at = 0, next;

    keep_marks(walk, 0);
    while ((next = next_picture(walk, at, &picture)) != SIZE_MAX) {
        TRY(walk_range(walk, at, next));
        keep_marks(walk, next);
        for (size_t i = 0; i < picture->count; i++)
            TRY(push(walk, picture->tokens[i]));
        at = next + picture->marker.len;
        keep_marks(walk, at);
    }
    return walk_range(walk, at, walk->text->text.len);
}

/* BOS, where the model wants it and the text, as far as it is the template's, does not begin with
 * it. */
static enum err begin_prompt(struct walk *walk, bool trusted)
{
    const struct tokens *tokens = walk->tokens;

    if (!tokens->facts->add_bos || tokens->facts->bos < 0)
        return ERR_OK;
    if (trusted && tokens->bos.len > 0 && str_starts(walk->text->text, tokens->bos) &&
        !is_touched(walk, 0, tokens->bos.len))
        return ERR_OK;
    return push(walk, tokens->facts->bos);
}

/* What every text begins with. */
static enum err begin_walk(struct walk *walk, struct tokens *tokens,
                           const struct tokens_caller *caller, const struct chat_text *text,
                           struct errinfo *info)
{
    size_t bytes = text->text.len;

    *walk = (struct walk){.tokens = tokens, .text = text, .info = info};
    walk->caller = caller != NULL ? caller : &no_caller;
    if (bytes > tokens->text_bytes_max)
        return err_set(info, ERR_LIMIT, "the prompt has %zu bytes of text; the limit is %zu", bytes,
                       tokens->text_bytes_max);
    return charge(walk, bytes, TOKENS_COPIES, &walk->charged);
}

static enum err finish(struct walk *walk, enum err err, struct token_prompt *out)
{
    release(walk, walk->charged);
    if (err != ERR_OK) {
        mem_free(walk->list.ids);
        mem_free(walk->marks);
        return err;
    }
    *out = (struct token_prompt){walk->list.ids, walk->list.count, walk->marks, walk->mark_count,
                                 walk->memo_tokens};
    atomic_fetch_add_explicit(&walk->tokens->guarded, walk->guarded, memory_order_relaxed);
    return ERR_OK;
}

enum err tokens_from_text(struct tokens *tokens, const struct tokens_caller *caller,
                          const struct chat_text *text, struct token_prompt *out,
                          struct errinfo *info)
{
    struct walk walk;

    *out = (struct token_prompt){0};
    TRY(begin_walk(&walk, tokens, caller, text, info));
    walk.marks = mem_try_alloc_array(text->mark_count, sizeof(*walk.marks));
    enum err err = walk.marks != NULL ? begin_prompt(&walk, true) : fail_memory(&walk);
    if (err == ERR_OK)
        err = walk_text(&walk);
    return finish(&walk, err, out);
}

enum err tokens_from_string(struct tokens *tokens, const struct tokens_caller *caller,
                            struct str text, unsigned flags, struct token_prompt *out,
                            struct errinfo *info)
{
    struct chat_text plain = {.text = text};
    bool trusted = flags & ENGINE_TOKENIZE_CONTROL;
    enum err err = ERR_OK;
    struct walk walk;

    *out = (struct token_prompt){0};
    TRY(begin_walk(&walk, tokens, caller, &plain, info));
    if (flags & ENGINE_TOKENIZE_BOS)
        err = begin_prompt(&walk, trusted);
    if (err == ERR_OK)
        err = trusted ? walk_text(&walk) : add_whole(&walk, text, 0, &walk.list);
    return finish(&walk, err, out);
}

/* No flag of the tokenizer: a digest that is sent as a text has another key. */
enum { NUMBERS = 1u << 30 };

static struct hash256 numbers_key(const struct tokens_caller *caller, const struct hash256 *digest)
{
    struct str text = {(const char *)digest->bytes, HASH256_BYTES};

    return token_memo_key(caller->tenant, caller->salt, text, NUMBERS);
}

bool tokens_get_numbers(struct tokens *tokens, const struct tokens_caller *caller,
                        const struct hash256 *digest, int32_t *out, size_t count)
{
    struct hash256 key = numbers_key(caller, digest);
    struct token_list list = {0};
    bool found = token_memo_get(tokens->memo, &key, &list) == TOKEN_MEMO_HIT && list.count == count;

    if (found)
        memcpy(out, list.ids, count * sizeof(*out));
    mem_free(list.ids);
    return found;
}

void tokens_put_numbers(struct tokens *tokens, const struct tokens_caller *caller,
                        const struct hash256 *digest, const int32_t *numbers, size_t count)
{
    struct hash256 key = numbers_key(caller, digest);

    token_memo_put(tokens->memo, &key, numbers, count);
}

struct tokens_stats tokens_stats(struct tokens *tokens)
{
    struct token_memo_stats memo = token_memo_stats(tokens->memo);

    return (struct tokens_stats){
        .hits = memo.hits,
        .misses = memo.misses,
        .evictions = memo.evictions,
        .hit_tokens = atomic_load_explicit(&tokens->hit_tokens, memory_order_relaxed),
        .tokenized_tokens = atomic_load_explicit(&tokens->tokenized_tokens, memory_order_relaxed),
        .guarded = atomic_load_explicit(&tokens->guarded, memory_order_relaxed),
        .parts = atomic_load_explicit(&tokens->parts, memory_order_relaxed),
        .stopped = atomic_load_explicit(&tokens->stopped, memory_order_relaxed),
        .entries = memo.entries,
        .bytes = memo.bytes,
    };
}

void tokens_forget(struct tokens *tokens)
{
    token_memo_clear(tokens->memo);
}
