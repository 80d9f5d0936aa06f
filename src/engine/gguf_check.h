/*
 * gguf_check.h: finds damage in a model file that the library does not notice.
 *
 * The library checks what it needs: counts, shapes, offsets and types of tensors, and the types of
 * the keys that it reads. A key whose name is damaged is a key that is missing, and most keys have a
 * default, so such a model is served with other numbers. Checked here, from the header alone:
 *
 *      names         no unknown key that differs in one bit from a known one, which is missing
 *      types         of keys that the library does not read
 *      numbers       epsilons, bases, lengths and token types that no model can have
 *      text          UTF-8
 *      layout        zeros between tensors, and nothing after the last one
 *      version       not older than the architecture
 *
 * A number that another model could have, another text and another weight cannot be recognised.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"

struct gguf_file;

/* ERR_CORRUPT: damaged, and `info` says where. */
enum err gguf_check(const struct gguf_file *file, struct errinfo *info) NODISCARD;
