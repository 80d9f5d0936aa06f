/*
 * stored.h: responses that later requests continue (previous_response_id), read and delete.
 *
 *      record   {"previous_response_id":...,"input":[the request's own items],"response":{...}}
 *
 * A record has only what its request added: a chain of responses is as long as its conversation, not
 * as long as the sum of its prompts. A chain becomes the input that a client would have sent in full,
 * so it renders to the same tokens. Reading a chain makes its oldest record the newest of the shelf:
 * of one chain, the last response is evicted first.
 *
 *      call     the id of a call in an output --> the id of its response
 *
 * An item_reference in the input is replaced by the item with that id, before the request is parsed:
 * ids of other items contain the id of their response.
 *
 * Threads: any (serve/shelf.h).
 */
#pragma once

#include "base/attr.h"
#include "chat/gen_request.h"
#include "dialect/answer.h"
#include "serve/api_impl.h"

/* Of one tenant. The time is OpenAI's. */
enum { STORED_COUNT_MAX = 10000, STORED_TTL_S = 30 * 24 * 60 * 60 };

/* Sets request->earlier if the body names a previous response, and replaces request->body if it
 * refers to items. ERR_INVALID: one is not there. `shelf` is NULL if no responses are stored. */
enum err stored_load(struct shelf *shelf, const char *tenant, struct gen_request *request,
                     struct api_error *error) NODISCARD;

/* Stores a complete answer, if its request allows it. One that is too large is not stored. */
void stored_keep(struct shelf *shelf, const char *tenant, const struct dialect *dialect,
                 struct answer *answer);

/* /v1/responses/{id} and /v1/responses/{id}/input_items */
answer_fn endpoint_response;
answer_fn endpoint_response_delete;
answer_fn endpoint_response_items;
