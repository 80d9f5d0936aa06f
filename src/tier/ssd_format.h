/*
 * ssd_format.h: the file format of an object: converts bytes in memory from and to a `struct
 * tier_meta`, without I/O.
 *
 *   0         192                                                    header_bytes = n * 4096
 *   | prefix  | private: space, range, tokens, ... 0 | header digest | payload_bytes          |
 *   |<--------------------------- header --------------------------->|<------- payload ------>|
 *
 * Private part and payload can be sealed (ssd_seal.c); the prefix never is.
 *
 * docs/ssd-format.md has the byte table and the rule for when a file is valid. Reading takes two
 * steps, so that nothing is read or allocated before its size is checked: the prefix (of fixed
 * size) gives the length of the header and the number of tokens; the whole header gives the rest.
 * The payload is compared with the header's digests as it arrives.
 *
 * A header is bound to the key of its installation, to its object key and to its payload. Files
 * that were made elsewhere, renamed, changed or cut get a distinct result from a closed list, never
 * SSD_OK (keeps I102).
 *
 * Threads: a `struct ssd_format` is read-only after init; everything else belongs to the caller.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/seal.h"
#include "tier/tier.h"

/* X(value, name, sentence). A file under one of our names that is NOT_OURS, TRUNCATED, DAMAGED or
 * OTHER_NAME is useless. The others may be valid for another installation or under other settings,
 * and are left alone. */
#define SSD_RESULT_TABLE(X)                                                        \
    X(SSD_OK, "ok", "valid")                                                       \
    X(SSD_NOT_OURS, "not_ours", "not a hearth object")                             \
    X(SSD_UNSUPPORTED, "unsupported", "another version, or features unknown here") \
    X(SSD_TRUNCATED, "truncated", "shorter than its header says")                  \
    X(SSD_DAMAGED, "damaged", "digests or fields are inconsistent")                \
    X(SSD_OTHER_KEY, "other_key", "made by another installation")                  \
    X(SSD_OTHER_NAME, "other_name", "valid, but under the name of another object") \
    X(SSD_OTHER_SPACE, "other_space", "valid, but for another model or tenant")    \
    X(SSD_UNPROTECTED, "unprotected", "lacks the required seal or payload MAC")    \
    X(SSD_TOO_LARGE, "too_large", "larger than the limits allow")

enum ssd_result { SSD_RESULT_TABLE(TABLE_VALUE) SSD_RESULT_COUNT };

const char *ssd_result_name(enum ssd_result result);
const char *ssd_result_sentence(enum ssd_result result);

enum {
    SSD_VERSION = 1,
    SSD_ALIGNMENT = 4096,    /* alignment of the payload in the file, as O_DIRECT requires */
    SSD_TOKENS_MAX = 1 << 28 /* upper bound for the limits: a header of 1 GiB */
};

enum ssd_flag {
    SSD_FLAG_PAYLOAD_MAC = 1 << 0, /* the payload has a keyed BLAKE3 in addition to its XXH3-128 */
    /* private part and payload are encrypted; never combined with the other flag, since tags are
     * MACs */
    SSD_FLAG_SEALED = 1 << 1,
};

/* Field offsets: the byte table of docs/ssd-format.md, for tests and tools that change single
 * fields. */
enum ssd_offset {
    SSD_AT_MAGIC = 0,             /* 8 */
    SSD_AT_VERSION = 8,           /* u32 */
    SSD_AT_FLAGS = 12,            /* u32 */
    SSD_AT_HEADER_BYTES = 16,     /* u32 */
    SSD_AT_TOKENS_COUNT = 20,     /* u32 */
    SSD_AT_SHAPE_BYTES = 24,      /* u32 */
    SSD_AT_SEAL_ALGORITHM = 28,   /* u32 */
    SSD_AT_PAYLOAD_BYTES = 32,    /* u64 */
    SSD_AT_KEY_ID = 40,           /* 16 */
    SSD_AT_SEAL_NONCE = 56,       /* 24 */
    SSD_AT_SEAL_HEADER_TAG = 80,  /* 16 */
    SSD_AT_SEAL_PAYLOAD_TAG = 96, /* 16 */
    SSD_AT_KEY = 112,             /* 32 */
    SSD_AT_PAYLOAD_MAC = 144,     /* 32 */
    SSD_AT_PREFIX_CHECK = 176,    /* 16 */
    SSD_PREFIX_BYTES = 192,
    SSD_AT_SPACE = 192,          /* 32 */
    SSD_AT_PARENT = 224,         /* 32 */
    SSD_AT_KIND = 256,           /* u32 */
    SSD_AT_BEGIN = 260,          /* u32 */
    SSD_AT_END = 264,            /* u32 */
    SSD_AT_RESERVED = 268,       /* 4 */
    SSD_AT_USED_WALL_NS = 272,   /* u64 */
    SSD_AT_PAYLOAD_DIGEST = 280, /* 16 */
    SSD_AT_TOKENS = 296, /* u32 each; then the shape, zeros, and 32 bytes of header digest */
    SSD_HEADER_DIGEST_BYTES = 32
};

/* Anything larger is refused before it is read. */
struct ssd_limits {
    uint32_t tokens_max;      /* <= SSD_TOKENS_MAX */
    uint32_t shape_bytes_max; /* <= TIER_SHAPE_BYTES_MAX */
    uint64_t payload_bytes_max;
};

enum {
    SSD_SEAL_ALGORITHM = 1, /* XChaCha20-Poly1305 */
    SSD_FRAME_BYTES = 1 << 20,
};

/* A larger object would not fit into the sizes of a header. */
#define SSD_SEALED_BYTES_MAX (UINT64_C(1) << 46)

struct ssd_seal {
    struct hash256 private_key, payload_key;
};

/* Limits and keys of one installation. Fields are read-only. */
struct ssd_format {
    struct ssd_limits limits;
    struct hash256 header_key, payload_key;
    uint8_t key_id[16];
    bool payload_mac;
    bool sealed;
    struct ssd_seal seal;
};

/* `key` is the installation's secret; the keys used here are derived from it. With `payload_mac`,
 * objects are written with a payload MAC, and those without one are refused. */
void ssd_format_init(struct ssd_format *format, const struct hash256 *key,
                     const struct ssd_limits *limits, bool payload_mac);

/* Call after init: objects are sealed with `seal_key`, and unsealed ones are refused. All keys
 * are derived again from both, `key` being that of init, so another seal_key is another
 * installation. */
void ssd_format_set_seal(struct ssd_format *format, const struct hash256 *key,
                         const struct hash256 *seal_key);

/* ---- writing ---- */

/* The size of the header for `meta`: a multiple of SSD_ALIGNMENT. ERR_LIMIT beyond the limits;
 * ERR_INVALID when it has no bytes, begin > end or more tokens than `end`. */
enum err ssd_format_measure(const struct ssd_format *format, const struct tier_meta *meta,
                            uint32_t *header_bytes) NODISCARD;

/* Writes exactly that many bytes, or nothing: errors as above, and ERR_LIMIT when `capacity` is
 * smaller. The payload (meta->bytes of it) is read when meta->digest is zero or a MAC is written. A
 * file is exactly the header followed by the payload. With a sealing format the header is complete
 * and sealed only after every frame of the payload and then the header itself have been sealed. */
enum err ssd_format_encode(const struct ssd_format *format, const struct tier_meta *meta,
                           const void *payload, void *out, size_t capacity) NODISCARD;

/* Seals frame `number`, `len` bytes: SSD_FRAME_BYTES except for the last. `out` receives the file's
 * bytes, and may be `in`. */
void ssd_format_seal_frame(const struct ssd_format *format, void *header, uint64_t number,
                           const void *in, void *out, size_t len);
void ssd_format_seal_header(const struct ssd_format *format, void *header);

/* ---- reading ---- */

struct ssd_prefix {
    uint32_t version, flags;
    uint32_t header_bytes, tokens_count, shape_bytes;
    uint64_t payload_bytes;
    struct hash256 key;
    /* token memory that ssd_format_decode needs; more than tokens_count for sealed objects */
    uint32_t words;
};

/* Decodes the first SSD_PREFIX_BYTES (or fewer) of a file of `file_bytes`. SSD_OK: all sizes are
 * within the limits and add up to file_bytes, so header_bytes may be read and `words` allocated;
 * nothing else is proven yet. Only then *prefix is written. */
enum ssd_result ssd_format_decode_prefix(const struct ssd_format *format, const void *data,
                                         size_t len, uint64_t file_bytes,
                                         struct ssd_prefix *prefix) NODISCARD;

/* What the reader expects; NULL accepts any. */
struct ssd_expect {
    uint64_t file_bytes;
    const struct hash256 *key; /* from the file's name */
    const struct hash256 *space;
};

struct ssd_header {
    struct tier_meta meta; /* tokens are in the caller's array */
    uint32_t flags;
    uint32_t header_bytes;      /* where the payload begins */
    struct hash256 payload_mac; /* zero without SSD_FLAG_PAYLOAD_MAC */
    /* the header's bytes, needed to open the payload; NULL when it is not sealed */
    const uint8_t *sealed;
};

/* Decodes the whole header, `len` bytes from the start of the file (excess bytes are ignored);
 * checks the prefix again. `tokens` has room for prefix.words words. SSD_OK: everything but the
 * payload is as it was written under this key. Only then *header is written; the same holds for
 * tokens unless they are sealed. */
enum ssd_result ssd_format_decode(const struct ssd_format *format, const void *data, size_t len,
                                  const struct ssd_expect *expect, struct ssd_header *header,
                                  int32_t *tokens) NODISCARD;

/* Checks a payload in pieces as they arrive. Must not be copied or moved (hash128_state). The bytes
 * of a sealed header must stay valid meanwhile. */
struct ssd_payload {
    const struct ssd_seal *seal;
    /* the header, and the tag of the next frame; NULL when it is not sealed */
    const uint8_t *sealed, *tag;
    uint64_t frame;
    struct hash128_state digest;
    struct hash256_state mac;
    struct hash128 digest_wanted;
    struct hash256 mac_wanted;
    bool has_mac;
    uint64_t bytes_left;
    bool overrun, broken; /* too long, or a frame could not be opened */
};
void ssd_payload_init(struct ssd_payload *payload, const struct ssd_format *format,
                      const struct ssd_header *header);
/* Opens a sealed piece in place; such a piece is one frame. Unsealed pieces stay as they are. To be
 * called before the update. */
void ssd_payload_open(struct ssd_payload *payload, void *data, size_t len);
void ssd_payload_update(struct ssd_payload *payload, const void *data, size_t len);
/* SSD_OK, SSD_TRUNCATED when fewer bytes arrived than the header said, else SSD_DAMAGED. */
enum ssd_result ssd_payload_finish(const struct ssd_payload *payload) NODISCARD;

/* ---- for people ---- */

struct ssd_describe {
    /* NULL: no key; fields are shown but not verified */
    const struct ssd_format *format;
    uint64_t file_bytes;
    uint32_t tokens_shown; /* at most; they reveal prompts */
};

/* Appends one line per field to `out`: all that can be read from the `len` bytes, damaged or not,
 * and the result of decoding them. For people; not to be parsed. Errors are those of `out`. */
enum err ssd_format_describe(const struct ssd_describe *how, const void *header, size_t len,
                             struct buf *out) NODISCARD;

/* ---- ssd_seal.c ---- */

/* Derives both keys from `material`. */
void ssd_seal_init(struct ssd_seal *seal, const void *material, size_t len);

/* The size of the tags of a payload's frames. */
uint64_t ssd_seal_tags_bytes(uint64_t payload_bytes);

/* Writes the algorithm and a fresh random nonce. */
void ssd_seal_draw(uint8_t *header);

/* The private part (with the private key and number 0) or a frame (with the payload key and its
 * number), `len` bytes; `out` may be `in`. The prefix of the header must be complete up to the
 * nonce, and have the object key. */
void ssd_seal_close(const struct hash256 *key, const uint8_t *header, uint64_t number,
                    const void *in, void *out, size_t len, uint8_t tag[SEAL_TAG_BYTES]);
/* False: it was not sealed like this. */
bool ssd_seal_open(const struct hash256 *key, const uint8_t *header, uint64_t number,
                   const void *in, void *out, size_t len,
                   const uint8_t tag[SEAL_TAG_BYTES]) NODISCARD;
