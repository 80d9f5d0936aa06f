/*
 * prepare_impl.h: what the files of prepare share.
 *
 *      prepare.c           the order of the steps, marks, grammar
 *      prepare_messages.c  messages before the template sees them
 *      prepare_edit.c      old tool results and thoughts cleared from them
 *      prepare_infill.c    the prompt for filling in the middle
 *      prepare_recall.c    tokens after the template, with turns as they were sampled
 */
#pragma once

#include "chat/prepare.h"
#include "chat/recall.h"

/* One preparation in progress. */
struct prepare_run {
    struct prepared *out;
    struct gen_request *request;
    const struct prepare_tools *tools;
    struct tokens_caller caller;
    struct api_error *error;
    struct errinfo info;
};

/* Makes texts and the order of tools neutral, and restores dropped thoughts. ERR_NOMEM, ERR_LIMIT. */
enum err prepare_messages(struct prepare_run *run) NODISCARD;

/* An assistant's message in the form of recall.h, in the request's arena. ERR_NOMEM, ERR_LIMIT. */
enum err prepare_read_message(struct arena *arena, const struct message *message,
                              struct recall_message *out) NODISCARD;

/* Applies the edits that the request asks for, counts what they cleared, and makes the prompt. */
enum err prepare_edit(struct prepare_run *run) NODISCARD;

/* The template's text. */
enum err prepare_render(struct prepare_run *run) NODISCARD;

/* The prompt of the messages as they are, instead of an earlier one. `final`: text that cannot fit
 * the context is refused. */
enum err prepare_prompt(struct prepare_run *run, bool final) NODISCARD;

/* Refuses, before tokenizing, a text that cannot fit the context however it is tokenized. */
enum err prepare_check_length(struct prepare_run *run, size_t bytes) NODISCARD;

/* The prompt that makes the model write what belongs between `prefix` and the request's suffix.
 * ERR_UNSUPPORTED: it cannot. */
enum err prepare_infill(struct prepare_run *run, struct str prefix,
                        struct token_prompt *out) NODISCARD;

/* Tokens and their marks from out->text. */
enum err prepare_tokens(struct prepare_run *run) NODISCARD;
