/*
 * model_vocab.h: the tokenizer and the chat template of made models.
 *
 *      0 .. 255          the bytes: token n is byte n, so that any text can be written
 *      256 .. 767        pieces of English and code, made by merges
 *      768 .. 776        control and marker tokens, <|endoftext|> first
 *      777 .. vocab - 1  unused ones, for models that need a large vocabulary
 *
 * Everything here is read-only; any thread.
 */
#ifndef HEARTH_ENGINE_MODEL_VOCAB_H
#define HEARTH_ENGINE_MODEL_VOCAB_H

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct gguf_context;

/* Tokens of the smallest vocabulary: everything but unused ones. */
uint32_t model_vocab_min(void);

/* Writes the tokenizer.* keys for a vocabulary of the given size (at least the smallest). */
enum err model_vocab_set_keys(struct gguf_context *gguf, uint32_t vocab,
                              struct errinfo *info) NODISCARD;

/* How often a model with random weights should generate a token. */
enum model_speech {
    /* half characters, control tokens, unused ones: they would garble a terminal */
    MODEL_SPEECH_NEVER,
    MODEL_SPEECH_SELDOM, /* parts of words, signs, the end of the answer */
    MODEL_SPEECH_OFTEN,  /* words */
};
enum model_speech model_vocab_speech(uint32_t token);

/* ChatML with tools (JSON, as in Hermes), tool results and reasoning; Jinja. */
const char *model_vocab_chat_template(void);

#endif
