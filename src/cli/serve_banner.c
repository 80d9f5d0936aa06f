/*
 * serve_banner.c: the lines printed when the server is up: its address, its cache, and what to
 * paste to use it.
 */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/serve.h"
#include "engine/engine.h"
#include "http/client.h"

/* A wildcard address cannot be connected to on every system. */
static const char *reachable(const char *host)
{
    bool all = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;

    return all ? "127.0.0.1" : host;
}

static void print_model(FILE *out, const struct serve_place *place,
                        const struct engine_facts *facts, double load_s)
{
    char kinds[64];

    fprintf(out,
            "\nhearth serves %s (%s, %s), loaded in %.1f s: %u tokens of context, %u sequences\n",
            place->models->list[0].name, facts->description,
            kind_set_names(facts->kinds, kinds, sizeof(kinds)), load_s, facts->context,
            facts->sequences);
}

/* They are loaded on first use. */
static void print_models(FILE *out, const struct serve_models *models)
{
    enum { SHOWN_MAX = 8 };

    fprintf(out, "\nhearth serves %zu models, each loaded on demand:\n ", models->count);
    for (size_t i = 0; i < MIN(models->count, (size_t)SHOWN_MAX); i++)
        fprintf(out, " %s%s", models->list[i].name, i == 0 ? " (default)" : "");
    fprintf(out, "%s\n", models->count > SHOWN_MAX ? " ..." : "");
}

/* `facts` of the only model, or NULL. */
static void print_store(FILE *out, const struct serve_store *store,
                        const struct engine_facts *facts)
{
    char ram[UNITS_TEXT_BYTES];

    if (store->cache == NULL) {
        fprintf(out, "  cache     off\n");
        return;
    }
    if (facts != NULL && facts->slicing == ENGINE_SLICING_NONE) {
        fprintf(out, "  cache     off for this model: %s\n", engine_fault_text(facts->fault));
        return;
    }
    fprintf(out, "  cache     RAM %s, SSD %s%s\n", units_format_size(store->ram_bytes, ram),
            store->ssd_dir != NULL ? store->ssd_dir : "none",
            store->ssd_dir != NULL && store->sealed ? ", encrypted" : "");
}

static void print_socket(FILE *out, const struct serve_place *place)
{
    fprintf(out, "  socket    %s\n\n", place->host);
    fprintf(out, "  curl --unix-socket %s http://localhost/v1/chat/completions \\\n", place->host);
}

static void print_urls(FILE *out, const char *url)
{
    fprintf(out, "  page      %s/ (open it in a browser: a chat that shows what was reused)\n",
            url);
    fprintf(out, "  OpenAI    %s/v1\n  Anthropic %s\n\n", url, url);
    fprintf(out, "  curl %s/v1/chat/completions \\\n", url);
}

static void print_clients(FILE *out, const char *url, const char *key)
{
    fprintf(out, "  Claude Code  ANTHROPIC_BASE_URL=%s ANTHROPIC_AUTH_TOKEN=%s claude\n", url, key);
    fprintf(out, "  OpenAI SDK   OPENAI_BASE_URL=%s/v1 OPENAI_API_KEY=%s\n\n", url, key);
}

void serve_print_banner(const struct cli *cli, const struct serve_place *place,
                        const struct engine_facts *facts, const struct serve_store *store,
                        double load_s)
{
    bool local = str_ends(str_from(place->host), STR(".sock"));
    const char *host = reachable(place->host);
    FILE *out = cli->out;
    char url[CLIENT_URL_BYTES];

    snprintf(url, sizeof(url), strchr(host, ':') != NULL ? "http%s://[%s]:%u" : "http%s://%s:%u",
             place->tls ? "s" : "", host, place->port);
    if (place->models->count != 1)
        facts = NULL;
    if (facts != NULL)
        print_model(out, place, facts, load_s);
    else
        print_models(out, place->models);
    print_store(out, store, facts);
    if (local)
        print_socket(out, place);
    else
        print_urls(out, url);
    if (place->keys)
        fprintf(out, "    -H \"Authorization: Bearer $HEARTH_API_KEY\" \\\n");
    fprintf(
        out,
        "    -H 'Content-Type: application/json' \\\n    -d '{\"messages\": [{\"role\": \"user\", "
        "\"content\": \"Hello!\"}], \"max_tokens\": 32}'\n\n");
    if (!local)
        print_clients(out, url, place->keys ? "$HEARTH_API_KEY" : "none");
    fprintf(out, "Ctrl-C ends it.\n");
    fflush(out);
}
