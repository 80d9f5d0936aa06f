/*
 * picture_file.c: headers of picture files, and how much their data is: too little for their pixels,
 * or too much.
 *
 * A file that names 40 million pixels and contains none would cost its sender 54 bytes, and the
 * server half a second. So every format must contain what its header announces.
 *
 * A PNG announces its size, but its compressed data may expand to gigabytes all the same, and the
 * decoder of the library follows it. So the data is read here first, without keeping what it
 * expands to: only the lengths are added up.
 *
 * A JPEG may have any number of scans. The decoder of the library computes all blocks of the picture
 * for each, also when the scan has no data: 14 bytes took a quarter of a second. So scans are
 * counted here first. A code takes at least one bit per block of 8 x 8 pixels, so that 40 million
 * pixels take 80 KB.
 *
 * The codes of a GIF may go on after its last pixel; the decoder follows each of them through up to
 * 4,096 prefixes, and then finds that there is no row left. So their lengths are added up here first.
 *
 * What is counted must be what the decoder (stb_image) reads. Where it accepts more than the formats
 * allow, such files are refused.
 */
#include "engine/picture_file.h"

#include <string.h>

enum {
    SIDE_MAX = 1 << 16,
    /* components of all scans: a file without progression has each component once; cameras and
     * libjpeg write 14 in progressive ones */
    SCANNED_MAX = 4,
    SCANNED_PROGRESSIVE_MAX = 64,
};

static uint32_t be16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t be32(const uint8_t *at)
{
    return be16(at) << 16 | be16(at + 2);
}

static uint32_t le16(const uint8_t *at)
{
    return (uint32_t)at[1] << 8 | at[0];
}

static enum err damaged(struct errinfo *info, const char *format)
{
    return err_set(info, ERR_INVALID, "the %s file is damaged or cut off", format);
}

/* ---- deflate, without its output ---- */

enum { CODE_BITS_MAX = 15, LITERALS = 288, DISTANCES = 30, LENGTH_CODES = 19, FAST_BITS = 9 };

/* The compressed bytes of a PNG, which are in several chunks. */
struct bits {
    const uint8_t *at, *end; /* of the current chunk's data */
    const uint8_t *file_end;
    uint64_t held;
    uint32_t count;
    bool bad; /* read beyond the end */
};

/* Codes of each length, and symbols in the order of their codes; and for codes of at most FAST_BITS
 * what the next bits mean: symbol * 16 + length, 0 = a longer code. */
struct code_table {
    uint16_t count[CODE_BITS_MAX + 1], symbol[LITERALS];
    uint16_t fast[1 << FAST_BITS];
};

/* Moves to the next chunk of compressed data; false: there is none. */
static bool next_data(struct bits *bits)
{
    const uint8_t *at = bits->end + 4; /* after the checksum */

    if (bits->file_end - bits->end < 4 + 8 || memcmp(at + 4, "IDAT", 4) != 0)
        return false;
    uint32_t len = be32(at);
    bits->at = at + 8;
    bits->end = bits->at + MIN(len, (size_t)(bits->file_end - bits->at));
    return true;
}

/* Holds at least 57 bits afterwards, or all that are left. */
static void refill(struct bits *bits)
{
    while (bits->count <= 56) {
        while (bits->at == bits->end)
            if (!next_data(bits))
                return;
        bits->held |= (uint64_t)*bits->at++ << bits->count;
        bits->count += 8;
    }
}

static uint32_t take(struct bits *bits, uint32_t count)
{
    if (bits->count < count)
        refill(bits);
    bits->bad = bits->bad || bits->count < count;
    if (bits->bad)
        return 0;
    uint32_t value = (uint32_t)bits->held & ((1u << count) - 1);
    bits->held >>= count;
    bits->count -= count;
    return value;
}

/* Codes are numbered by length, and by symbol within a length; a file has their bits in reverse. */
static void make_fast(struct code_table *table, const uint8_t *lengths, size_t count)
{
    uint32_t next[CODE_BITS_MAX + 2] = {0};

    memset(table->fast, 0, sizeof(table->fast));
    for (size_t i = 1; i <= CODE_BITS_MAX; i++)
        next[i + 1] = (next[i] + table->count[i]) << 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t len = lengths[i], code = next[len]++, reversed = 0;
        if (len == 0 || len > FAST_BITS)
            continue;
        for (uint32_t bit = 0; bit < len; bit++)
            reversed |= (code >> bit & 1) << (len - 1 - bit);
        for (uint32_t at = reversed & ((1u << FAST_BITS) - 1); at < 1u << FAST_BITS;
             at += 1u << len)
            table->fast[at] = (uint16_t)(i << 4 | len);
    }
}

static void make_table(struct code_table *table, const uint8_t *lengths, size_t count)
{
    uint16_t next[CODE_BITS_MAX + 2] = {0};

    memset(table->count, 0, sizeof(table->count));
    for (size_t i = 0; i < count; i++)
        table->count[lengths[i]]++;
    for (size_t i = 1; i <= CODE_BITS_MAX; i++)
        next[i + 1] = (uint16_t)(next[i] + table->count[i]);
    for (size_t i = 0; i < count; i++)
        if (lengths[i] > 0)
            table->symbol[next[lengths[i]]++] = (uint16_t)i;
    make_fast(table, lengths, count);
}

/* -1: no such code. */
static int decode(struct bits *bits, const struct code_table *table)
{
    int code = 0, first = 0, index = 0;

    if (bits->count < CODE_BITS_MAX)
        refill(bits);
    uint32_t fast = table->fast[bits->held & ((1u << FAST_BITS) - 1)];
    if (fast > 0 && (fast & 15) <= bits->count) {
        bits->held >>= fast & 15;
        bits->count -= fast & 15;
        return (int)(fast >> 4);
    }
    for (size_t len = 1; len <= CODE_BITS_MAX && !bits->bad; len++) {
        code |= (int)take(bits, 1);
        int count = table->count[len];
        if (code - count < first)
            return table->symbol[index + (code - first)];
        index += count;
        first = (first + count) << 1;
        code <<= 1;
    }
    return -1;
}

static bool read_tables(struct bits *bits, struct code_table *literals,
                        struct code_table *distances)
{
    static const uint8_t order[LENGTH_CODES] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                11, 4,  12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[LITERALS + DISTANCES] = {0};
    uint32_t literal_count = take(bits, 5) + 257, distance_count = take(bits, 5) + 1;
    uint32_t code_count = take(bits, 4) + 4, at = 0;
    struct code_table codes;

    /* The decoder would use codes for distances that do not exist, as zlib does not. */
    if (literal_count > LITERALS - 2 || distance_count > DISTANCES)
        return false;
    for (uint32_t i = 0; i < code_count; i++)
        lengths[order[i]] = (uint8_t)take(bits, 3);
    make_table(&codes, lengths, LENGTH_CODES);
    memset(lengths, 0, sizeof(lengths));
    while (at < literal_count + distance_count) {
        int symbol = decode(bits, &codes);
        if (symbol < 0 || (symbol == 16 && at == 0))
            return false;
        uint8_t value = symbol < 16 ? (uint8_t)symbol : symbol == 16 ? lengths[at - 1] : 0;
        uint32_t times = symbol < 16    ? 1
                         : symbol == 16 ? 3 + take(bits, 2)
                         : symbol == 17 ? 3 + take(bits, 3)
                                        : 11 + take(bits, 7);
        if (times > literal_count + distance_count - at)
            return false;
        memset(lengths + at, value, times);
        at += times;
    }
    make_table(literals, lengths, literal_count);
    make_table(distances, lengths + literal_count, distance_count);
    return !bits->bad;
}

static void fixed_tables(struct code_table *literals, struct code_table *distances)
{
    uint8_t lengths[LITERALS];

    memset(lengths, 8, 144);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(lengths + 280, 8, 8);
    make_table(literals, lengths, LITERALS);
    memset(lengths, 5, DISTANCES);
    make_table(distances, lengths, DISTANCES);
}

/* Adds the bytes of a block of codes to *total, until they exceed `max`. */
static bool count_codes(struct bits *bits, const struct code_table *literals,
                        const struct code_table *distances, uint64_t max, uint64_t *total)
{
    while (*total <= max) {
        int symbol = decode(bits, literals);
        if (symbol < 0 || symbol > 285)
            return false;
        if (symbol == 256)
            return true;
        if (symbol < 256) {
            ++*total;
            continue;
        }
        uint32_t code = (uint32_t)symbol - 257, extra = code < 8 || code == 28 ? 0 : code / 4 - 1;
        uint32_t base = code == 28 ? 258 : code < 8 ? 3 + code : ((4 + code % 4) << extra) + 3;
        *total += base + take(bits, extra);
        int distance = decode(bits, distances);
        if (distance < 0)
            return false;
        take(bits, distance < 4 ? 0 : (uint32_t)distance / 2 - 1);
    }
    return true;
}

static bool count_stored(struct bits *bits, uint64_t *total)
{
    take(bits, bits->count % 8); /* bytes begin at a byte */
    uint32_t len = take(bits, 16), check = take(bits, 16);
    if (len != (~check & 0xFFFF))
        return false;
    *total += len;
    for (uint32_t i = 0; i < len && !bits->bad; i++)
        take(bits, 8);
    return !bits->bad;
}

/* The bytes that the data expands to, or more than `max` as soon as that is known. */
static bool count_inflated(struct bits *bits, uint64_t max, uint64_t *total)
{
    bool last = false;

    take(bits, 16); /* the header of zlib */
    for (*total = 0; !last && *total <= max;) {
        struct code_table literals, distances;
        last = take(bits, 1);
        uint32_t type = take(bits, 2);
        if (type == 0) {
            if (!count_stored(bits, total))
                return false;
            continue;
        }
        if (type == 1)
            fixed_tables(&literals, &distances);
        if (type == 3 || (type == 2 && !read_tables(bits, &literals, &distances)) ||
            !count_codes(bits, &literals, &distances, max, total))
            return false;
    }
    return !bits->bad;
}

/* ---- formats ---- */

/* The first chunk of that type; NULL: there is none. */
static const uint8_t *find_chunk(const uint8_t *at, const uint8_t *end, const char *type)
{
    while (end - at >= 12) {
        uint32_t len = be32(at);
        if (memcmp(at + 4, type, 4) == 0)
            return at;
        if (len > (size_t)(end - at) - 12)
            return NULL;
        at += 12 + len;
    }
    return NULL;
}

static uint64_t png_rows(const uint8_t *header, uint64_t width, uint64_t height)
{
    static const uint8_t channels[7] = {1, 0, 3, 1, 2, 0, 4};
    uint64_t row = (width * channels[header[9] % 7] * header[8] + 7) / 8 + 1; /* with its filter */

    return width > 0 ? row * height : 0;
}

/* The bytes that the rows of a PNG have; interlaced ones are those of seven smaller pictures. */
static uint64_t png_bytes(const uint8_t *header, const struct picture_size *size)
{
    static const struct {
        uint8_t x, y, step_x, step_y;
    } passes[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                  {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    uint64_t bytes = 0;

    if (header[12] == 0)
        return png_rows(header, size->width, size->height);
    for (size_t i = 0; i < COUNT_OF(passes); i++)
        bytes +=
            png_rows(header, (size->width - passes[i].x + passes[i].step_x - 1) / passes[i].step_x,
                     (size->height - passes[i].y + passes[i].step_y - 1) / passes[i].step_y);
    return bytes;
}

static enum err png_size(struct str file, struct picture_size *size, struct errinfo *info)
{
    const uint8_t *at = (const uint8_t *)file.ptr;

    if (file.len < 8 + 25 || memcmp(at + 12, "IHDR", 4) != 0)
        return damaged(info, "PNG");
    *size = (struct picture_size){be32(at + 16), be32(at + 20)};
    return ERR_OK;
}

/* The size has been checked. */
static enum err check_png(struct str file, const struct picture_size *size, struct errinfo *info)
{
    const uint8_t *at = (const uint8_t *)file.ptr, *end = at + file.len;
    const uint8_t *data = find_chunk(at + 8, end, "IDAT");
    uint64_t total = 0;

    if (data == NULL)
        return damaged(info, "PNG");
    /* Apple's variant, whose data has no header of zlib. */
    if (find_chunk(at + 8, end, "CgBI") != NULL)
        return err_set(
            info, ERR_UNSUPPORTED,
            "the PNG file is of the variant that Apple's tools make for apps (CgBI); send a "
            "plain PNG file");
    uint64_t bytes = png_bytes(at + 16, size);
    struct bits bits = {.at = data + 8, .file_end = end};
    bits.end = bits.at + MIN(be32(data), (size_t)(end - bits.at));
    if (!count_inflated(&bits, bytes, &total) || total < bytes)
        return damaged(info, "PNG");
    if (total > bytes)
        return err_set(info, ERR_LIMIT, "the data of the PNG file expands to more than its pixels");
    return ERR_OK;
}

/* ---- JPEG ---- */

enum { JPEG_FRAME_PROGRESSIVE = 0xC2, JPEG_END = 0xD9, JPEG_SCAN = 0xDA };

struct segment {
    uint8_t marker;
    const uint8_t *data; /* after its length */
    size_t len;          /* of the data; 0: there is none */
};

/* The segment at *at, which is then the end of it. False: there is no whole one. */
static bool next_segment(const uint8_t **at, const uint8_t *end, struct segment *segment)
{
    const uint8_t *p = *at;

    while (end - p >= 2 && p[0] == 0xFF && p[1] == 0xFF) /* padding */
        p++;
    if (end - p < 2 || p[0] != 0xFF)
        return false;
    *segment = (struct segment){.marker = p[1]};
    p += 2;
    /* Some markers have no data. */
    if ((segment->marker < 0xD0 || segment->marker > JPEG_END) && segment->marker != 0x01) {
        uint32_t len = end - p >= 2 ? be16(p) : 0;
        if (len < 2 || len > (size_t)(end - p))
            return false;
        segment->data = p + 2;
        segment->len = len - 2;
        p += len;
    }
    *at = p;
    return true;
}

/* C0 to CF, but for tables (C4), an extension (C8) and arithmetic codes (CC). */
static bool is_frame(const struct segment *segment)
{
    uint8_t marker = segment->marker;

    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/* The frame; *at is then after it. */
static enum err find_frame(struct str file, const uint8_t **at, struct segment *frame,
                           struct errinfo *info)
{
    const uint8_t *end = (const uint8_t *)file.ptr + file.len;

    *at = (const uint8_t *)file.ptr + 2;
    while (next_segment(at, end, frame) && frame->marker != JPEG_END)
        if (is_frame(frame) && frame->len >= 5)
            return ERR_OK;
    return damaged(info, "JPEG");
}

static enum err jpeg_size(struct str file, struct picture_size *size, struct errinfo *info)
{
    struct segment frame;
    const uint8_t *at;

    TRY(find_frame(file, &at, &frame, info));
    *size = (struct picture_size){be16(frame.data + 3), be16(frame.data + 1)};
    return ERR_OK;
}

/* Where the data of a scan ends: at a marker other than those that restart it. A byte of 255 in the
 * data is followed by a zero; the decoder also takes several of them for one. */
static const uint8_t *skip_codes(const uint8_t *at, const uint8_t *end)
{
    for (; at < end; at++) {
        const uint8_t *marker = at;
        while (marker < end && *marker == 0xFF)
            marker++;
        if (marker == end)
            return end;
        if (marker > at && *marker != 0 && (*marker < 0xD0 || *marker > 0xD7))
            return at;
        at = marker;
    }
    return end;
}

/* The blocks of 8 x 8 values of all components, of which some have fewer in a row or a column. */
static uint64_t count_blocks(const struct segment *frame, const struct picture_size *size)
{
    uint32_t count = frame->len >= 6 ? MIN(frame->data[5], (frame->len - 6) / 3) : 0;
    uint32_t across = 1, down = 1;
    uint64_t blocks = 0;

    for (uint32_t i = 0; i < count; i++) {
        across = MAX(across, frame->data[7 + 3 * i] >> 4);
        down = MAX(down, frame->data[7 + 3 * i] & 15);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t h = frame->data[7 + 3 * i] >> 4, v = frame->data[7 + 3 * i] & 15;
        blocks +=
            (uint64_t)size->width * h / (8 * across) * ((uint64_t)size->height * v / (8 * down));
    }
    return blocks;
}

/* What follows is no picture where it is not made of segments: the decoder notices. */
static enum err check_jpeg(struct str file, const struct picture_size *size, struct errinfo *info)
{
    const uint8_t *at, *end = (const uint8_t *)file.ptr + file.len;
    uint64_t data_bits = 0, blocks;
    uint32_t scanned = 0;
    struct segment segment;

    TRY(find_frame(file, &at, &segment, info));
    blocks = count_blocks(&segment, size);
    uint32_t max = segment.marker == JPEG_FRAME_PROGRESSIVE ? SCANNED_PROGRESSIVE_MAX : SCANNED_MAX;
    while (next_segment(&at, end, &segment) && segment.marker != JPEG_END) {
        if (segment.marker != JPEG_SCAN)
            continue;
        scanned += segment.len > 0 ? segment.data[0] : 0;
        if (scanned > max)
            return err_set(info, ERR_LIMIT, "the JPEG file has too many scans");
        const uint8_t *begin = at;
        at = skip_codes(at, end);
        data_bits += 8 * (uint64_t)(at - begin);
    }
    return data_bits >= blocks ? ERR_OK : damaged(info, "JPEG");
}

/* ---- BMP ---- */

static enum err bmp_size(struct str file, struct picture_size *size, struct errinfo *info)
{
    const uint8_t *at = (const uint8_t *)file.ptr;

    if (file.len < 26)
        return damaged(info, "BMP");
    int32_t width = (int32_t)(le16(at + 18) | le16(at + 20) << 16);
    int32_t height = (int32_t)(le16(at + 22) | le16(at + 24) << 16);
    if (le16(at + 14) == 12) { /* the oldest header */
        width = (int32_t)le16(at + 18);
        height = (int32_t)le16(at + 20);
    }
    if (width <= 0 || height == 0 || height == INT32_MIN)
        return damaged(info, "BMP");
    *size = (struct picture_size){(uint32_t)width, (uint32_t)(height < 0 ? -height : height)};
    return ERR_OK;
}

/* The size has been checked. Rows are filled up to four bytes. */
static enum err check_bmp(struct str file, const struct picture_size *size, struct errinfo *info)
{
    const uint8_t *at = (const uint8_t *)file.ptr;
    bool oldest = le16(at + 14) == 12;

    if (!oldest && file.len < 54)
        return damaged(info, "BMP");
    uint32_t bits = le16(at + (oldest ? 24 : 28)), compression = oldest ? 0 : le16(at + 30);
    uint64_t offset = le16(at + 10) | (uint64_t)le16(at + 12) << 16;
    if (compression != 0 && compression != 3) /* 3: masks say where the colours are */
        return err_set(info, ERR_UNSUPPORTED,
                       "the BMP file is compressed; send an uncompressed one, or PNG or JPEG");
    uint64_t bytes = ((uint64_t)size->width * bits + 31) / 32 * 4 * size->height;
    if (bits == 0 || offset > file.len || bytes > file.len - offset)
        return damaged(info, "BMP");
    return ERR_OK;
}

/* ---- GIF ---- */

enum {
    GIF_CODES = 4096,
    GIF_CODE_BITS = 12,
    GIF_FRAME = 0x2C,
    GIF_EXTENSION = 0x21,
    GIF_CONTROL = 0xF9,
};

/* The data of a GIF, in blocks of at most 255 bytes. */
struct gif_data {
    const uint8_t *at, *end; /* of the file */
    uint32_t left;           /* of the block */
    uint32_t held, count;    /* bits */
};

/* The next code; -1: the data ends. */
static int gif_code(struct gif_data *data, uint32_t bits)
{
    while (data->count < bits) {
        if (data->left == 0) {
            if (data->at == data->end || *data->at == 0)
                return -1;
            data->left = *data->at++;
        }
        if (data->at == data->end)
            return -1;
        data->held |= (uint32_t)*data->at++ << data->count;
        data->count += 8;
        data->left--;
    }
    uint32_t code = data->held & ((1u << bits) - 1);
    data->held >>= bits;
    data->count -= bits;
    return (int)code;
}

/* The pixels that the codes stand for, until they exceed `max`. A code is one of the colours, or an
 * earlier code and one pixel more. False: there is no such code. */
static bool gif_pixels(struct gif_data *data, uint32_t color_bits, uint64_t max, uint64_t *total)
{
    int clear = 1 << color_bits, next = clear + 2, last = -1, code;
    uint32_t bits = color_bits + 1, lengths[GIF_CODES];

    for (int i = 0; i < clear; i++)
        lengths[i] = 1;
    for (*total = 0; *total <= max && (code = gif_code(data, bits)) != -1 && code != clear + 1;) {
        if (code == clear) {
            bits = color_bits + 1;
            next = clear + 2;
            last = -1;
            continue;
        }
        if (code > next || (code == next && last < 0))
            return false;
        if (last >= 0 && next < GIF_CODES)
            lengths[next] = lengths[last] + 1;
        if (last >= 0)
            next = MIN(next + 1, GIF_CODES);
        *total += lengths[code];
        if (next == 1 << bits && bits < GIF_CODE_BITS)
            bits++;
        last = code;
    }
    return true;
}

/* Moves to after the header of the first frame. False: there is none. */
static bool gif_find_frame(struct str file, const uint8_t **at, struct picture_size *frame)
{
    const uint8_t *p = (const uint8_t *)file.ptr, *end = p + file.len;
    uint32_t colors = p[10] & 0x80 ? 3u << ((p[10] & 7) + 1) : 0;

    for (p += 13 + MIN((size_t)colors, file.len - 13); end - p > 10 && *p == GIF_EXTENSION; p++) {
        if (p[1] == GIF_CONTROL && p[2] != 4) /* the decoder would continue elsewhere */
            return false;
        for (p += 2; p < end && *p != 0;)
            p += MIN(1 + (ptrdiff_t)*p, end - p);
        if (p == end)
            return false;
    }
    if (end - p <= 10 || *p != GIF_FRAME)
        return false;
    *frame = (struct picture_size){le16(p + 5), le16(p + 7)};
    colors = p[9] & 0x80 ? 3u << ((p[9] & 7) + 1) : 0;
    p += 10;
    *at = p + MIN((ptrdiff_t)colors, end - p);
    return *at < end;
}

/* The decoder shows the first frame only. */
static enum err check_gif(struct str file, const struct picture_size *size, struct errinfo *info)
{
    struct gif_data data = {.end = (const uint8_t *)file.ptr + file.len};
    struct picture_size frame;
    uint64_t total;

    if (!gif_find_frame(file, &data.at, &frame) || frame.width > size->width ||
        frame.height > size->height)
        return damaged(info, "GIF");
    uint64_t pixels = (uint64_t)frame.width * frame.height;
    uint32_t color_bits = *data.at++;
    /* One code more than pixels: some programs write it. */
    if (color_bits == 0 || color_bits >= GIF_CODE_BITS ||
        !gif_pixels(&data, color_bits, pixels + GIF_CODES, &total) || total < pixels)
        return damaged(info, "GIF");
    if (total > pixels + GIF_CODES)
        return err_set(info, ERR_LIMIT, "the data of the GIF file has more than its pixels");
    return ERR_OK;
}

/* ---- all ---- */

static bool is_png(struct str file)
{
    return str_starts(file, STR("\x89PNG\r\n\x1a\n"));
}

static bool is_jpeg(struct str file)
{
    return str_starts(file, STR("\xff\xd8\xff"));
}

enum err picture_file_size(struct str file, struct picture_size *size, struct errinfo *info)
{
    const uint8_t *at = (const uint8_t *)file.ptr;

    *size = (struct picture_size){0, 0};
    if (is_png(file))
        return png_size(file, size, info);
    if (is_jpeg(file))
        return jpeg_size(file, size, info);
    if (str_starts(file, STR("BM")))
        return bmp_size(file, size, info);
    if (!str_starts(file, STR("GIF87a")) && !str_starts(file, STR("GIF89a")))
        return err_set(info, ERR_UNSUPPORTED,
                       "the format of the picture is not known; send PNG, JPEG, GIF or BMP");
    if (file.len < 13)
        return damaged(info, "GIF");
    *size = (struct picture_size){le16(at + 6), le16(at + 8)};
    return ERR_OK;
}

enum err picture_file_check(struct str file, uint64_t pixels_max, struct picture_size *size,
                            struct errinfo *info)
{
    TRY(picture_file_size(file, size, info));
    if (size->width == 0 || size->height == 0)
        return err_set(info, ERR_INVALID, "the picture has no pixels");
    if (size->width > SIDE_MAX || size->height > SIDE_MAX ||
        (uint64_t)size->width * size->height > pixels_max)
        return err_set(info, ERR_LIMIT, "the picture has %u x %u pixels; at most %llu are allowed",
                       size->width, size->height, (unsigned long long)pixels_max);
    if (is_png(file))
        return check_png(file, size, info);
    if (is_jpeg(file))
        return check_jpeg(file, size, info);
    return str_starts(file, STR("BM")) ? check_bmp(file, size, info) : check_gif(file, size, info);
}
