/*
 * gguf_map.h: what each byte of a good GGUF file is for, so that a test can damage it on purpose.
 * Read without the library's reader, whose checks are among what is tested.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum gguf_map_part {
    GGUF_MAP_HEAD,   /* magic, version, numbers of keys and tensors */
    GGUF_MAP_NAME,   /* of a key, with its length */
    GGUF_MAP_TYPE,   /* of a value, or of the elements of an array */
    GGUF_MAP_COUNT,  /* of an array */
    GGUF_MAP_LENGTH, /* of a text */
    GGUF_MAP_TEXT,
    GGUF_MAP_NUMBER,
    GGUF_MAP_TENSOR,  /* name, shape, type and place of a tensor */
    GGUF_MAP_PADDING, /* before the weights */
    GGUF_MAP_WEIGHTS,
};

struct gguf_map {
    enum gguf_map_part part;
    char key[64];      /* of a value */
    size_t begin, end; /* of this name, number, text, ... */
};

/* What byte `at` of a file in version 3 is for. */
void gguf_map_find(const char *data, size_t at, struct gguf_map *map);
