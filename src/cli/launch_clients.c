/*
 * launch_clients.c: the table of launch.h. A new client is a row here and a line in docs/cli.md.
 */
#include "cli/launch.h"

#include "base/attr.h"

#define NPM(package) "npm install -g " package

const struct launch_client launch_clients[] = {
    {.name = "claude",
     .program = "claude",
     .get = NPM("@anthropic-ai/claude-code"),
     .env = {{"ANTHROPIC_BASE_URL", "{url}"},
             {"ANTHROPIC_AUTH_TOKEN", "{key}"},
             {"ANTHROPIC_API_KEY", NULL},
             {"ANTHROPIC_MODEL", "{model}"},
             {"ANTHROPIC_DEFAULT_OPUS_MODEL", "{model}"},
             {"ANTHROPIC_DEFAULT_SONNET_MODEL", "{model}"},
             {"ANTHROPIC_DEFAULT_HAIKU_MODEL", "{model}"},
             {"ANTHROPIC_DEFAULT_FABLE_MODEL", "{model}"},
             {"CLAUDE_CODE_SUBAGENT_MODEL", "{model}"},
             /* else it takes an unknown model for one of a million */
             {"CLAUDE_CODE_MAX_CONTEXT_TOKENS", "{context}"},
             {"CLAUDE_CODE_AUTO_COMPACT_WINDOW", NULL}, /* is never below 100,000 */
             /* another one each turn: nothing behind it could be reused */
             {"CLAUDE_CODE_ATTRIBUTION_HEADER", "0"},
             {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"},
             {"API_TIMEOUT_MS", "3000000"}}}, /* a first prefill may take long */
    {.name = "codex",
     .program = "codex",
     .get = NPM("@openai/codex"),
     .env = {{"HEARTH_API_KEY", "{key}"}},
     .args = {"-c", "model_provider=\"hearth\"", "-c", "model_providers.hearth.name=\"hearth\"",
              "-c", "model_providers.hearth.base_url=\"{v1}\"", "-c",
              "model_providers.hearth.wire_api=\"responses\"", "-c",
              "model_providers.hearth.env_key=\"HEARTH_API_KEY\"", "-c",
              "model_providers.hearth.stream_idle_timeout_ms=3000000", "-c",
              "model_context_window={context}", "-c", "model=\"{model:json}\""}},
    {.name = "opencode",
     .program = "opencode",
     .get = NPM("opencode-ai"),
     .env = {{"OPENCODE_CONFIG_CONTENT",
              "{\"provider\":{\"hearth\":{\"npm\":\"@ai-sdk/"
              "openai-compatible\",\"name\":\"hearth\",\"options\":{\"baseURL\":\"{v1}\","
              "\"apiKey\":\"{key}\"},\"models\":{\"{model:json}\":{\"limit\":{\"context\":{context}"
              ",\"output\":{output}}}}}},"
              "\"model\":\"hearth/{model:json}\",\"small_model\":\"hearth/{model:json}\"}"}}},
    {.name = "pi",
     .program = "pi",
     .get = NPM("@mariozechner/pi-coding-agent"),
     .env = {{"HEARTH_API_KEY", "{key}"}},
     .args = {"--provider", "hearth", "--model", "{model}"},
     .file = ".pi/agent/models.json",
     .mark = "\"hearth\"",
     .lines = "{\"providers\":{\"hearth\":{\"baseUrl\":\"{v1}\",\"api\":\"openai-completions\","
              "\"apiKey\":\"HEARTH_API_KEY\","
              "\"models\":[{\"id\":\"{model:json}\",\"contextWindow\":{context},\"maxTokens\":{"
              "output}}]}}}"},
    {.name = "aider",
     .program = "aider",
     .get = "python -m pip install aider-install && aider-install",
     .env = {{"OPENAI_API_BASE", "{v1}"}, {"OPENAI_API_KEY", "{key}"}},
     .args = {"--model", "openai/{model}"}},
    {.name = "qwen",
     .program = "qwen",
     .get = NPM("@qwen-code/qwen-code"),
     .env = {{"OPENAI_BASE_URL", "{v1}"},
             {"OPENAI_API_KEY", "{key}"},
             {"OPENAI_MODEL", "{model}"}}},
    {.name = "goose",
     .program = "goose",
     .get = "see goose-docs.ai",
     .env = {{"GOOSE_PROVIDER", "openai"},
             {"GOOSE_MODEL", "{model}"},
             {"OPENAI_HOST", "{url}"},
             {"OPENAI_BASE_PATH", "v1/chat/completions"},
             {"OPENAI_API_KEY", "{key}"}}},
    {.name = "open-webui",
     .program = "open-webui",
     .get = "pip install open-webui",
     .env = {{"OPENAI_API_BASE_URL", "{v1}"},
             {"OPENAI_API_KEY", "{key}"},
             {"ENABLE_OLLAMA_API", "false"}},
     .args = {"serve"}},
    {.name = "env",
     .env = {{"OPENAI_BASE_URL", "{v1}"},
             {"OPENAI_API_KEY", "{key}"},
             {"OPENAI_MODEL", "{model}"},
             {"ANTHROPIC_BASE_URL", "{url}"},
             {"ANTHROPIC_AUTH_TOKEN", "{key}"},
             {"ANTHROPIC_MODEL", "{model}"}}},
};

const size_t launch_clients_count = COUNT_OF(launch_clients);
