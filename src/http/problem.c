/*
 * problem.c: the tables behind problem.h.
 */
#include "http/problem.h"

#include <assert.h>
#include <stddef.h>

#include "base/attr.h"

static const struct {
    int status;
    const char *name, *sentence;
} problems[] = {
#define X(value, status, name, sentence) {status, name, sentence},
    HTTP_PROBLEM_TABLE(X)
#undef X
};

static const struct {
    int status;
    const char *phrase;
} phrases[] = {
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
    {529, "Overloaded"},
};

int http_problem_status(enum http_problem problem)
{
    assert(problem < HTTP_PROBLEM_COUNT);
    return problems[problem].status;
}

const char *http_problem_name(enum http_problem problem)
{
    assert(problem < HTTP_PROBLEM_COUNT);
    return problems[problem].name;
}

const char *http_problem_sentence(enum http_problem problem)
{
    assert(problem < HTTP_PROBLEM_COUNT);
    return problems[problem].sentence;
}

const char *http_status_phrase(int status)
{
    for (size_t i = 0; i < COUNT_OF(phrases); i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "";
}
