/*
 * model_settings.h: the options that say how a model is loaded, the same in every command that
 * loads one.
 *
 * A command embeds `struct model_settings` in its options and puts MODEL_SETTINGS_OPTIONS into its
 * table; cli_load_model then shows a bar, loads, and reports errors.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/option.h"
#include "cli/cli.h"
#include "engine/engine.h"

struct worker_memory;

struct model_settings {
    uint64_t context, sequences, chunk, threads, threads_prefill;
    int kv_k, kv_v;     /* enum engine_kv */
    int pooling;        /* enum engine_pooling */
    int flash;          /* index into model_settings_flash */
    int64_t gpu_layers; /* or -1 - an index into model_settings_layers */
    const char *devices, *backends;
    const char *rpc; /* workers; only for commands that serve */
    bool streams, sliding_full, mmap;
    double rope_base, rope_scale;
    struct option_list adapters; /* FILE or FILE=SCALE */
    const char *projector;
    const char *draft; /* a second model that guesses; only for commands that serve */
    uint64_t draft_context, draft_max, draft_min;
    int64_t draft_gpu_layers;
    uint64_t picture_tokens_min, picture_tokens_max;
    uint64_t memory_max;
    bool isolate; /* in a child process; only for commands that serve */
    /* vets files before this process loads them; NULL = no vetting */
    struct vet *vet;
    bool alone;                   /* no client depends on this process yet (vet_load) */
    struct worker_memory *memory; /* shared with the child process; NULL = a private one */
};

extern const char *const model_settings_flash[];  /* auto, on, off */
extern const char *const model_settings_layers[]; /* auto, all */

/* Rows of an option table; `type` is the command's struct, `field` where the settings are in it.
 * Short names are llama.cpp's. */
/* clang-format off */
#define MODEL_SETTINGS_OPTIONS(type, field) \
    {"ctx-size", 'c', OPTION_UINT, offsetof(type, field.context), .value = "N", .max = 1u << 30, \
     .group = "Model", \
     .help = "Context size in tokens, shared by all sequences; 0 = the model's, limited by memory (serve) or 32768."}, \
    {"parallel", 0, OPTION_UINT, offsetof(type, field.sequences), .value = "N", .initial = "8", \
     .min = 1, .max = 254, .alias = "np", \
     .help = "Maximum number of sequences that run at the same time."}, \
    {"ubatch-size", 0, OPTION_UINT, offsetof(type, field.chunk), .value = "N", .initial = "512", \
     .min = 1, .max = 1u << 20, .alias = "ub", .help = "Maximum tokens per prefill chunk."}, \
    {"threads", 't', OPTION_UINT, offsetof(type, field.threads), .value = "N", .max = 1024, \
     .help = "Threads for decoding; 0 = physical cores, or 1 for a model below 64 MiB."}, \
    {"threads-batch", 0, OPTION_UINT, offsetof(type, field.threads_prefill), .value = "N", \
     .max = 1024, .alias = "tb", .help = "Threads for prefill; 0 = as --threads, or physical cores."}, \
    {"cache-type-k", 0, OPTION_ENUM, offsetof(type, field.kv_k), .value = "TYPE", \
     .initial = "f16", .names = engine_kv_names, .alias = "ctk", \
     .help = "Data type of the K cache."}, \
    {"cache-type-v", 0, OPTION_ENUM, offsetof(type, field.kv_v), .value = "TYPE", \
     .initial = "f16", .names = engine_kv_names, .alias = "ctv", \
     .help = "Data type of the V cache."}, \
    {"flash-attn", 0, OPTION_ENUM, offsetof(type, field.flash), .value = "WHEN", \
     .initial = "auto", .names = model_settings_flash, .alias = "fa", \
     .help = "Use flash attention."}, \
    {"pooling", 0, OPTION_ENUM, offsetof(type, field.pooling), .value = "TYPE", \
     .initial = "auto", .names = engine_pooling_names, \
     .help = "How an input becomes one embedding; auto = as the model file says."}, \
    {"gpu-layers", 0, OPTION_INT, offsetof(type, field.gpu_layers), .value = "N", \
     .initial = "auto", .imax = 10000, .names = model_settings_layers, .alias = "ngl", \
     .help = "Layers to put on the GPU; auto = as many as fit, 0 = none."}, \
    {"device", 0, OPTION_TEXT, offsetof(type, field.devices), .value = "NAMES", .alias = "dev", \
     .help = "Devices to use, separated by commas; `hearth doctor` lists them."}, \
    {"kv-streams", 0, OPTION_FLAG, offsetof(type, field.streams), \
     .help = "Give each sequence its own KV cache. State is then cached only as a whole."}, \
    {"swa-full", 0, OPTION_FLAG, offsetof(type, field.sliding_full), \
     .help = "Keep full-size KV caches for sliding-window layers."}, \
    {"rope-freq-base", 0, OPTION_FLOAT, offsetof(type, field.rope_base), .value = "N", \
     .fmax = 1e12, .help = "RoPE base frequency; 0 = the model's."}, \
    {"rope-freq-scale", 0, OPTION_FLOAT, offsetof(type, field.rope_scale), .value = "N", \
     .fmax = 1e6, .help = "RoPE frequency scale; 0 = the model's."}, \
    {"lora", 0, OPTION_LIST, offsetof(type, field.adapters), .value = "FILE[=SCALE]", \
     .commas = true, \
     .help = "LoRA adapters to apply: FILE or FILE=SCALE, separated by commas."}, \
    {"mmproj", 0, OPTION_TEXT, offsetof(type, field.projector), .value = "FILE", .alias = "mm", \
     .help = "Projector of a model that can see pictures: a GGUF file."}, \
    {"image-min-tokens", 0, OPTION_UINT, offsetof(type, field.picture_tokens_min), .value = "N", \
     .max = 1u << 16, .help = "Minimum tokens per picture; 0 = as the projector says."}, \
    {"image-max-tokens", 0, OPTION_UINT, offsetof(type, field.picture_tokens_max), .value = "N", \
     .max = 1u << 16, .help = "Maximum tokens per picture; 0 = as the projector says."}, \
    {"max-memory", 0, OPTION_SIZE, offsetof(type, field.memory_max), .value = "SIZE", \
     .help = "Memory limit of the server; 0 = what the machine allows."}, \
    {"mmap", 0, OPTION_FLAG, offsetof(type, field.mmap), .initial = "on", \
     .help = "Read weights into memory instead of mapping the model file."}, \
    {"backends", 0, OPTION_TEXT, offsetof(type, field.backends), .value = "DIR", \
     .help = "Folder with ggml's backends, instead of the built-in one."}
/* clang-format on */

/* The file of a model that a user named, in cli->arena; `models_dir` as in resolve_options, or NULL.
 * Fails as resolve_model does; a name that is not found gets advice. */
enum err cli_find_model(const struct cli *cli, const char *models_dir, const char *name,
                        const char **path, struct errinfo *info) NODISCARD;

/* Fills the engine's options; texts and lists are in cli->arena or the command's options.
 * ERR_INVALID: a setting is wrong; ERR_NOMEM. */
enum err cli_engine_options(const struct cli *cli, const struct model_settings *settings,
                            const char *path, struct engine_options *options,
                            struct errinfo *info) NODISCARD;

/* Loads it in this process, or in a child process. */
enum err cli_load_engine(const struct model_settings *settings,
                         const struct engine_options *options, struct engine **engine,
                         struct errinfo *info) NODISCARD;

/* Loads the draft model of these settings into *draft, for a model whose engine is loaded and has
 * these options; NULL if there is none. */
enum err cli_load_draft(const struct model_settings *settings, const struct engine_options *options,
                        const struct engine *engine, struct engine **draft,
                        struct errinfo *info) NODISCARD;

/* Loads the model `name` with a bar on stderr where that is a terminal and returns the engine, or
 * reports an error: a usage error when the settings are wrong, a failure when the model or the
 * machine is at fault. *engine is NULL then. `seconds` is how long it took. */
enum cli_exit cli_load_model(const struct cli *cli, const struct model_settings *settings,
                             const char *name, struct engine **engine, double *seconds) NODISCARD;
