/*
 * prompt.h: prompts that /admin is asked about: read as the dialect that would be asked reads them,
 * so that the tokens are the same.
 *
 *      {"model", "messages" | "prompt" | "tokens", "tools", ..., "dialect": "chat"|"completions"|"messages"|"responses", "tenant"}
 *
 * Without "dialect" it is chat where there are messages, and completions otherwise. Whatever else a
 * request of that dialect has counts, too: a request that was recorded can be sent as it is.
 *
 * Threads: workers.
 */
#ifndef HEARTH_ADMIN_PROMPT_H
#define HEARTH_ADMIN_PROMPT_H

#include "admin/admin.h"
#include "dialect/answer.h"
#include "chat/prepare.h"

/* a prompt, or a "key" instead: then no model is needed (gen_request.no_model) */
extern const struct dialect dialect_admin_prompt;
/* a prompt that is computed and kept; nothing is generated */
extern const struct dialect dialect_admin_warm;

/* Fills `request` from an object of that form. */
enum err admin_prompt_parse(struct gen_request *request, yyjson_val *root,
                            struct api_error *error) NODISCARD;

/* From now on the call is that tenant's, if "tenant" names one. */
enum err admin_prompt_take_tenant(struct call *call, struct api_error *error) NODISCARD;

/* The text of tokens [begin, end) of a prompt, appended. */
void admin_prompt_text(const struct model *model, const struct token_prompt *prompt, size_t begin,
                       size_t end, struct buf *out);

#endif
