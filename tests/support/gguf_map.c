/* gguf_map.c: see the header. A walk from the first byte to the one that is asked for. */
#include "support/gguf_map.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/attr.h"
#include "base/le.h"
#include "support/test.h"

enum { STRING = 8, ARRAY = 9, ALIGNMENT = 32 };

struct walk {
    const char *data;
    size_t at; /* where it is */
    size_t want;
    struct gguf_map *map;
};

/* Whether the next `bytes` have the one that is asked for. */
static bool step(struct walk *walk, enum gguf_map_part part, size_t bytes)
{
    size_t begin = walk->at;

    walk->at += bytes;
    if (walk->want >= walk->at)
        return false;
    walk->map->part = part;
    walk->map->begin = begin;
    walk->map->end = walk->at;
    return true;
}

static bool step_text(struct walk *walk, enum gguf_map_part length, enum gguf_map_part text)
{
    uint64_t bytes = le_get_u64(walk->data + walk->at);

    return step(walk, length, 8) || step(walk, text, bytes);
}

static bool step_value(struct walk *walk, uint32_t type)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

    if (type == STRING)
        return step_text(walk, GGUF_MAP_LENGTH, GGUF_MAP_TEXT);
    if (type != ARRAY) {
        assert_true(type < sizeof(bytes)); /* of a file that we made */
        return step(walk, GGUF_MAP_NUMBER, bytes[type]);
    }
    uint32_t element = le_get_u32(walk->data + walk->at);
    uint64_t count = le_get_u64(walk->data + walk->at + 4);
    bool found = step(walk, GGUF_MAP_TYPE, 4) || step(walk, GGUF_MAP_COUNT, 8);
    for (uint64_t i = 0; !found && i < count; i++)
        found = step_value(walk, element);
    return found;
}

static bool step_key(struct walk *walk)
{
    uint64_t length = le_get_u64(walk->data + walk->at);

    snprintf(walk->map->key, sizeof(walk->map->key), "%.*s", (int)length,
             walk->data + walk->at + 8);
    if (step_text(walk, GGUF_MAP_NAME, GGUF_MAP_NAME))
        return true;
    uint32_t type = le_get_u32(walk->data + walk->at);
    return step(walk, GGUF_MAP_TYPE, 4) || step_value(walk, type);
}

static bool step_tensor(struct walk *walk)
{
    if (step_text(walk, GGUF_MAP_TENSOR, GGUF_MAP_TENSOR))
        return true;
    uint32_t dimensions = le_get_u32(walk->data + walk->at);
    return step(walk, GGUF_MAP_TENSOR, 4 + 8 * (size_t)dimensions + 4 + 8);
}

void gguf_map_find(const char *data, size_t at, struct gguf_map *map)
{
    struct walk walk = {.data = data, .want = at, .map = map};
    bool found = step(&walk, GGUF_MAP_HEAD, 24);

    map->key[0] = '\0';
    for (uint64_t i = 0, count = le_get_u64(data + 16); !found && i < count; i++)
        found = step_key(&walk);
    for (uint64_t i = 0, count = le_get_u64(data + 8); !found && i < count; i++)
        found = step_tensor(&walk);
    if (!found && !step(&walk, GGUF_MAP_PADDING, -walk.at % ALIGNMENT))
        step(&walk, GGUF_MAP_WEIGHTS, SIZE_MAX - walk.at);
}
