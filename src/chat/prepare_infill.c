/*
 * prepare_infill.c: the prompt for filling in the middle, of the control tokens that models were
 * trained with for it.
 *
 *      [repo]project\n [file]name\n text ... [file]this\n  [prefix]text before [suffix]text after [middle]
 *
 * The other files come first, so that the cache finds them while the text around the cursor
 * changes. A model without tokens for files gets them as plain text. Texts of the client contain no
 * control tokens (keeps I105).
 */
#include <string.h>

#include "base/mem.h"
#include "chat/prepare_impl.h"

static enum err append(struct token_prompt *out, const token_id *tokens, size_t count)
{
    token_id *all = mem_try_realloc(out->tokens, (out->count + count + 1) * sizeof(*all));

    if (all == NULL)
        return ERR_NOMEM;
    out->tokens = all;
    if (count > 0)
        memcpy(all + out->count, tokens, count * sizeof(*all));
    out->count += count;
    return ERR_OK;
}

/* A control token, unless the model has none, and the text after it. */
static enum err add(struct prepare_run *run, struct token_prompt *out, token_id token,
                    struct str text)
{
    struct token_prompt piece = {0};

    if (token >= 0)
        TRY(append(out, &token, 1));
    if (text.len == 0)
        return ERR_OK;
    TRY(tokens_from_string(run->tools->model.tokens, &run->caller, text, 0, &piece, &run->info));
    enum err err = append(out, piece.tokens, piece.count);
    token_prompt_fini(&piece);
    return err;
}

static enum err add_name(struct prepare_run *run, struct token_prompt *out, token_id token,
                         struct str name)
{
    const char *line = token >= 0 ? arena_printf(&run->request->arena, STR_FMT "\n", STR_ARG(name))
                                  : arena_printf(&run->request->arena,
                                                 "\n\n--- " STR_FMT " ---\n\n", STR_ARG(name));

    return line != NULL ? add(run, out, token, str_from(line)) : run->request->arena.err;
}

static enum err add_extras(struct prepare_run *run, const struct engine_fim *fim,
                           struct token_prompt *out)
{
    const struct gen_request *request = run->request;

    if (request->extras_count == 0)
        return ERR_OK;
    if (fim->repo >= 0)
        TRY(add_name(run, out, fim->repo, STR("project")));
    for (size_t i = 0; i < request->extras_count; i++) {
        TRY(add_name(run, out, fim->file, request->extras[i].name));
        TRY(add(run, out, TOKEN_NONE, request->extras[i].text));
    }
    return fim->file >= 0 ? add_name(run, out, fim->file, STR("filename")) : ERR_OK;
}

enum err prepare_infill(struct prepare_run *run, struct str prefix, struct token_prompt *out)
{
    const struct engine_facts *facts = engine_facts(run->tools->model.engine);
    const struct gen_request *request = run->request;
    size_t bytes = prefix.len + request->suffix.len;

    if (!engine_has_fim(facts))
        return err_set(&run->info, ERR_UNSUPPORTED,
                       "The model cannot fill in the middle: its vocabulary has no tokens for it. "
                       "Without a suffix, text is continued at its end.");
    for (size_t i = 0; i < request->extras_count; i++)
        bytes += request->extras[i].text.len;
    TRY(prepare_check_length(run, bytes));
    if (facts->add_bos)
        TRY(append(out, &facts->bos, 1));
    TRY(add_extras(run, &facts->fim, out));
    TRY(add(run, out, facts->fim.prefix, prefix));
    TRY(add(run, out, facts->fim.suffix, request->suffix));
    return add(run, out, facts->fim.middle, STR_NONE);
}
