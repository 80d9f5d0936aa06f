/* gen_request.c: initialises and frees a request. */
#include "chat/gen_request.h"

#include <string.h>

void gen_request_init(struct gen_request *request, size_t limit,
                      const struct sample_params *defaults)
{
    *request = (struct gen_request){
        .choices = 1,
        .tool_choice = CONSTRAINT_AUTO,
        .format_field = "response_format",
        .parallel_calls = true,
        .slot = -1,
        .cache_read = true,
        .cache_write = true,
        .sample = defaults != NULL ? *defaults : sample_params_default(),
    };
    arena_init(&request->arena, limit);
    request->conversation.arena = &request->arena;
}

void gen_request_fini(struct gen_request *request)
{
    pictures_fini(&request->pictures);
    yyjson_doc_free(request->body);
    yyjson_doc_free(request->earlier);
    arena_fini(&request->arena);
    memset(request, 0, sizeof(*request));
}

/* Clients may set about four. If there are more, the first ones (tools and system prompt, which all
 * conversations share) and the last one are kept. */
void gen_request_add_break(struct gen_request *request, int where)
{
    size_t *count = &request->breakpoints_count;

    if (*count > 0 && request->breakpoints[*count - 1] == where)
        return;
    if (*count == GEN_BREAKPOINTS_MAX)
        --*count;
    request->breakpoints[(*count)++] = where;
}

size_t gen_request_choices(const struct gen_request *request)
{
    return request->choices * (1 + request->more_count);
}

struct gen_prompt gen_request_prompt(const struct gen_request *request, size_t index)
{
    return index > 0 ? request->more[index - 1]
                     : (struct gen_prompt){request->prompt, request->prompt_tokens,
                                           request->prompt_tokens_count};
}
