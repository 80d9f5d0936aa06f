/*
 * shared_format.c: heads, parts and pages. Everything from a server is checked before it is used:
 * the MAC first, then each number.
 */
#include "tier/shared_format.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"

/* ---- layout of a head; all numbers little-endian ---- */
enum {
    AT_VERSION = 8,
    AT_FLAGS = 12,
    AT_KIND = 16,
    AT_BEGIN = 20,
    AT_END = 24,
    AT_SHAPE_BYTES = 28,
    AT_BYTES = 32,
    AT_PART_BYTES = 40,
    AT_USED = 48,
    AT_TOKENS = 56,
    AT_PARTS = 60,
    AT_KEY = 64,
    AT_SPACE = 96,
    AT_PARENT = 128,
    AT_DIGEST = 160,
    AT_ID = 176,
    AT_PRIVATE = 192, /* shape and tokens; then the digests of parts, a tag if sealed, the MAC */
    FLAG_SEALED = 1,
    ENTRY_BYTES = 80,
    PAGE_HEAD_BYTES = 16,
    NOTE_AT_ID = 8,
    NOTE_AT_TAG = NOTE_AT_ID + SHARED_ID_BYTES,
    NOTE_AT_DATA = NOTE_AT_TAG + SEAL_TAG_BYTES,
};

static const char head_magic[] = "HEARTHS1", page_magic[] = "HEARTHP1", note_magic[] = "HEARTHN1";

_Static_assert(AT_ID + SHARED_ID_BYTES == AT_PRIVATE, "layout");
_Static_assert(PAGE_HEAD_BYTES + TIER_PAGE_ENTRIES * ENTRY_BYTES + HASH256_BYTES <=
                   SHARED_PAGE_BYTES_MAX,
               "page");

void shared_format_init(struct shared_format *format, const struct hash256 *key,
                        const struct hash256 *seal_key)
{
    const struct hash256 *material = seal_key != NULL ? seal_key : key;
    size_t len = sizeof(material->bytes);

    format->sealed = seal_key != NULL;
    format->name_key = hash256_derive("hearth 2026-11-16 shared names", key->bytes, len);
    format->mac_key = hash256_derive("hearth 2026-11-16 shared mac", material->bytes, len);
    format->private_key =
        hash256_derive("hearth 2026-11-16 shared seal private", material->bytes, len);
    format->payload_key =
        hash256_derive("hearth 2026-11-16 shared seal payload", material->bytes, len);
}

/* ---- names ---- */

static void name_of(const struct shared_format *format, const char *prefix,
                    const struct hash256 *first, const struct hash256 *second, const char *suffix,
                    char *name, size_t size)
{
    struct hash256_state state;
    char hex[HASH256_HEX_BYTES];

    hash256_init_keyed(&state, &format->name_key);
    hash256_update_u32(&state, format->sealed);
    hash256_update(&state, first->bytes, sizeof(first->bytes));
    if (second != NULL)
        hash256_update(&state, second->bytes, sizeof(second->bytes));
    struct hash256 hash = hash256_final(&state);
    hash256_hex(&hash, hex);
    int len = snprintf(name, size, "%sh%d:%s:%s", prefix, SHARED_VERSION, hex, suffix);
    assert(len > 0 && (size_t)len < size);
}

void shared_head_name(const struct shared_format *format, const char *prefix,
                      const struct hash256 *key, char *name, size_t size)
{
    name_of(format, prefix, key, NULL, "h", name, size);
}

void shared_part_name(const struct shared_format *format, const char *prefix,
                      const struct shared_head *head, uint32_t part, char *name, size_t size)
{
    char suffix[2 * SHARED_ID_BYTES + 16];

    hash_hex(head->id, SHARED_ID_BYTES, suffix);
    snprintf(suffix + 2 * SHARED_ID_BYTES, sizeof(suffix) - 2 * SHARED_ID_BYTES, ":%u", part);
    name_of(format, prefix, &head->meta.key, NULL, suffix, name, size);
}

void shared_page_name(const struct shared_format *format, const char *prefix,
                      const struct hash256 *space, const struct hash256 *place, char *name,
                      size_t size)
{
    name_of(format, prefix, space, place, "d", name, size);
}

void shared_usage_name(const struct shared_format *format, const char *prefix,
                       const struct hash256 *tenant, uint64_t time, char *name, size_t size)
{
    char suffix[32];

    snprintf(suffix, sizeof(suffix), "u:%llu", (unsigned long long)time);
    name_of(format, prefix, tenant, NULL, suffix, name, size);
}

void shared_note_name(const struct shared_format *format, const char *prefix,
                      const struct hash256 *key, char *name, size_t size)
{
    name_of(format, prefix, key, NULL, "n", name, size);
}

/* ---- parts ---- */

void shared_head_init(struct shared_head *head, const struct tier_meta *meta, uint64_t part_bytes)
{
    *head = (struct shared_head){.meta = *meta, .part_bytes = part_bytes};
    head->parts = (uint32_t)((meta->bytes + part_bytes - 1) / part_bytes);
    head->digests = mem_alloc_array(head->parts, sizeof(*head->digests));
    hash_random(head->id, sizeof(head->id));
}

void shared_head_fini(struct shared_head *head)
{
    mem_free(head->digests);
    mem_free(head->tokens);
    head->digests = NULL;
    head->tokens = NULL;
}

bool shared_is_same(const struct tier_meta *a, const struct tier_meta *b)
{
    return a->bytes == b->bytes && a->shape_bytes == b->shape_bytes &&
           memcmp(a->shape, b->shape, a->shape_bytes) == 0;
}

uint64_t shared_part_at(const struct shared_head *head, uint32_t part, uint64_t *bytes)
{
    uint64_t at = part * head->part_bytes;

    assert(part < head->parts && at < head->meta.bytes);
    *bytes = MIN(head->part_bytes, head->meta.bytes - at);
    return at;
}

/* The associated data ties a part to its object and to its place in it. */
static struct seal seal_of(const struct shared_format *format, const struct shared_head *head,
                           uint32_t part)
{
    return (struct seal){.key = &format->payload_key,
                         .drawn = head->id,
                         .number = part,
                         .data = head->meta.key.bytes,
                         .data_len = sizeof(head->meta.key.bytes)};
}

void shared_part_close(const struct shared_format *format, struct shared_head *head, uint32_t part,
                       const void *data, void *out)
{
    uint64_t bytes;

    (void)shared_part_at(head, part, &bytes);
    if (format->sealed) {
        struct seal seal = seal_of(format, head, part);
        seal_close(&seal, data, out, bytes, head->digests[part].bytes);
    } else {
        struct hash128 digest = hash128_of(data, bytes);
        memcpy(head->digests[part].bytes, digest.bytes, sizeof(digest.bytes));
    }
}

bool shared_part_open(const struct shared_format *format, const struct shared_head *head,
                      uint32_t part, void *data)
{
    uint64_t bytes;

    (void)shared_part_at(head, part, &bytes);
    if (format->sealed) {
        struct seal seal = seal_of(format, head, part);
        return seal_open(&seal, data, data, bytes, head->digests[part].bytes);
    }
    struct hash128 digest = hash128_of(data, bytes);
    return memcmp(digest.bytes, head->digests[part].bytes, sizeof(digest.bytes)) == 0;
}

/* ---- heads ---- */

static struct seal private_seal(const struct shared_format *format, const uint8_t *bytes)
{
    return (struct seal){
        .key = &format->private_key, .drawn = bytes + AT_ID, .data = bytes, .data_len = AT_PRIVATE};
}

static void add_mac(const struct shared_format *format, struct buf *out)
{
    struct hash256 mac = hash256_keyed(&format->mac_key, out->data, out->len);

    buf_append(out, mac.bytes, sizeof(mac.bytes));
}

void shared_head_encode(const struct shared_format *format, const struct shared_head *head,
                        struct buf *out)
{
    const struct tier_meta *meta = &head->meta;
    size_t tokens_len = meta->tokens_count * sizeof(int32_t), len = meta->shape_bytes + tokens_len;
    uint8_t *bytes = (uint8_t *)buf_reserve(out, AT_PRIVATE + len), tag[SEAL_TAG_BYTES];

    if (bytes == NULL)
        return;
    memset(bytes, 0, AT_PRIVATE);
    memcpy(bytes, head_magic, AT_VERSION);
    le_put_u32(bytes + AT_VERSION, SHARED_VERSION);
    le_put_u32(bytes + AT_FLAGS, format->sealed ? FLAG_SEALED : 0);
    le_put_u32(bytes + AT_KIND, meta->kind);
    le_put_u32(bytes + AT_BEGIN, meta->begin);
    le_put_u32(bytes + AT_END, meta->end);
    le_put_u32(bytes + AT_SHAPE_BYTES, meta->shape_bytes);
    le_put_u64(bytes + AT_BYTES, meta->bytes);
    le_put_u64(bytes + AT_PART_BYTES, head->part_bytes);
    le_put_u64(bytes + AT_USED, meta->used_wall_ns);
    le_put_u32(bytes + AT_TOKENS, meta->tokens_count);
    le_put_u32(bytes + AT_PARTS, head->parts);
    memcpy(bytes + AT_KEY, meta->key.bytes, HASH256_BYTES);
    memcpy(bytes + AT_SPACE, meta->space.bytes, HASH256_BYTES);
    memcpy(bytes + AT_PARENT, meta->parent.bytes, HASH256_BYTES);
    memcpy(bytes + AT_DIGEST, meta->digest.bytes, HASH128_BYTES);
    memcpy(bytes + AT_ID, head->id, SHARED_ID_BYTES);
    memcpy(bytes + AT_PRIVATE, meta->shape, meta->shape_bytes);
    for (uint32_t i = 0; i < meta->tokens_count; i++)
        le_put_u32(bytes + AT_PRIVATE + meta->shape_bytes + i * sizeof(int32_t),
                   (uint32_t)meta->tokens[i]);
    if (format->sealed) {
        struct seal seal = private_seal(format, bytes);
        seal_close(&seal, bytes + AT_PRIVATE, bytes + AT_PRIVATE, len, tag);
    }
    buf_commit(out, AT_PRIVATE + len);
    if (format->sealed)
        buf_append(out, tag, sizeof(tag));
    buf_append(out, head->digests, head->parts * sizeof(*head->digests));
    add_mac(format, out);
}

static bool check_mac(const struct shared_format *format, const uint8_t *bytes, size_t len)
{
    struct hash256 mac, stored;

    if (len < HASH256_BYTES)
        return false;
    memcpy(stored.bytes, bytes + len - HASH256_BYTES, HASH256_BYTES);
    mac = hash256_keyed(&format->mac_key, bytes, len - HASH256_BYTES);
    return hash256_eq(&mac, &stored);
}

/* The numbers of a head, without what follows them. */
static bool read_numbers(const uint8_t *bytes, struct shared_head *head)
{
    struct tier_meta *meta = &head->meta;

    *meta = (struct tier_meta){
        .kind = le_get_u32(bytes + AT_KIND),
        .begin = le_get_u32(bytes + AT_BEGIN),
        .end = le_get_u32(bytes + AT_END),
        .bytes = le_get_u64(bytes + AT_BYTES),
        .used_wall_ns = le_get_u64(bytes + AT_USED),
        .shape_bytes = le_get_u32(bytes + AT_SHAPE_BYTES),
        .tokens_count = le_get_u32(bytes + AT_TOKENS),
    };
    memcpy(meta->key.bytes, bytes + AT_KEY, HASH256_BYTES);
    memcpy(meta->space.bytes, bytes + AT_SPACE, HASH256_BYTES);
    memcpy(meta->parent.bytes, bytes + AT_PARENT, HASH256_BYTES);
    memcpy(meta->digest.bytes, bytes + AT_DIGEST, HASH128_BYTES);
    memcpy(head->id, bytes + AT_ID, SHARED_ID_BYTES);
    head->part_bytes = le_get_u64(bytes + AT_PART_BYTES);
    head->parts = le_get_u32(bytes + AT_PARTS);
    return meta->shape_bytes <= TIER_SHAPE_BYTES_MAX && meta->tokens_count <= SHARED_TOKENS_MAX &&
           meta->bytes > 0 && head->part_bytes > 0 && head->parts > 0 &&
           head->parts <= SHARED_PARTS_MAX &&
           (meta->bytes - 1) / head->part_bytes + 1 == head->parts;
}

static bool read_private(const struct shared_format *format, const uint8_t *bytes,
                         struct shared_head *head)
{
    struct tier_meta *meta = &head->meta;
    size_t len = meta->shape_bytes + meta->tokens_count * sizeof(int32_t);
    uint8_t *opened = mem_try_alloc(len + 1);

    head->tokens = mem_try_alloc_array(meta->tokens_count + 1, sizeof(*head->tokens));
    bool good = opened != NULL && head->tokens != NULL;
    if (good && format->sealed) {
        struct seal seal = private_seal(format, bytes);
        good = seal_open(&seal, bytes + AT_PRIVATE, opened, len, bytes + AT_PRIVATE + len);
    } else if (good) {
        memcpy(opened, bytes + AT_PRIVATE, len);
    }
    if (good) {
        memcpy(meta->shape, opened, meta->shape_bytes);
        for (uint32_t i = 0; i < meta->tokens_count; i++)
            head->tokens[i] = (int32_t)le_get_u32(opened + meta->shape_bytes + i * sizeof(int32_t));
        meta->tokens = head->tokens;
    }
    mem_free(opened);
    return good;
}

bool shared_head_decode(const struct shared_format *format, const struct hash256 *key,
                        const void *data, size_t len, struct shared_head *head)
{
    const uint8_t *bytes = data;
    size_t tag = format->sealed ? SEAL_TAG_BYTES : 0;

    *head = (struct shared_head){0};
    if (len < AT_PRIVATE + HASH256_BYTES || memcmp(bytes, head_magic, AT_VERSION) != 0 ||
        !check_mac(format, bytes, len) || le_get_u32(bytes + AT_VERSION) != SHARED_VERSION ||
        le_get_u32(bytes + AT_FLAGS) != (format->sealed ? FLAG_SEALED : 0) ||
        !read_numbers(bytes, head) || !hash256_eq(&head->meta.key, key))
        return false;
    size_t private_len = head->meta.shape_bytes + head->meta.tokens_count * sizeof(int32_t);
    size_t digests = head->parts * sizeof(*head->digests);
    if (len != AT_PRIVATE + private_len + tag + digests + HASH256_BYTES)
        return false;
    head->digests = mem_try_alloc_array(head->parts, sizeof(*head->digests));
    if (head->digests == NULL || !read_private(format, bytes, head)) {
        shared_head_fini(head);
        return false;
    }
    memcpy(head->digests, bytes + AT_PRIVATE + private_len + tag, digests);
    return true;
}

/* ---- pages ---- */

/* The MAC covers the place as well: a page cannot stand in for another. */
static struct hash256 page_mac(const struct shared_format *format, const struct hash256 *space,
                               const struct hash256 *place, const void *bytes, size_t len)
{
    struct hash256_state state;

    hash256_init_keyed(&state, &format->mac_key);
    hash256_update(&state, space->bytes, sizeof(space->bytes));
    hash256_update(&state, place->bytes, sizeof(place->bytes));
    hash256_update_framed(&state, bytes, len);
    return hash256_final(&state);
}

void shared_page_encode(const struct shared_format *format, const struct hash256 *space,
                        const struct hash256 *place, const struct tier_page *page, struct buf *out)
{
    uint8_t bytes[PAGE_HEAD_BYTES + TIER_PAGE_ENTRIES * ENTRY_BYTES] = {0}, *at = bytes;

    assert(page->count <= TIER_PAGE_ENTRIES);
    memcpy(at, page_magic, 8);
    le_put_u32(at + 8, SHARED_VERSION);
    le_put_u32(at + 12, page->count);
    at += PAGE_HEAD_BYTES;
    for (uint32_t i = 0; i < page->count; i++, at += ENTRY_BYTES) {
        const struct tier_entry *entry = &page->entries[i];
        le_put_u32(at, entry->kind);
        le_put_u32(at + 4, entry->begin);
        le_put_u32(at + 8, entry->end);
        memcpy(at + 16, entry->key.bytes, HASH256_BYTES);
        memcpy(at + 48, entry->child.bytes, HASH256_BYTES);
    }
    struct hash256 mac = page_mac(format, space, place, bytes, (size_t)(at - bytes));
    buf_append(out, bytes, (size_t)(at - bytes));
    buf_append(out, mac.bytes, sizeof(mac.bytes));
}

bool shared_page_decode(const struct shared_format *format, const struct hash256 *space,
                        const struct hash256 *place, const void *data, size_t len,
                        struct tier_page *page)
{
    const uint8_t *bytes = data;
    struct hash256 stored;

    page->count = 0;
    if (len < PAGE_HEAD_BYTES + HASH256_BYTES || memcmp(bytes, page_magic, 8) != 0)
        return false;
    size_t content = len - HASH256_BYTES;
    struct hash256 mac = page_mac(format, space, place, bytes, content);
    memcpy(stored.bytes, bytes + content, HASH256_BYTES);
    uint32_t count = le_get_u32(bytes + 12);
    if (!hash256_eq(&mac, &stored) || le_get_u32(bytes + 8) != SHARED_VERSION ||
        count > TIER_PAGE_ENTRIES || content != PAGE_HEAD_BYTES + (size_t)count * ENTRY_BYTES)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *at = bytes + PAGE_HEAD_BYTES + (size_t)i * ENTRY_BYTES;
        struct tier_entry *entry = &page->entries[i];
        entry->kind = le_get_u32(at);
        entry->begin = le_get_u32(at + 4);
        entry->end = le_get_u32(at + 8);
        memcpy(entry->key.bytes, at + 16, HASH256_BYTES);
        memcpy(entry->child.bytes, at + 48, HASH256_BYTES);
    }
    page->count = count;
    return true;
}

/* ---- notes: magic, nonce, tag, bytes, MAC ---- */

static struct seal note_seal(const struct shared_format *format, const struct hash256 *key,
                             const uint8_t *bytes)
{
    return (struct seal){.key = &format->private_key,
                         .drawn = bytes + NOTE_AT_ID,
                         .number = UINT64_MAX,
                         .data = key->bytes,
                         .data_len = sizeof(key->bytes)};
}

void shared_note_encode(const struct shared_format *format, const struct hash256 *key,
                        const void *data, size_t len, struct buf *out)
{
    uint8_t *bytes = (uint8_t *)buf_reserve(out, NOTE_AT_DATA + len);

    if (bytes == NULL)
        return;
    memset(bytes, 0, NOTE_AT_DATA);
    memcpy(bytes, note_magic, NOTE_AT_ID);
    hash_random(bytes + NOTE_AT_ID, SHARED_ID_BYTES);
    struct seal seal = note_seal(format, key, bytes);
    if (format->sealed)
        seal_close(&seal, data, bytes + NOTE_AT_DATA, len, bytes + NOTE_AT_TAG);
    else
        memcpy(bytes + NOTE_AT_DATA, data, len);
    buf_commit(out, NOTE_AT_DATA + len);
    struct hash256 mac = page_mac(format, key, key, out->data, out->len);
    buf_append(out, mac.bytes, sizeof(mac.bytes));
}

bool shared_note_decode(const struct shared_format *format, const struct hash256 *key,
                        const void *data, size_t len, struct buf *out)
{
    const uint8_t *bytes = data;
    struct hash256 stored;

    if (len < NOTE_AT_DATA + HASH256_BYTES || memcmp(bytes, note_magic, NOTE_AT_ID) != 0)
        return false;
    size_t content = len - HASH256_BYTES, note = content - NOTE_AT_DATA;
    struct hash256 mac = page_mac(format, key, key, bytes, content);
    memcpy(stored.bytes, bytes + content, HASH256_BYTES);
    char *to = hash256_eq(&mac, &stored) ? buf_reserve(out, note) : NULL;
    if (to == NULL)
        return false;
    struct seal seal = note_seal(format, key, bytes);
    if (format->sealed && !seal_open(&seal, bytes + NOTE_AT_DATA, to, note, bytes + NOTE_AT_TAG))
        return false;
    if (!format->sealed)
        memcpy(to, bytes + NOTE_AT_DATA, note);
    buf_commit(out, note);
    return true;
}

void shared_page_add(struct tier_page *page, const struct tier_entry *entry)
{
    uint32_t at = 0;

    while (at < page->count && !hash256_eq(&page->entries[at].key, &entry->key))
        at++;
    if (at == page->count && at == TIER_PAGE_ENTRIES)
        at = 0;
    if (at < page->count) { /* the newest comes last */
        memmove(&page->entries[at], &page->entries[at + 1],
                (page->count - at - 1) * sizeof(page->entries[0]));
        page->count--;
    }
    page->entries[page->count++] = *entry;
}
