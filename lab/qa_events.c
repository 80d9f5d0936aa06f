/*
 * qa_events.c: the server's side: lines of its log, found by the request.
 *
 *      ...27.350Z info  [api] 1 req_d776be8600000000 chat length 4 tokens | prompt 25 = ...
 *                        |   |  |
 *                        |   |  the id that the client received
 *                        |   the number, also in "[cache] 1 miss ...", "[phase] 1 prefill ..."
 *                        the tag
 */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "lab/qa.h"

static const struct {
    const char *tag;
    enum qa_event_kind kind;
} tags[] = {
    {"[route] ", QA_EVENT_ROUTE},
    {"[cache] ", QA_EVENT_CACHE},
    {"[phase] ", QA_EVENT_PHASE},
    {"[api] ", QA_EVENT_ANSWER},
};

/* "TIME level [tag] NUMBER rest": the text after the tag, and the number. False: not a line
 * about a request. */
static bool read_line(struct str line, enum qa_event_kind *kind, uint64_t *number, struct str *rest)
{
    for (size_t i = 0; i < COUNT_OF(tags); i++) {
        size_t at = str_find(line, str_from(tags[i].tag)), skip = strlen(tags[i].tag);
        struct str word;
        if (at == SIZE_MAX)
            continue;
        *kind = tags[i].kind;
        *rest = str_skip(line, at + skip);
        struct str left = *rest;
        return str_next(&left, ' ', &word) && str_to_u64(word, number);
    }
    return false;
}

/* The number of a request, by the id that the client received. 0: not in the log. */
static uint64_t number_of(struct str log, const char *request_id)
{
    enum qa_event_kind kind;
    uint64_t number;
    struct str line, rest;

    while (request_id[0] != '\0' && str_next(&log, '\n', &line))
        if (str_find(line, str_from(request_id)) != SIZE_MAX &&
            read_line(line, &kind, &number, &rest) && kind == QA_EVENT_ANSWER)
            return number;
    return 0;
}

static void collect(struct qa_request *request, struct str log, uint64_t wanted)
{
    enum qa_event_kind kind;
    uint64_t number;
    struct str line, rest;

    while (str_next(&log, '\n', &line) && request->events_count < QA_EVENTS_MAX) {
        if (!read_line(line, &kind, &number, &rest) || number != wanted)
            continue;
        struct qa_event *event = &request->events[request->events_count++];
        event->kind = kind;
        snprintf(event->line, sizeof(event->line), "%.*s",
                 (int)MIN(rest.len, sizeof(event->line) - 1), rest.ptr);
    }
}

void qa_collect_events(struct qa_scenario *scenario, unsigned run, struct str log)
{
    for (size_t i = 0; i < scenario->requests_count; i++) {
        struct qa_request *request = &scenario->requests[i];
        uint64_t number = request->run == run ? number_of(log, request->result.request_id) : 0;
        if (number > 0)
            collect(request, log, number);
    }
}

int64_t qa_event_number(const struct qa_event *event, const char *name)
{
    char key[64];
    int64_t value = -1;

    snprintf(key, sizeof(key), " %s=", name);
    const char *at = strstr(event->line, key);
    if (at == NULL)
        return -1;
    at += strlen(key);
    return str_to_i64((struct str){at, strcspn(at, " ")}, &value) ? value : -1;
}

static bool is_cache_event(const struct qa_event *event, const char *what)
{
    const char *blank = strchr(event->line, ' ');

    return event->kind == QA_EVENT_CACHE && blank != NULL &&
           str_starts(str_from(blank + 1), str_from(what));
}

const struct qa_event *qa_decision(const struct qa_request *request)
{
    const struct qa_event *found = NULL;

    for (size_t i = 0; i < request->events_count; i++) {
        const struct qa_event *event = &request->events[i];
        if (is_cache_event(event, "hit ") || is_cache_event(event, "partial ") ||
            is_cache_event(event, "miss "))
            found = event;
    }
    return found;
}

struct qa_totals qa_totals(const struct qa_scenario *scenario, const char *phase)
{
    struct qa_totals totals = {0};

    for (size_t i = 0; i < scenario->requests_count; i++) {
        const struct qa_request *request = &scenario->requests[i];
        if (strcmp(request->phase, phase) != 0)
            continue;
        const struct qa_event *decision = qa_decision(request);
        int64_t read = decision != NULL ? qa_event_number(decision, "read_tokens") : 0;
        totals.hits += read > 0;
        totals.misses += read <= 0;
        totals.read_tokens += MAX(read, 0);
        for (size_t k = 0; k < request->events_count; k++) {
            if (!is_cache_event(&request->events[k], "write "))
                continue;
            totals.writes++;
            totals.write_tokens += MAX(qa_event_number(&request->events[k], "write_tokens"), 0);
        }
    }
    return totals;
}
