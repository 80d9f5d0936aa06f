/*
 * sample_text.c: one sequence, one sampler, token by token.
 */
#include "support/sample_text.h"

#include <string.h>

#include "support/test.h"

enum { PIECE_MAX = 64, BIASES_MAX = 72, BIASES_OWN_MAX = 8 };

/* A random model writes overlong UTF-8, which the library reads as the character and JSON readers
 * refuse. Without the first bytes of longer characters it cannot. */
static size_t ban_long_characters(const struct engine *engine, struct sample_bias *biases)
{
    size_t count = 0;

    for (token_id token = 0; engine_token_valid(engine, token); token++) {
        char piece[PIECE_MAX];
        size_t len = engine_token_bytes(engine, token, true, piece, sizeof(piece));
        if (len != 1 || (unsigned char)piece[0] < 0xC0)
            continue;
        assert_true(count < BIASES_MAX - BIASES_OWN_MAX);
        biases[count++] = (struct sample_bias){token, -__builtin_inff()};
    }
    return count;
}

static void run_token(struct engine *engine, seq_id seq, token_id token)
{
    struct engine_item item = {.seq = seq, .tokens = &token, .count = 1, .logits = true};
    struct errinfo info = {0};

    if (engine_run(engine, &item, 1, &info) != ERR_OK)
        fail_msg("%s", info.text);
}

static struct sampler *create_sampler(struct engine *engine, const struct sample_params *given,
                                      uint64_t seed)
{
    struct sample_params params = *given;
    struct sample_bias biases[BIASES_MAX];
    struct sampler *sampler = NULL;
    struct errinfo info = {0};

    assert_true(given->biases_count <= BIASES_OWN_MAX);
    params.seed = seed & 0xFFFFFFFF;
    params.temperature = 1;
    params.biases_count = ban_long_characters(engine, biases);
    for (size_t i = 0; i < given->biases_count; i++)
        biases[params.biases_count++] = given->biases[i];
    params.biases = biases;
    if (sampler_create(&sampler, engine, &params, &info) != ERR_OK)
        fail_msg("%s\n%s", info.text, given->grammar);
    return sampler;
}

void sample_text(struct engine *engine, const struct sample_params *params, uint64_t seed,
                 struct buf *text)
{
    struct sampler *sampler = create_sampler(engine, params, seed);
    struct errinfo info = {0};
    struct sample_pick pick;
    seq_id seq;

    assert_ok(engine_seq_acquire(engine, &seq, &info));
    run_token(engine, seq, 65);
    for (int i = 0;; i++) {
        char piece[PIECE_MAX];
        if (i == SAMPLE_TEXT_TOKENS_MAX)
            fail_msg("no end of %s", buf_str(text));
        if (sampler_pick(sampler, 0, &pick, &info) != ERR_OK)
            fail_msg("%s after %s", info.text, buf_str(text));
        if (engine_token_is_end(engine, pick.token))
            break;
        buf_append(text, piece, engine_token_bytes(engine, pick.token, true, piece, sizeof(piece)));
        run_token(engine, seq, pick.token);
    }
    sampler_destroy(&sampler);
    engine_seq_release(engine, &seq);
}
