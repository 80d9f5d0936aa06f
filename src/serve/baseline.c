/*
 * baseline.c: digests of requests, and their comparison.
 *
 *      [ model | system | tools | thinking | other | messages | whole | ... | hash, hash, ... ]
 *                                                                             of 32 tokens each, chained
 *
 * A setting that changes no token of the earlier prompt is no reason: `whole` stands for all tokens,
 * with model and salt.
 * Messages are chained, so that "the earlier ones are unchanged" is one comparison. The tokens are
 * hashed in steps that grow with the prompt, so that an entry has at most 4 KiB; within the last step
 * the lookup knows the exact place (usage_missed).
 */
#include "serve/baseline.h"

#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json_write.h"
#include "base/map.h"
#include "chat/pictures.h"
#include "serve/shelf.h"

enum { STEP_MIN = 32, STEPS_MAX = 512, JSON_BYTES_MAX = 64 * 1024 * 1024 };

struct baseline {
    struct hash128 model, system, tools, thinking, other, messages, whole;
    uint32_t messages_count, compactions, tokens, step, steps;
};

struct shelf *baseline_create(struct clock *clock)
{
    const struct shelf_options options = {
        .count_max = BASELINE_COUNT_MAX,
        .bytes_max = BASELINE_COUNT_MAX * (sizeof(struct baseline) + STEPS_MAX * sizeof(uint64_t)),
        .ttl_s = BASELINE_TTL_S,
        .clock = clock,
        .dir = FILE_NO,
    };

    return shelf_create(&options);
}

/* ---- digests ---- */

static void add(struct hash128_state *state, struct str text)
{
    uint64_t len = text.len;

    hash128_update(state, &len, sizeof(len)); /* so that "ab","c" is not "a","bc" */
    if (text.len > 0)
        hash128_update(state, text.ptr, text.len);
}

static void add_number(struct hash128_state *state, uint64_t number)
{
    hash128_update(state, &number, sizeof(number));
}

/* The next picture in a text; SIZE_MAX: none. */
static size_t next_picture(const struct pictures *pictures, struct str text,
                           const struct request_picture **found)
{
    size_t at = 0, next;

    while (pictures->count > 0 &&
           (next = str_find(str_skip(text, at), STR(PICTURE_MARKER))) != SIZE_MAX) {
        at += next;
        for (size_t i = 0; i < pictures->count; i++) {
            *found = &pictures->list[i];
            if (str_starts(str_skip(text, at), (*found)->marker) && (*found)->picture != NULL)
                return at;
        }
        at++; /* a text that only begins like one */
    }
    return SIZE_MAX;
}

/* A picture counts by its identity: the text that stands for it is another one in another process
 * and for another file with the same pixels. */
static void add_text(struct hash128_state *state, const struct pictures *pictures, struct str text)
{
    const struct request_picture *picture;
    size_t at, count;

    while ((at = next_picture(pictures, text, &picture)) != SIZE_MAX) {
        add(state, (struct str){text.ptr, at});
        const token_id *tokens = picture_tokens(picture->picture, &count);
        add(state, (struct str){(const char *)tokens, count * sizeof(*tokens)});
        at += picture->marker.len;
        text = str_skip(text, at);
    }
    add(state, text);
}

static void add_message(struct hash128_state *state, const struct pictures *pictures,
                        const struct message *message)
{
    add_number(state, (uint64_t)message->role);
    for (size_t i = 0; i < message->parts_count; i++)
        add_text(state, pictures, message->parts[i].text);
    add(state, message->thought);
    for (size_t i = 0; i < message->calls_count; i++) {
        add(state, message->calls[i].name);
        add(state, message->calls[i].arguments);
    }
    add(state, message->call_id);
}

/* Messages from `from` on, `count` at most. */
static struct hash128 messages_digest(const struct gen_request *request, size_t from, size_t count)
{
    const struct conversation *talk = &request->conversation;
    struct hash128_state state;

    hash128_init(&state);
    for (size_t i = from; i < talk->count && i - from < count; i++)
        add_message(&state, &request->pictures, &talk->messages[i]);
    return hash128_final(&state);
}

static size_t leading_system(const struct conversation *talk)
{
    size_t count = 0;

    while (count < talk->count && talk->messages[count].role == ROLE_SYSTEM)
        count++;
    return count;
}

static void add_json(struct hash128_state *state, yyjson_val *value)
{
    struct buf text;
    struct json json = json_to(&text);

    buf_init(&text, JSON_BYTES_MAX);
    if (value != NULL)
        json_value(&json, value);
    add(state, buf_text(&text));
    buf_fini(&text);
}

static struct hash128 tools_digest(const struct conversation *talk)
{
    struct hash128_state state;

    hash128_init(&state);
    for (size_t i = 0; i < talk->tools_shown; i++) {
        add(&state, talk->tools[i].name);
        add(&state, talk->tools[i].description);
        add_json(&state, talk->tools[i].schema);
    }
    return hash128_final(&state);
}

static struct hash128 thinking_digest(const struct gen_request *request)
{
    struct hash128_state state;

    hash128_init(&state);
    add_number(&state, (uint64_t)request->thinking);
    add(&state, request->reasoning_effort);
    return hash128_final(&state);
}

/* What else changes a prompt. */
static struct hash128 other_digest(const struct gen_request *request)
{
    struct hash128_state state;

    hash128_init(&state);
    add_number(&state, request->tool_choice == CONSTRAINT_NONE);
    add(&state, request->cache_salt);
    add_json(&state, request->kwargs);
    return hash128_final(&state);
}

/* The first `count` tokens. */
static struct hash128 whole_digest(const struct gen_request *request,
                                   const struct token_prompt *prompt, const struct hash256 *model,
                                   size_t count)
{
    struct hash128_state state;

    hash128_init(&state);
    hash128_update(&state, model->bytes, sizeof(model->bytes));
    add(&state, request->cache_salt);
    hash128_update(&state, prompt->tokens, count * sizeof(*prompt->tokens));
    return hash128_final(&state);
}

static struct baseline digest(const struct gen_request *request, const struct prepared *prepared,
                              const struct hash256 *model)
{
    const struct conversation *talk = &request->conversation;
    size_t system = leading_system(talk);
    struct baseline baseline;

    memset(&baseline, 0, sizeof(baseline)); /* padding is kept, too */
    baseline.model = hash128_of(model->bytes, sizeof(model->bytes));
    baseline.system = messages_digest(request, 0, system);
    baseline.tools = tools_digest(talk);
    baseline.thinking = thinking_digest(request);
    baseline.other = other_digest(request);
    baseline.messages = messages_digest(request, system, SIZE_MAX);
    baseline.messages_count = (uint32_t)(talk->count - system);
    baseline.compactions = request->compactions;
    baseline.tokens = (uint32_t)prepared->prompt.count;
    baseline.whole = whole_digest(request, &prepared->prompt, model, prepared->prompt.count);
    baseline.step = STEP_MIN;
    while (baseline.tokens / baseline.step > STEPS_MAX)
        baseline.step *= 2;
    baseline.steps = baseline.tokens / baseline.step;
    return baseline;
}

/* The next link of the chain. */
static uint64_t next_hash(uint64_t before, const struct token_prompt *prompt, size_t index,
                          size_t step)
{
    return map_hash(prompt->tokens + index * step, step * sizeof(*prompt->tokens), before);
}

static bool is_compared(const struct gen_request *request)
{
    return !request->embed && request->source != GEN_SOURCE_INFILL;
}

/* ---- keeping ---- */

void baseline_keep(struct shelf *shelf, const char *tenant, const char *id,
                   const struct gen_request *request, const struct prepared *prepared,
                   const struct hash256 *model)
{
    struct baseline baseline;
    struct buf entry;
    uint64_t hash = 0;

    if (!is_compared(request))
        return;
    baseline = digest(request, prepared, model);
    buf_init(&entry, sizeof(baseline) + STEPS_MAX * sizeof(hash));
    buf_append(&entry, &baseline, sizeof(baseline));
    for (size_t i = 0; i < baseline.steps; i++) {
        hash = next_hash(hash, &prepared->prompt, i, baseline.step);
        buf_append(&entry, &hash, sizeof(hash));
    }
    if (entry.err == ERR_OK)
        (void)shelf_put(shelf, tenant, str_from(id), buf_text(&entry)); /* else: not found later */
    buf_fini(&entry);
}

/* ---- comparing ---- */

/* How many tokens of the earlier prompt this one begins with: at least, and at most. */
static void compare_tokens(const struct baseline *earlier, const char *hashes,
                           const struct token_prompt *prompt, struct diagnosis *out)
{
    uint64_t hash = 0, kept;
    uint32_t same = 0;

    while (same < earlier->steps && (size_t)(same + 1) * earlier->step <= prompt->count) {
        memcpy(&kept, hashes + same * sizeof(kept), sizeof(kept));
        hash = next_hash(hash, prompt, same, earlier->step);
        if (hash != kept)
            break;
        same++;
    }
    out->earlier = earlier->tokens;
    out->same_min = same * earlier->step;
    out->same_max = (uint32_t)MIN(MIN((size_t)earlier->tokens, prompt->count),
                                  (size_t)(same + 1) * earlier->step - 1);
}

/* The earlier prompt is the beginning of this one, token by token. */
static bool continues(const struct baseline *earlier, const struct gen_request *request,
                      const struct token_prompt *prompt, const struct hash256 *model)
{
    if (prompt->count < earlier->tokens)
        return false;
    struct hash128 whole = whole_digest(request, prompt, model, earlier->tokens);
    return hash128_eq(&whole, &earlier->whole);
}

static enum diagnosis_kind first_change(const struct baseline *earlier, const struct baseline *now,
                                        const struct gen_request *request)
{
    const struct conversation *talk = &request->conversation;
    const struct {
        const struct hash128 *earlier, *now;
        enum diagnosis_kind kind;
    } parts[] = {
        {&earlier->model, &now->model, DIAGNOSIS_MODEL},
        {&earlier->system, &now->system, DIAGNOSIS_SYSTEM},
        {&earlier->tools, &now->tools, DIAGNOSIS_TOOLS},
        {&earlier->thinking, &now->thinking, DIAGNOSIS_THINKING},
        {&earlier->other, &now->other, DIAGNOSIS_OTHER},
    };

    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (!hash128_eq(parts[i].earlier, parts[i].now))
            return parts[i].kind;
    struct hash128 messages =
        messages_digest(request, leading_system(talk), earlier->messages_count);
    if (request->source == GEN_SOURCE_MESSAGES && now->messages_count >= earlier->messages_count &&
        hash128_eq(&messages, &earlier->messages))
        return DIAGNOSIS_SAME;
    return now->compactions != earlier->compactions ? DIAGNOSIS_COMPACTED : DIAGNOSIS_MESSAGES;
}

/* "msg_ID", "resp_ID", "chatcmpl-ID" */
static struct str plain_id(struct str id)
{
    for (size_t i = id.len; i > 0; i--)
        if (id.ptr[i - 1] == '_' || id.ptr[i - 1] == '-')
            return str_skip(id, i);
    return id;
}

void baseline_compare(struct shelf *shelf, const char *tenant, const struct gen_request *request,
                      const struct prepared *prepared, const struct hash256 *model,
                      struct diagnosis *out)
{
    struct baseline earlier, now;
    struct buf entry;

    *out = (struct diagnosis){.kind = DIAGNOSIS_NONE};
    if (request->compare_id.len == 0 || !is_compared(request))
        return;
    out->kind = DIAGNOSIS_NOT_FOUND;
    buf_init(&entry, sizeof(earlier) + STEPS_MAX * sizeof(uint64_t));
    if (shelf_get(shelf, tenant, plain_id(request->compare_id), &entry)) {
        memcpy(&earlier, entry.data, sizeof(earlier));
        now = digest(request, prepared, model);
        out->kind = continues(&earlier, request, &prepared->prompt, model)
                        ? DIAGNOSIS_SAME
                        : first_change(&earlier, &now, request);
        compare_tokens(&earlier, entry.data + sizeof(earlier), &prepared->prompt, out);
    }
    buf_fini(&entry);
}
