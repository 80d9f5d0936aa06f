/*
 * worker_wire.c: see the header. All numbers are little-endian.
 *
 *      message         0  4  magic "HWK1" (the 1 is the version)
 *                      4  2  kind: CALL, LOAD, REPLY
 *                      6  2  op of a call, or kind of a reply
 *                      8  4  number of the call; 0: a load
 *                     12  4  bytes of the whole message
 *                     16 16  XXH3-128 of the message with these 16 bytes zero
 *                     32  .  body
 *
 *      body of a call      seq 4 | other 4 | length 4 | begin 4 | end 4 | work 1
 *                          segment 8 | offset 8 | bytes 8 | of SET_LORA: LORA_MAX scales * 4
 *                          items 4 | items * ( seq 4 | length 4 | count 4 | logits 4 )
 *      body of a load      the fields of the options in the order of the functions below
 *      body of a reply     err 4 | value 8 | text | has_facts 1 | facts in the order of facts_fields
 *
 *      a text              bytes 4 (UINT32_MAX: NULL) | bytes | 0
 *
 * One struct wire both writes and reads: each field is named once, in a function that is given a
 * direction, so that the two cannot drift apart. A field that does not fit marks the wire as bad,
 * which is checked at the end.
 */
#include "engine/worker_wire.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/le.h"

enum { HEAD_BYTES = 32, HASH_AT = 16, WORK_ALIGN = 4096 };
#define NO_TEXT UINT32_MAX
enum message_kind { MESSAGE_CALL = 1, MESSAGE_LOAD, MESSAGE_REPLY };

static const unsigned char magic[4] = {'H', 'W', 'K', '1'};

static const char *const op_names[] = {WORKER_OP_TABLE(TABLE_NAME)};

struct wire {
    unsigned char *at; /* writing; reading never writes through it */
    size_t left;
    bool reading, bad;
};

const char *worker_op_name(enum worker_op op)
{
    return op >= 0 && op < WORKER_OP_COUNT ? op_names[op] : "unknown";
}

uint64_t worker_work_logits(const struct engine_facts *facts)
{
    uint64_t bytes = ((uint64_t)facts->chunk + facts->sequences) * sizeof(token_id);

    return (bytes + WORK_ALIGN - 1) / WORK_ALIGN * WORK_ALIGN;
}

uint64_t worker_work_vectors(const struct engine_facts *facts)
{
    return worker_work_logits(facts) + (uint64_t)facts->outputs * facts->vocab * sizeof(float);
}

uint64_t worker_work_bytes(const struct engine_facts *facts)
{
    return worker_work_vectors(facts) +
           (uint64_t)facts->sequences * facts->embed.size * sizeof(float);
}

/* ---- fields ---- */

/* The next `len` bytes; NULL when there are fewer, and from then on. */
static unsigned char *next(struct wire *wire, size_t len)
{
    if (wire->bad || len > wire->left) {
        wire->bad = true;
        return NULL;
    }
    unsigned char *at = wire->at;
    wire->at += len;
    wire->left -= len;
    return at;
}

/* A number of `len` bytes, at most `max`. */
static void field_number(struct wire *wire, uint64_t *value, size_t len, uint64_t max)
{
    unsigned char *at = next(wire, len), bytes[8] = {0};

    if (at == NULL)
        return;
    if (wire->reading) {
        memcpy(bytes, at, len);
        *value = le_get_u64(bytes);
    } else {
        le_put_u64(bytes, *value);
        memcpy(at, bytes, len);
    }
    if (*value > max)
        wire->bad = true;
}

static void field_u64(struct wire *wire, uint64_t *value)
{
    field_number(wire, value, 8, UINT64_MAX);
}

static void field_u32(struct wire *wire, uint32_t *value, uint32_t max)
{
    uint64_t wide = *value;

    field_number(wire, &wide, 4, max);
    *value = wire->bad ? 0 : (uint32_t)wide;
}

/* A number of up to 32 bits that is not a uint32_t, such as an enum: writes it and returns it, or
 * returns what was read. */
static uint32_t field_small(struct wire *wire, uint32_t value, uint32_t max)
{
    field_u32(wire, &value, max);
    return value;
}

static void field_bool(struct wire *wire, bool *value)
{
    uint64_t wide = *value;

    field_number(wire, &wide, 1, 1);
    *value = !wire->bad && wide != 0;
}

/* Any signed 32-bit number. */
static void field_i32(struct wire *wire, int32_t *value)
{
    uint64_t wide = (uint32_t)*value;

    field_number(wire, &wide, 4, UINT32_MAX);
    *value = (int32_t)(uint32_t)wide;
}

static void field_seq(struct wire *wire, seq_id *seq)
{
    field_i32(wire, seq);
    if (*seq < SEQ_NONE || *seq >= SEQS_SLOTS_MAX)
        wire->bad = true;
}

static void field_token(struct wire *wire, token_id *token, uint32_t vocab)
{
    field_i32(wire, token);
    if (*token < TOKEN_NONE || *token >= (int64_t)vocab)
        wire->bad = true;
}

static void field_float(struct wire *wire, float *value)
{
    uint32_t bits;

    memcpy(&bits, value, sizeof(bits));
    field_u32(wire, &bits, UINT32_MAX);
    memcpy(value, &bits, sizeof(bits));
    if (!isfinite(*value))
        wire->bad = true;
}

static void read_text(struct wire *wire, const char **text, size_t len)
{
    const unsigned char *at = next(wire, len + 1);

    if (at == NULL || at[len] != '\0' || memchr(at, '\0', len) != NULL)
        wire->bad = true;
    else
        *text = (const char *)at;
}

static void write_text(struct wire *wire, const char *text, size_t len)
{
    unsigned char *at = next(wire, len + 1);

    if (at != NULL)
        memcpy(at, text, len + 1);
}

static void field_text(struct wire *wire, const char **text)
{
    uint32_t len = NO_TEXT;

    if (!wire->reading && *text != NULL)
        len = (uint32_t)strnlen(*text, WORKER_TEXT_BYTES_MAX + 1);
    field_u32(wire, &len, UINT32_MAX);
    if (len == NO_TEXT && !wire->bad) {
        *text = NULL;
        return;
    }
    if (len > WORKER_TEXT_BYTES_MAX)
        wire->bad = true;
    if (wire->bad)
        *text = NULL;
    else if (wire->reading)
        read_text(wire, text, len);
    else
        write_text(wire, *text, len);
}

/* A text in an array. It is not NULL. */
static void field_chars(struct wire *wire, char *chars, size_t size)
{
    const char *text = chars;

    field_text(wire, &text);
    if (text == NULL || strlen(text) >= size)
        wire->bad = true;
    else if (wire->reading)
        memcpy(chars, text, strlen(text) + 1);
}

/* ---- the head ---- */

struct head {
    enum message_kind kind;
    uint32_t op, number;
};

static struct hash128 hash_of(const unsigned char *message, size_t len)
{
    static const unsigned char zero[HEAD_BYTES - HASH_AT];
    struct hash128_state state;

    hash128_init(&state);
    hash128_update(&state, message, HASH_AT);
    hash128_update(&state, zero, sizeof(zero));
    hash128_update(&state, message + HEAD_BYTES, len - HEAD_BYTES);
    return hash128_final(&state);
}

static struct wire begin_writing(unsigned char *out)
{
    return (struct wire){.at = out + HEAD_BYTES, .left = WORKER_MESSAGE_BYTES_MAX - HEAD_BYTES};
}

static size_t end_writing(const struct wire *wire, unsigned char *out, struct head head)
{
    size_t len = WORKER_MESSAGE_BYTES_MAX - wire->left;

    if (wire->bad)
        return 0;
    memcpy(out, magic, sizeof(magic));
    le_put_u32(out + 4, (uint32_t)head.kind | head.op << 16);
    le_put_u32(out + 8, head.number);
    le_put_u32(out + 12, (uint32_t)len);
    struct hash128 hash = hash_of(out, len);
    memcpy(out + HASH_AT, &hash, HEAD_BYTES - HASH_AT);
    return len;
}

/* The body of a message with a valid head. */
static enum err begin_reading(const unsigned char *message, size_t len, struct head *head,
                              struct wire *wire)
{
    if (len < HEAD_BYTES || len > WORKER_MESSAGE_BYTES_MAX ||
        memcmp(message, magic, sizeof(magic)) != 0 || le_get_u32(message + 12) != len)
        return ERR_CORRUPT;
    struct hash128 hash = hash_of(message, len);
    if (memcmp(message + HASH_AT, &hash, HEAD_BYTES - HASH_AT) != 0)
        return ERR_CORRUPT;
    uint32_t kinds = le_get_u32(message + 4);
    *head =
        (struct head){(enum message_kind)(kinds & 0xFFFF), kinds >> 16, le_get_u32(message + 8)};
    /* Reading never writes: the cast lets one struct serve both directions. */
    *wire = (struct wire){
        .at = (unsigned char *)message + HEAD_BYTES, .left = len - HEAD_BYTES, .reading = true};
    return ERR_OK;
}

static enum err end_reading(const struct wire *wire)
{
    return wire->bad || wire->left > 0 ? ERR_CORRUPT : ERR_OK;
}

/* ---- calls ---- */

static void set_fields(struct wire *wire, struct lora_set *set)
{
    for (size_t i = 0; i < LORA_MAX; i++)
        field_float(wire, &set->scale[i]);
}

static void call_fields(struct wire *wire, struct worker_call *call)
{
    field_seq(wire, &call->seq);
    field_seq(wire, &call->other);
    field_u32(wire, &call->length, UINT32_MAX);
    field_u32(wire, &call->begin, UINT32_MAX);
    field_u32(wire, &call->end, UINT32_MAX);
    field_bool(wire, &call->work);
    field_u64(wire, &call->place.segment);
    field_u64(wire, &call->place.offset);
    field_u64(wire, &call->place.bytes);
    if (call->op == WORKER_SET_LORA)
        set_fields(wire, &call->lora);
}

static void item_fields(struct wire *wire, struct worker_item *item)
{
    field_seq(wire, &item->seq);
    field_u32(wire, &item->length, UINT32_MAX);
    field_u32(wire, &item->count, UINT32_MAX);
    field_u32(wire, &item->logits, item->count);
}

size_t worker_call_encode(const struct worker_call *call, unsigned char *out)
{
    struct wire wire = begin_writing(out);
    struct worker_call copy = *call;
    uint32_t count = (uint32_t)call->items_count;

    call_fields(&wire, &copy);
    field_u32(&wire, &count, SEQS_SLOTS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct worker_item item = call->items[i];
        item_fields(&wire, &item);
    }
    return end_writing(&wire, out, (struct head){MESSAGE_CALL, call->op, call->number});
}

enum err worker_call_decode(const unsigned char *message, size_t len, struct worker_call *call,
                            struct worker_item *items)
{
    struct head head;
    struct wire wire;
    uint32_t count = 0;

    TRY(begin_reading(message, len, &head, &wire));
    if (head.kind != MESSAGE_CALL || head.op == WORKER_LOAD || head.op >= WORKER_OP_COUNT)
        return ERR_CORRUPT;
    *call =
        (struct worker_call){.op = (enum worker_op)head.op, .number = head.number, .items = items};
    call_fields(&wire, call);
    field_u32(&wire, &count, SEQS_SLOTS_MAX);
    for (size_t i = 0; i < count && !wire.bad; i++) {
        items[i] = (struct worker_item){0};
        item_fields(&wire, &items[i]);
    }
    call->items_count = count;
    return end_reading(&wire);
}

/* ---- loading ---- */

static void options_fields(struct wire *wire, struct engine_options *options)
{
    field_text(wire, &options->path);
    field_u32(wire, &options->context, UINT32_MAX);
    field_u32(wire, &options->sequences, UINT32_MAX);
    field_u32(wire, &options->chunk, UINT32_MAX);
    field_u32(wire, &options->threads, UINT32_MAX);
    field_u32(wire, &options->threads_prefill, UINT32_MAX);
    options->kv_k = (enum engine_kv)field_small(wire, options->kv_k, ENGINE_KV_COUNT - 1);
    options->kv_v = (enum engine_kv)field_small(wire, options->kv_v, ENGINE_KV_COUNT - 1);
    options->pooling =
        (enum engine_pooling)field_small(wire, options->pooling, ENGINE_POOLING_COUNT - 1);
    field_i32(wire, &options->flash);
    field_i32(wire, &options->gpu_layers);
    field_text(wire, &options->devices);
    field_text(wire, &options->rpc);
    field_bool(wire, &options->streams);
    field_bool(wire, &options->dry);
    field_bool(wire, &options->trial);
    field_bool(wire, &options->sliding_full);
    field_u32(wire, &options->rollback, UINT32_MAX);
    field_float(wire, &options->rope_base);
    field_float(wire, &options->rope_scale);
    options->sharing =
        (enum engine_sharing)field_small(wire, options->sharing, ENGINE_SHARING_BITS);
    field_bool(wire, &options->no_mmap);
    field_bool(wire, &options->no_cache);
    field_bool(wire, &options->stored);
    field_text(wire, &options->state_dir);
    field_text(wire, &options->backends);
    field_u64(wire, &options->memory_max);
    field_text(wire, &options->projector);
    field_u32(wire, &options->picture_tokens_min, UINT32_MAX);
    field_u32(wire, &options->picture_tokens_max, UINT32_MAX);
}

/* The adapters of options are those of the array once read. */
static void adapters_fields(struct wire *wire, struct worker_load *load)
{
    uint32_t count = (uint32_t)MIN(load->options.adapters_count, UINT32_MAX);

    field_u32(wire, &count, LORA_MAX);
    for (uint32_t i = 0; i < count && !wire->bad; i++) {
        struct engine_adapter adapter = {0};
        if (!wire->reading)
            adapter = load->options.adapters[i];
        field_text(wire, &adapter.path);
        field_float(wire, &adapter.scale);
        if (adapter.path == NULL)
            wire->bad = true;
        if (wire->reading)
            load->adapters[i] = adapter;
    }
    if (wire->reading) {
        load->options.adapters = load->adapters;
        load->options.adapters_count = count;
    }
}

static void load_fields(struct wire *wire, struct worker_load *load)
{
    options_fields(wire, &load->options);
    adapters_fields(wire, load);
}

size_t worker_load_encode(const struct engine_options *options, unsigned char *out)
{
    struct wire wire = begin_writing(out);
    struct worker_load load = {.options = *options};

    load_fields(&wire, &load);
    return end_writing(&wire, out, (struct head){MESSAGE_LOAD, WORKER_LOAD, 0});
}

enum err worker_load_decode(const unsigned char *message, size_t len, struct worker_load *load)
{
    struct head head;
    struct wire wire;

    TRY(begin_reading(message, len, &head, &wire));
    if (head.kind != MESSAGE_LOAD || head.op != WORKER_LOAD || head.number != 0)
        return ERR_CORRUPT;
    *load = (struct worker_load){0};
    load_fields(&wire, load);
    return end_reading(&wire);
}

/* ---- replies ---- */

static void group_fields(struct wire *wire, struct engine_layer_group *group)
{
    group->kind = (enum kind)field_small(wire, group->kind, KIND_COUNT - 1);
    field_u32(wire, &group->layers, UINT32_MAX);
}

static void shape_fields(struct wire *wire, struct engine_facts *facts)
{
    field_u32(wire, &facts->kinds, (1u << KIND_COUNT) - 1);
    facts->groups_count = field_small(wire, (uint32_t)facts->groups_count, KIND_COUNT);
    for (size_t i = 0; i < facts->groups_count && !wire->bad; i++)
        group_fields(wire, &facts->groups[i]);
    facts->slicing = (enum engine_slicing)field_small(wire, facts->slicing, ENGINE_SLICING_ROWS);
    facts->fault = (enum engine_fault)field_small(wire, facts->fault, ENGINE_FAULT_COUNT - 1);
    field_u32(wire, &facts->rollback, UINT32_MAX);
    facts->no_rollback = (enum rollback)field_small(wire, facts->no_rollback, ROLLBACK_COUNT - 1);
    field_bool(wire, &facts->windows_cut);
    field_bool(wire, &facts->exact);
    field_u64(wire, &facts->rows_bytes_fixed);
    field_u64(wire, &facts->rows_bytes_per_token);
    field_u64(wire, &facts->snapshot_bytes_max);
    field_u64(wire, &facts->kv_bytes);
    field_u64(wire, &facts->compute_bytes);
    field_u64(wire, &facts->device_bytes);
    field_u64(wire, &facts->device_total);
    field_u32(wire, &facts->tokens_per_s, UINT32_MAX);
}

/* The rest of it belongs to the vocabulary, which the parent has itself. */
static void embed_fields(struct wire *wire, struct engine_embed *embed)
{
    embed->pooling =
        (enum engine_pooling)field_small(wire, embed->pooling, ENGINE_POOLING_COUNT - 1);
    field_u32(wire, &embed->size, WORKER_VECTOR_MAX);
    field_bool(wire, &embed->whole);
    field_bool(wire, &embed->only);
}

static void fingerprint_fields(struct wire *wire, struct hash256 *fingerprint)
{
    unsigned char *at = next(wire, sizeof(fingerprint->bytes));

    if (at == NULL)
        return;
    if (wire->reading)
        memcpy(fingerprint->bytes, at, sizeof(fingerprint->bytes));
    else
        memcpy(at, fingerprint->bytes, sizeof(fingerprint->bytes));
}

static void adapter_fields(struct wire *wire, struct lora_adapter *adapter, uint32_t vocab)
{
    field_chars(wire, adapter->name, sizeof(adapter->name));
    fingerprint_fields(wire, &adapter->digest);
    field_u32(wire, &adapter->invocation_count, LORA_INVOCATION_MAX);
    for (uint32_t i = 0; i < adapter->invocation_count; i++)
        field_token(wire, &adapter->invocation[i], vocab);
}

static void lora_fields(struct wire *wire, struct engine_facts *facts)
{
    field_u32(wire, &facts->lora.count, LORA_MAX);
    for (uint32_t i = 0; i < facts->lora.count && !wire->bad; i++)
        adapter_fields(wire, &facts->lora.list[i], facts->vocab);
    set_fields(wire, &facts->lora.initial);
}

static void facts_fields(struct wire *wire, struct worker_facts *worker)
{
    struct engine_facts *facts = &worker->facts;

    field_text(wire, &facts->name);
    field_text(wire, &facts->architecture);
    field_text(wire, &facts->description);
    field_text(wire, &facts->backend);
    field_u64(wire, &facts->parameters);
    field_u64(wire, &facts->weights_bytes);
    field_u32(wire, &facts->context, UINT32_MAX);
    field_u32(wire, &facts->context_trained, UINT32_MAX);
    field_u32(wire, &facts->sequences, SEQS_SLOTS_MAX);
    field_u32(wire, &facts->chunk, WORKER_CHUNK_MAX);
    field_u32(wire, &facts->outputs, WORKER_CHUNK_MAX);
    field_u32(wire, &facts->vocab, WORKER_VOCAB_MAX);
    field_u32(wire, &facts->layers, UINT32_MAX);
    field_u32(wire, &facts->window, UINT32_MAX);
    shape_fields(wire, facts);
    embed_fields(wire, &facts->embed);
    field_token(wire, &facts->bos, facts->vocab);
    field_token(wire, &facts->eos, facts->vocab);
    field_token(wire, &facts->eot, facts->vocab);
    field_bool(wire, &facts->add_bos);
    field_token(wire, &facts->fim.prefix, facts->vocab);
    field_token(wire, &facts->fim.suffix, facts->vocab);
    field_token(wire, &facts->fim.middle, facts->vocab);
    field_token(wire, &facts->fim.repo, facts->vocab);
    field_token(wire, &facts->fim.file, facts->vocab);
    field_bool(wire, &facts->images);
    field_bool(wire, &facts->mrope);
    fingerprint_fields(wire, &facts->fingerprint);
    lora_fields(wire, facts);
    field_u32(wire, &worker->cells, UINT32_MAX);
    field_bool(wire, &worker->streams);
}

/* Checks what seqs.h asserts before the slots are made from it. */
static bool facts_can_be(const struct worker_facts *worker)
{
    const struct engine_facts *facts = &worker->facts;

    return facts->name != NULL && facts->architecture != NULL && facts->description != NULL &&
           facts->backend != NULL && facts->sequences >= 1 && facts->chunk >= 1 &&
           facts->vocab >= 1 && facts->outputs >= facts->sequences &&
           (!worker->streams || worker->cells <= UINT32_MAX / facts->sequences);
}

static void reply_fields(struct wire *wire, struct worker_reply *reply)
{
    reply->err = (enum err)field_small(wire, reply->err, ERR_COUNT - 1);
    field_u64(wire, &reply->value);
    field_chars(wire, reply->text, sizeof(reply->text));
    field_bool(wire, &reply->has_facts);
    if (!reply->has_facts)
        return;
    facts_fields(wire, &reply->facts);
    if (!facts_can_be(&reply->facts))
        wire->bad = true;
}

size_t worker_reply_encode(const struct worker_reply *reply, unsigned char *out)
{
    struct wire wire = begin_writing(out);
    struct worker_reply copy = *reply;

    reply_fields(&wire, &copy);
    return end_writing(&wire, out, (struct head){MESSAGE_REPLY, reply->kind, reply->number});
}

enum err worker_reply_decode(const unsigned char *message, size_t len, struct worker_reply *reply)
{
    struct head head;
    struct wire wire;

    TRY(begin_reading(message, len, &head, &wire));
    if (head.kind != MESSAGE_REPLY || head.op > WORKER_REPLY)
        return ERR_CORRUPT;
    *reply = (struct worker_reply){.kind = (enum worker_reply_kind)head.op, .number = head.number};
    reply_fields(&wire, reply);
    return end_reading(&wire);
}
