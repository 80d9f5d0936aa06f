/*
 * kv_hints.h: session hints in the envelope that vLLM, SGLang and Dynamo agree on.
 *
 *      "kv_hints": {"protocol_version": "0.1", "message_id": "...", "actions": [
 *          {"action_id": "...", "action_type": "kv.retain", "action_version": "1.0",
 *           "payload": {...}}]}
 *
 * The envelope is theirs, and so are the names of the actions; what each does here is in
 * docs/api.md. Hints never change an answer: actions and versions that are unknown are ignored.
 *
 * Pure functions; any thread.
 */
#pragma once

#include "base/attr.h"
#include "chat/gen_request.h"
#include "dialect/json_read.h"

/* ERR_INVALID: a member has a wrong type. */
enum err kv_hints_read(struct gen_request *request, const struct json_reader *body) NODISCARD;
