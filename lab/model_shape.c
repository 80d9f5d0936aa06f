/*
 * model_shape.c: completes and checks the shape given by the user.
 *
 * Missing values come from the family or preset, in proportion: a wider model gets more heads of
 * the same size and a wider feed-forward layer. Everything that would make the library abort (its
 * assertions on metadata) is refused here with a message that says what would be valid.
 */
#include "lab/model_make.h"

#include <assert.h>

#include "base/option.h"
#include "base/str.h"
#include "lab/model_impl.h"

enum {
    WIDTH_STEP = 32, /* the smallest block of any quantization, and half a mamba-2 head */
    WIDTH_MAX = 65536,
    EXPERTS_MAX = 512, /* the library's limit */
    VOCAB_MAX = 1 << 20,
    CONTEXT_MAX = 1 << 24,
    NAMES_MAX = 256, /* families and presets */
};

const char *const model_quant_names[] = {MODEL_QUANT_TABLE(TABLE_NAME) NULL};

static enum err unknown_family(const char *name, struct errinfo *info)
{
    const char *names[NAMES_MAX];
    size_t count = 0;

    for (size_t i = 0; model_families[i].name != NULL; i++) {
        assert(count < NAMES_MAX);
        names[count++] = model_families[i].name;
    }
    for (size_t i = 0; model_presets[i].name != NULL; i++) {
        assert(count < NAMES_MAX);
        names[count++] = model_presets[i].name;
    }
    const char *near = option_nearest(str_from(name), names, count);
    if (near != NULL)
        return err_set(info, ERR_INVALID, "no model family is called '%s'; did you mean '%s'?",
                       name, near);
    return err_set(
        info, ERR_INVALID,
        "no model family is called '%s'; 'qwen3', 'gemma3' and 'random' are some that are", name);
}

static uint32_t or_else(uint32_t given, uint32_t otherwise)
{
    return given != 0 ? given : otherwise;
}

/* `value` scaled by now / before, rounded down to a multiple of WIDTH_STEP (at least one). */
static uint32_t in_proportion(uint32_t value, uint32_t now, uint32_t before)
{
    uint64_t scaled = (uint64_t)value * now / before / WIDTH_STEP * WIDTH_STEP;

    return (uint32_t)(value == 0 ? 0 : MAX(scaled, WIDTH_STEP));
}

static void fill_heads(struct model_shape *shape, const struct model_shape *base, bool wider)
{
    if (base->heads == 0)
        return;
    if (shape->heads == 0 && shape->head_dim == 0) {
        shape->head_dim = base->head_dim;
        shape->heads = wider ? MAX(shape->width / base->head_dim, 1) : base->heads;
    }
    if (shape->heads == 0)
        shape->heads = MAX(shape->width / shape->head_dim, 1);
    if (shape->head_dim == 0)
        shape->head_dim =
            shape->heads == base->heads && !wider ? base->head_dim : shape->width / shape->heads;
    if (shape->kv_heads == 0) {
        uint32_t share = base->kv_heads == 0 ? shape->heads : base->heads / base->kv_heads;
        shape->kv_heads = shape->heads % share == 0 ? shape->heads / share : shape->heads;
    }
}

static void fill(struct model_shape *shape, const struct model_shape *base)
{
    const bool wider = shape->width != 0 && shape->width != base->width;

    shape->layers = or_else(shape->layers, base->layers);
    shape->width = or_else(shape->width, base->width);
    fill_heads(shape, base, wider);
    shape->ff = or_else(shape->ff, in_proportion(base->ff, shape->width, base->width));
    shape->experts = or_else(shape->experts, base->experts);
    if (shape->experts > 0) {
        shape->experts_used =
            or_else(shape->experts_used, MIN(or_else(base->experts_used, 2), shape->experts));
        shape->expert_ff =
            or_else(shape->expert_ff,
                    in_proportion(or_else(base->expert_ff, base->ff), shape->width, base->width));
    }
    shape->window = or_else(shape->window, base->window);
    shape->state_size = or_else(shape->state_size, base->state_size);
    shape->state_groups = or_else(shape->state_groups, base->state_groups);
    shape->context = or_else(shape->context, base->context);
    shape->vocab = or_else(shape->vocab, or_else(base->vocab, model_vocab_min()));
    shape->tied |= base->tied;
}

static enum err check_range(const char *what, uint32_t value, uint32_t min, uint32_t max,
                            struct errinfo *info)
{
    if (value >= min && value <= max)
        return ERR_OK;
    return err_set(info, ERR_INVALID, "%s is %u: expected %u to %u", what, value, min, max);
}

static enum err check_multiple(const char *what, uint64_t value, uint32_t step, const char *why,
                               struct errinfo *info)
{
    if (value > 0 && value % step == 0)
        return ERR_OK;
    uint64_t below = value / step * step;
    if (below == 0)
        return err_set(info, ERR_INVALID, "%s is %llu: %s needs a multiple of %u, such as %u", what,
                       (unsigned long long)value, why, step, step);
    return err_set(info, ERR_INVALID, "%s is %llu: %s needs a multiple of %u, such as %llu or %llu",
                   what, (unsigned long long)value, why, step, (unsigned long long)below,
                   (unsigned long long)(below + step));
}

static enum err check_heads(const struct model_family *family, const struct model_shape *shape,
                            struct errinfo *info)
{
    if (family->traits & MODEL_TRAIT_NO_HEADS)
        return shape->heads == 0 && shape->kv_heads == 0 && shape->head_dim == 0
                   ? ERR_OK
                   : err_set(info, ERR_INVALID, "%s has no attention: heads mean nothing to it",
                             family->name);
    TRY(check_range("the number of heads", shape->heads, 1, 1024, info));
    if (shape->head_dim == 0)
        return err_set(info, ERR_INVALID, "%u heads are too many for a width of %u", shape->heads,
                       shape->width);
    TRY(check_range("the head size", shape->head_dim, 8, 1024, info));
    /* Latent and delta families rotate only a part of a head, in pairs. */
    TRY(check_multiple("the head size", shape->head_dim, 8, "rotation", info));
    if (family->traits & MODEL_TRAIT_LATENT && shape->kv_heads != 1)
        return err_set(
            info, ERR_INVALID,
            "%s has latent attention, whose rows all heads share: the number of K and V heads is 1",
            family->name);
    if (shape->heads % shape->kv_heads != 0)
        return err_set(info, ERR_INVALID,
                       "%u heads cannot share %u K and V heads evenly: the second number must "
                       "divide the first",
                       shape->heads, shape->kv_heads);
    if (family->traits & MODEL_TRAIT_HEADS_FILL && shape->heads * shape->head_dim != shape->width)
        return err_set(info, ERR_INVALID,
                       "%s needs heads x head size to be the width: %u x %u is not %u",
                       family->name, shape->heads, shape->head_dim, shape->width);
    return ERR_OK;
}

static enum err check_experts(const struct model_family *family, const struct model_shape *shape,
                              struct errinfo *info)
{
    if (shape->experts == 0 && shape->experts_used == 0 && shape->expert_ff == 0)
        return ERR_OK;
    if (!(family->traits & (MODEL_TRAIT_EXPERTS | MODEL_TRAIT_EXPERTS_MUST)))
        return err_set(
            info, ERR_INVALID,
            "%s has no experts; qwen3moe, qwen35moe, deepseek2 and llama are some that have",
            family->name);
    TRY(check_range("the number of experts", shape->experts, 1, EXPERTS_MAX, info));
    TRY(check_range("the number of experts used", shape->experts_used, 1, shape->experts, info));
    if (family->traits & MODEL_TRAIT_EXPERTS && shape->expert_ff != shape->ff)
        return err_set(info, ERR_INVALID,
                       "experts of %s are as wide as its dense layers: %u, not %u", family->name,
                       shape->ff, shape->expert_ff);
    return ERR_OK;
}

/* Recurrent layers: heads of a fixed width (scan) or of the state's own (delta), in equal
 * groups. */
static enum err check_state(const struct model_family *family, struct model_shape *shape,
                            struct errinfo *info)
{
    if (family->shape.state_size == 0)
        return shape->state_size == 0 && shape->state_groups == 0
                   ? ERR_OK
                   : err_set(info, ERR_INVALID, "%s has no recurrent layers", family->name);
    TRY(check_range("the state size", shape->state_size, 16, 256, info));
    TRY(check_multiple("the state size", shape->state_size, 16, "the scan", info));
    const uint32_t inner = MODEL_STATE_EXPANSION * shape->width;
    uint32_t heads = inner / MODEL_SCAN_HEAD_DIM;
    if (family->traits & MODEL_TRAIT_DELTA) {
        TRY(check_multiple("twice the width", inner, shape->state_size,
                           "the state size of the recurrent layers", info));
        heads = inner / shape->state_size;
    }
    shape->state_groups = or_else(shape->state_groups, heads % 2 == 0 ? heads / 2 : heads);
    if (heads % shape->state_groups != 0)
        return err_set(info, ERR_INVALID, "%u recurrent heads cannot be put into %u equal groups",
                       heads, shape->state_groups);
    return ERR_OK;
}

/* Every matrix is cut into blocks along its inputs. */
static enum err check_quant(const struct model_shape *shape, enum model_quant quant,
                            struct errinfo *info)
{
    const uint32_t block = quant == MODEL_QUANT_Q4_K ? 256 : 32;
    const char *name = model_quant_names[quant];

    if (quant == MODEL_QUANT_F16)
        return ERR_OK;
    TRY(check_multiple("the width", shape->width, block, name, info));
    if (shape->ff > 0)
        TRY(check_multiple("the feed-forward width", shape->ff, block, name, info));
    if (shape->heads > 0)
        TRY(check_multiple("heads x head size", (uint64_t)shape->heads * shape->head_dim, block,
                           name, info));
    if (shape->experts > 0)
        TRY(check_multiple("the width of an expert", shape->expert_ff, block, name, info));
    return ERR_OK;
}

static enum err check(const struct model_family *family, struct model_shape *shape,
                      struct errinfo *info)
{
    TRY(check_range("the number of layers", shape->layers, family->layers_min, MODEL_LAYERS_MAX,
                    info));
    TRY(check_range("the width", shape->width, WIDTH_STEP, WIDTH_MAX, info));
    TRY(check_multiple("the width", shape->width, WIDTH_STEP, family->name, info));
    TRY(check_heads(family, shape, info));
    if (shape->ff > 0 || family->shape.ff > 0)
        TRY(check_range("the feed-forward width", shape->ff, 1, 4 * WIDTH_MAX, info));
    TRY(check_experts(family, shape, info));
    TRY(check_state(family, shape, info));
    if (shape->window != 0 && !(family->traits & MODEL_TRAIT_WINDOW))
        return err_set(info, ERR_INVALID,
                       "%s has no sliding window to choose; gemma2, gemma3 and gpt-oss have",
                       family->name);
    TRY(check_range("the context", shape->context, 16, CONTEXT_MAX, info));
    TRY(check_range("the vocabulary", shape->vocab, model_vocab_min(), VOCAB_MAX, info));
    if (shape->tied && family->traits & MODEL_TRAIT_UNTIED)
        return err_set(info, ERR_INVALID, "%s cannot have tied weights", family->name);
    shape->tied |= (family->traits & MODEL_TRAIT_TIED) != 0;
    return ERR_OK;
}

enum err model_make_resolve(const struct model_make_options *options, struct model_make_plan *plan,
                            struct errinfo *info)
{
    const char *name = options->family != NULL ? options->family : "random";
    const struct model_preset *preset = model_preset_find(name);
    const struct model_family *family = model_family_find(preset != NULL ? preset->family : name);

    if (family == NULL)
        return unknown_family(name, info);
    *plan = (struct model_make_plan){.name = name, .family = family, .shape = options->shape};
    fill(&plan->shape, preset != NULL ? &preset->shape : &family->shape);
    if (family->traits & MODEL_TRAIT_LATENT && options->shape.kv_heads == 0)
        plan->shape.kv_heads = 1;
    if (family->traits & MODEL_TRAIT_EXPERTS && options->shape.expert_ff == 0 &&
        plan->shape.experts > 0)
        plan->shape.expert_ff = plan->shape.ff;
    if (options->shape.heads != 0 && options->shape.head_dim == 0 &&
        plan->shape.width % plan->shape.heads != 0)
        return err_set(
            info, ERR_INVALID,
            "%u heads cannot share a width of %u evenly: say how wide a head is, or take a number "
            "of heads that divides the width",
            plan->shape.heads, plan->shape.width);
    TRY(check(family, &plan->shape, info));
    plan->quant = options->quant != MODEL_QUANT_DEFAULT ? options->quant
                  : preset != NULL                      ? preset->quant
                                                        : MODEL_QUANT_F16;
    return check_quant(&plan->shape, plan->quant, info);
}
