/* Fields that mean the same in all dialects, read through chat completions. */
#include <math.h>
#include <string.h>

#include "support/dialect_kit.h"
#include "support/test.h"

#define CHAT(fields) "{'messages':[{'role':'user','content':'x'}]," fields "}"

static void parse(struct api_parsed *parsed, const char *body)
{
    api_parse(parsed, &dialect_openai_chat, body);
    if (parsed->err != ERR_OK)
        fail_msg("%s: %s", body, parsed->error.message);
}

static void test_sampling(void **state)
{
    struct api_parsed parsed;
    struct sample_params *sample = &parsed.request.sample;

    (void)state;
    parse(&parsed,
          CHAT("'model':'a/b','temperature':0,'top_p':0.5,'top_k':7,'min_p':0.25,'typical_p':0.75,"
               "'frequency_penalty':-2,'presence_penalty':2,'repeat_penalty':1.5,"
               "'repeat_last_n':-1,'dry_multiplier':0.5,'dry_base':2,"
               "'dry_allowed_length':3,'dry_penalty_last_n':9,"
               "'dry_sequence_breakers':['x','','yz'],'xtc_probability':0.5,"
               "'xtc_threshold':0.25,'top_n_sigma':1,'ignore_eos':true,'seed':42"));
    assert_true(str_eq(parsed.request.model, STR("a/b")));
    assert_true(sample->temperature == 0 && sample->top_p == 0.5f && sample->top_k == 7);
    assert_true(sample->min_p == 0.25f && sample->typical_p == 0.75f);
    assert_true(sample->penalty_frequency == -2 && sample->penalty_presence == 2);
    assert_true(sample->penalty_repeat == 1.5f && sample->penalty_last == -1);
    assert_true(sample->dry_multiplier == 0.5f && sample->dry_base == 2);
    assert_true(sample->dry_allowed == 3 && sample->dry_last == 9);
    assert_int_equal(sample->dry_breakers_count, 2);
    assert_string_equal(sample->dry_breakers[1], "yz");
    assert_true(sample->xtc_probability == 0.5f && sample->xtc_threshold == 0.25f);
    assert_true(sample->top_n_sigma == 1 && sample->ignore_end);
    assert_int_equal(sample->seed, 42);
    api_parsed_fini(&parsed);
}

/* What is not sent, or is null, stays as the server has it; what is not known is ignored. */
static void test_nothing_is_asked_for(void **state)
{
    struct sample_params defaults = sample_params_default();
    struct api_parsed parsed;

    (void)state;
    parse(&parsed, CHAT("'temperature':null,'stop':null,'tools':null,'user':5,'store':true,"
                        "'metadata':{},'service_tier':'auto','no_such_field':[1]"));
    assert_true(parsed.request.sample.temperature == defaults.temperature);
    assert_true(parsed.request.sample.seed == SAMPLE_SEED_RANDOM);
    assert_int_equal(parsed.request.stops_count, 0);
    assert_int_equal(parsed.request.max_tokens, 0);
    assert_int_equal(parsed.request.choices, 1);
    assert_int_equal(parsed.request.conversation.tools_count, 0);
    assert_true(parsed.request.cache_read && parsed.request.cache_write);
    assert_false(parsed.request.stream);
    api_parsed_fini(&parsed);
}

static void test_seeds(void **state)
{
    static const struct {
        const char *body;
        uint64_t seed;
    } cases[] = {
        {CHAT("'seed':-1"), SAMPLE_SEED_RANDOM},
        {CHAT("'seed':4294967295"), SAMPLE_SEED_RANDOM},
        {CHAT("'seed':0"), 0},
        {CHAT("'seed':-7"), (uint32_t)-7},
        {CHAT("'seed':4294967297"), 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;
        parse(&parsed, cases[i].body);
        assert_true(parsed.request.sample.seed == cases[i].seed);
        api_parsed_fini(&parsed);
    }
}

static void test_limits(void **state)
{
    static const struct {
        const char *body;
        uint32_t tokens;
    } cases[] = {
        {CHAT("'max_tokens':5"), 5},
        {CHAT("'max_tokens':5,'max_completion_tokens':6"), 6},
        {CHAT("'n_predict':7"), 7},
        {CHAT("'n_predict':-1"), 0},
        {CHAT("'n_predict':9,'max_tokens':3.0"), 3},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;
        parse(&parsed, cases[i].body);
        assert_int_equal(parsed.request.max_tokens, cases[i].tokens);
        api_parsed_fini(&parsed);
    }
}

static void test_stops(void **state)
{
    struct api_parsed parsed;

    (void)state;
    parse(&parsed, CHAT("'stop':'end'"));
    assert_int_equal(parsed.request.stops_count, 1);
    assert_string_equal(parsed.request.stops[0], "end");
    api_parsed_fini(&parsed);
    parse(&parsed, CHAT("'stop':['a','','b\\n']"));
    assert_int_equal(parsed.request.stops_count, 2);
    assert_string_equal(parsed.request.stops[1], "b\n");
    api_parsed_fini(&parsed);
    parse(&parsed, CHAT("'stop':[]"));
    assert_int_equal(parsed.request.stops_count, 0);
    api_parsed_fini(&parsed);
}

static void test_biases_in_both_forms(void **state)
{
    static const char *const bodies[] = {CHAT("'logit_bias':{'5':-1.5,'7':false}"),
                                         CHAT("'logit_bias':[[5,-1.5],[7,false]]")};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct api_parsed parsed;
        parse(&parsed, bodies[i]);
        const struct sample_bias *biases = parsed.request.sample.biases;
        assert_int_equal(parsed.request.sample.biases_count, 2);
        assert_true(biases[0].token == 5 && biases[0].bias == -1.5f);
        assert_true(biases[1].token == 7 && isinf(biases[1].bias) && biases[1].bias < 0);
        api_parsed_fini(&parsed);
    }
}

static void test_formats(void **state)
{
    static const struct {
        const char *body;
        enum constraint_answer format;
        const char *schema;
    } cases[] = {
        {CHAT("'response_format':{'type':'text'}"), CONSTRAINT_ANSWER_TEXT, NULL},
        {CHAT("'response_format':{'type':'json_object'}"), CONSTRAINT_ANSWER_OBJECT, NULL},
        {CHAT("'response_format':{'type':'json_object','schema':{'a':1}}"),
         CONSTRAINT_ANSWER_SCHEMA, "{'a':1}"},
        {CHAT("'response_format':{'type':'json_schema','json_schema':{'name':'n','strict':true,"
              "'schema':{'a':2}}}"),
         CONSTRAINT_ANSWER_SCHEMA, "{'a':2}"},
        {CHAT("'response_format':{'type':'json_schema','schema':{'a':3}}"),
         CONSTRAINT_ANSWER_SCHEMA, "{'a':3}"},
        {CHAT("'json_schema':{'a':4}"), CONSTRAINT_ANSWER_SCHEMA, "{'a':4}"},
        {CHAT("'grammar':'root ::= x'"), CONSTRAINT_ANSWER_GRAMMAR, NULL},
        {CHAT("'grammar':''"), CONSTRAINT_ANSWER_TEXT, NULL},
        {CHAT("'guided_json':{'a':5}"), CONSTRAINT_ANSWER_SCHEMA, "{'a':5}"},
        {CHAT("'guided_json':'{\\'a\\':6}'"), CONSTRAINT_ANSWER_SCHEMA, "{'a':6}"},
        {CHAT("'guided_regex':'a+'"), CONSTRAINT_ANSWER_REGEX, NULL},
        {CHAT("'guided_choice':['a','b']"), CONSTRAINT_ANSWER_CHOICE, NULL},
        {CHAT("'guided_grammar':'root ::= x'"), CONSTRAINT_ANSWER_GRAMMAR, NULL},
        {CHAT("'structured_outputs':{'json':{'a':7}}"), CONSTRAINT_ANSWER_SCHEMA, "{'a':7}"},
        {CHAT("'structured_outputs':{'json_object':true}"), CONSTRAINT_ANSWER_OBJECT, NULL},
        {CHAT("'structured_outputs':{'json_object':false,'regex':'a+'}"), CONSTRAINT_ANSWER_REGEX,
         NULL},
        {CHAT("'structured_outputs':{'choice':['a'],'regex':null}"), CONSTRAINT_ANSWER_CHOICE,
         NULL},
        {CHAT("'structured_outputs':{'grammar':'root ::= x'}"), CONSTRAINT_ANSWER_GRAMMAR, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;
        parse(&parsed, cases[i].body);
        assert_int_equal(parsed.request.format, cases[i].format);
        if (cases[i].schema != NULL)
            api_assert_json(parsed.request.schema, cases[i].schema);
        api_parsed_fini(&parsed);
    }
}

static void test_thinking(void **state)
{
    static const struct {
        const char *body;
        enum chat_thinking thinking;
        const char *effort;
        enum reasoning_mode mode;
        uint32_t budget;
    } cases[] = {
        {CHAT("'reasoning_effort':'low'"), CHAT_THINKING_ON, "low", REASONING_SPLIT, 0},
        {CHAT("'reasoning_effort':'none'"), CHAT_THINKING_OFF, "none", REASONING_SPLIT, 0},
        {CHAT("'reasoning':{'effort':'high','max_tokens':50}"), CHAT_THINKING_ON, "high",
         REASONING_SPLIT, 50},
        {CHAT("'chat_template_kwargs':{'enable_thinking':false}"), CHAT_THINKING_OFF, "",
         REASONING_SPLIT, 0},
        {CHAT("'chat_template_kwargs':{'thinking':true}"), CHAT_THINKING_ON, "", REASONING_SPLIT,
         0},
        {CHAT("'chat_template_kwargs':{'x':1}"), CHAT_THINKING_DEFAULT, "", REASONING_SPLIT, 0},
        {CHAT("'reasoning_format':'none'"), CHAT_THINKING_DEFAULT, "", REASONING_RAW, 0},
        {CHAT("'reasoning_format':'deepseek'"), CHAT_THINKING_DEFAULT, "", REASONING_SPLIT, 0},
        {CHAT("'reasoning_format':'hidden'"), CHAT_THINKING_DEFAULT, "", REASONING_DROP, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct api_parsed parsed;
        parse(&parsed, cases[i].body);
        assert_int_equal(parsed.request.thinking, cases[i].thinking);
        assert_true(str_eq(parsed.request.reasoning_effort, str_from(cases[i].effort)));
        assert_int_equal(parsed.request.reasoning_mode, cases[i].mode);
        assert_int_equal(parsed.request.reasoning_budget, cases[i].budget);
        api_parsed_fini(&parsed);
    }
}

static void test_cache_and_stream(void **state)
{
    struct api_parsed parsed;
    struct gen_request *request = &parsed.request;

    (void)state;
    parse(&parsed, CHAT("'cache_prompt':false,'prompt_cache_key':'k','cache_salt':'s',"
                        "'prompt_cache_retention':'in_memory','stream':true,"
                        "'stream_options':{'include_usage':true,'other':1},'return_progress':true,"
                        "'timings_per_token':true,'return_token_ids':true,"
                        "'skip_special_tokens':false"));
    assert_false(request->cache_read || request->cache_write);
    assert_true(request->cache_no_disk && request->cache_ttl_s == 0);
    assert_true(str_eq(request->cache_key, STR("k")) && str_eq(request->cache_salt, STR("s")));
    assert_true(request->stream && request->stream_usage && request->progress);
    assert_true(request->timings_each && request->control_text && request->return_tokens);
    api_parsed_fini(&parsed);
    parse(&parsed, CHAT("'prompt_cache_retention':'24h','cache_prompt':true"));
    assert_true(request->cache_read && request->cache_write && !request->cache_no_disk);
    assert_int_equal(request->cache_ttl_s, 86400);
    api_parsed_fini(&parsed);
}

static void test_cache_options(void **state)
{
    struct api_parsed parsed;
    struct gen_request *request = &parsed.request;

    (void)state;
    parse(&parsed, CHAT("'prompt_cache_options':{'mode':'explicit','ttl':'12h','prewarm':true,"
                        "'comparison_response_id':'resp_1'},'max_tokens':50"));
    assert_true(request->cache_explicit && request->prefill_only);
    assert_int_equal(request->cache_ttl_s, 12 * 3600);
    assert_int_equal(request->max_tokens, 1);
    assert_true(str_eq(request->compare_id, STR("resp_1")));
    api_parsed_fini(&parsed);
    parse(&parsed, CHAT("'prompt_cache_options':{}"));
    assert_true(!request->cache_explicit && !request->prefill_only);
    assert_int_equal(request->cache_ttl_s, 30 * 60);
    api_parsed_fini(&parsed);
}

/* After a message, or inside one. */
static void test_cache_breakpoints(void **state)
{
    struct api_parsed parsed;
    struct gen_request *request = &parsed.request;

    (void)state;
    parse(&parsed, "{'messages':[{'role':'system','content':[{'type':'text','text':'s',"
                   "'prompt_cache_breakpoint':{'mode':'explicit','ttl':'30m'}}]},"
                   "{'role':'user','content':'u'},"
                   "{'role':'user','content':[{'type':'text','text':'a','prompt_cache_breakpoint':"
                   "{'mode':'explicit'}},{'type':'text','text':'b'}]},"
                   "{'role':'user','content':[{'type':'text','text':'c','prompt_cache_breakpoint':"
                   "{'mode':'explicit'}}]}]}");
    assert_int_equal(request->breakpoints_count, 2);
    assert_int_equal(request->breakpoints[0], 0);
    assert_int_equal(request->breakpoints[1], 3);
    assert_int_equal(request->conversation.messages[1].cut_parts, 0);
    assert_int_equal(request->conversation.messages[2].cut_parts, 1);
    assert_int_equal(request->cache_ttl_s, 30 * 60);
    api_parsed_fini(&parsed);
    /* parts of no message */
    parse(&parsed, CHAT("'prediction':{'type':'content','content':[{'type':'text','text':'a',"
                        "'prompt_cache_breakpoint':{'mode':'explicit','ttl':'30m'}},"
                        "{'type':'text','text':'b'}]}"));
    assert_int_equal(request->breakpoints_count, 0);
    assert_int_equal(request->conversation.messages[0].cut_parts, 0);
    assert_int_equal(request->cache_ttl_s, 30 * 60);
    api_parsed_fini(&parsed);
}

#define BAD(fields, param, message)                     \
    {                                                   \
        CHAT(fields), API_ERROR_INVALID, param, message \
    }

static const struct api_bad bad[] = {
    BAD("'model':5", "model", "'model' must be a string"),
    BAD("'temperature':-1", "temperature", "'temperature' must be a number from 0 to 100"),
    BAD("'temperature':'hot'", "temperature", "must be a number"),
    BAD("'top_p':1.5", "top_p", "must be a number from 0 to 1"),
    BAD("'top_k':-2", "top_k", "must be a whole number from -1"),
    BAD("'min_p':true", "min_p", "must be a number"),
    BAD("'repeat_penalty':0", "repeat_penalty", "must be a number from 0.001"),
    BAD("'dry_sequence_breakers':'x'", "dry_sequence_breakers", "must be an array"),
    BAD("'dry_sequence_breakers':[5]", "dry_sequence_breakers", "must be texts"),
    BAD("'dry_sequence_breakers':[1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8]", "dry_sequence_breakers",
        "at most 16"),
    BAD("'seed':1.5", "seed", "must be a whole number"),
    BAD("'max_tokens':0", "max_tokens", "must be a whole number of at least 1"),
    BAD("'max_tokens':-2", "max_tokens", "must be a whole number of at least 1"),
    BAD("'max_completion_tokens':'5'", "max_completion_tokens", "must be a whole number"),
    BAD("'n':0", "n", "must be a whole number from 1 to 16"),
    BAD("'n':17", "n", "must be a whole number from 1 to 16"),
    BAD("'stop':5", "stop", "must be a string or a list"),
    BAD("'stop':[5]", "stop", "must be texts"),
    BAD("'stop':['a\\u0000b']", "stop", "without NUL"),
    BAD("'stop':['a','a','a','a','a','a','a','a','a','a','a','a','a','a','a','a','a']", "stop",
        "at most 16"),
    BAD("'logit_bias':5", "logit_bias", "must be an object or a list"),
    BAD("'logit_bias':{'x':1}", "logit_bias", "token ids as names"),
    BAD("'logit_bias':{'4294967296':1}", "logit_bias", "cannot exist"),
    BAD("'logit_bias':{'1':'x'}", "logit_bias", "must have numbers"),
    BAD("'logit_bias':{'1':1e7}", "logit_bias", "must have numbers"),
    BAD("'logit_bias':[5]", "logit_bias", "pairs"),
    BAD("'logit_bias':[[1]]", "logit_bias", "pairs"),
    BAD("'logit_bias':[['a',1]]", "logit_bias", "pairs, not text"),
    BAD("'response_format':'json'", "response_format", "must be an object"),
    BAD("'response_format':{}", "response_format.type", "must be text, json_object or json_schema"),
    BAD("'response_format':{'type':'json_schema'}", "response_format.schema", "JSON Schema"),
    BAD("'response_format':{'type':'json_schema','json_schema':{}}",
        "response_format.json_schema.schema", "JSON Schema"),
    BAD("'response_format':{'type':'json_schema','json_schema':{'schema':5}}",
        "response_format.json_schema.schema", "must be an object"),
    BAD("'json_schema':{},'grammar':'x'", "grammar", "cannot be combined"),
    BAD("'response_format':{'type':'json_object'},'json_schema':{}", "json_schema",
        "cannot be combined"),
    BAD("'grammar':5", "grammar", "must be a string"),
    BAD("'grammar':'root ::= [a] # \\u0000 (((('", "grammar", "NUL"),
    BAD("'reasoning_effort':'much'", "reasoning_effort", "must be none, minimal"),
    BAD("'reasoning':{'effort':5}", "reasoning.effort", "must be a string"),
    BAD("'guided_choice':[]", "guided_choice", "at least one text"),
    BAD("'guided_choice':['a',5]", "guided_choice", "at least one text"),
    BAD("'guided_json':'{'", "guided_json", "JSON Schema"),
    BAD("'structured_outputs':{'regex':5}", "structured_outputs.regex", "must be a string"),
    {CHAT("'structured_outputs':{'structural_tag':{}}"), API_ERROR_UNSUPPORTED,
     "structured_outputs.structural_tag", "not supported"},
    BAD("'guided_regex':'a','guided_choice':['a']", "guided_choice", "cannot be combined"),
    BAD("'chat_template_kwargs':[]", "chat_template_kwargs", "must be an object"),
    BAD("'reasoning_format':'x'", "reasoning_format", "must be auto"),
    BAD("'cache_prompt':'yes'", "cache_prompt", "must be true or false"),
    BAD("'prompt_cache_retention':'1h'", "prompt_cache_retention", "must be in_memory or 24h"),
    BAD("'prompt_cache_options':{'mode':'x'}", "prompt_cache_options.mode",
        "must be implicit or explicit"),
    BAD("'prompt_cache_options':{'ttl':'2h'}", "prompt_cache_options.ttl", "must be 5m, 30m"),
    BAD("'stream':1", "stream", "must be true or false"),
    BAD("'stream_options':{'include_usage':1}", "stream_options.include_usage",
        "must be true or false"),
    BAD("'logprobs':5", "logprobs", "must be true or false"),
    BAD("'logprobs':true,'top_logprobs':21", "top_logprobs", "from 0 to 20"),
    BAD("'top_logprobs':2", "top_logprobs", "needs 'logprobs'"),
};

static void test_bad_fields_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        api_assert_refused(&dialect_openai_chat, &bad[i]);
}

static void test_long_names_are_refused(void **state)
{
    char body[1000] = "{'messages':[{'role':'user','content':'x'}],'cache_salt':'";
    struct api_bad entry = {body, API_ERROR_INVALID, "cache_salt", "at most 256 bytes"};
    size_t len = strlen(body);

    (void)state;
    memset(body + len, 'x', 257);
    memcpy(body + len + 257, "'}", 3);
    api_assert_refused(&dialect_openai_chat, &entry);
}

static void test_predictions(void **state)
{
    static const struct api_bad wrong[] = {
        {CHAT("'prediction':7"), API_ERROR_INVALID, "prediction", "must be an object"},
        {CHAT("'prediction':{'type':'x','content':'y'}"), API_ERROR_INVALID, "prediction.type",
         "must be content"},
        {CHAT("'prediction':{'type':'content','content':[{'type':'input_audio'}]}"),
         API_ERROR_UNSUPPORTED, "prediction.content[0].type", ""},
    };
    struct api_parsed parsed;

    (void)state;
    parse(&parsed, CHAT("'prediction':{'type':'content','content':'abc'}"));
    assert_true(str_eq(parsed.request.prediction, STR("abc")));
    api_parsed_fini(&parsed);
    parse(&parsed, CHAT("'prediction':{'type':'content','content':["
                        "{'type':'text','text':'ab'},{'type':'text','text':'cd'}]}"));
    assert_true(str_eq(parsed.request.prediction, STR("abcd")));
    api_parsed_fini(&parsed);
    parse(&parsed, CHAT("'prediction':null"));
    assert_int_equal(parsed.request.prediction.len, 0);
    api_parsed_fini(&parsed);
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        api_assert_refused(&dialect_openai_chat, &wrong[i]);
}

/* The arena of a request has a limit; what does not fit is an error that says so. */
static void test_full_arena(void **state)
{
    struct api_parsed parsed;
    const char *text = api_quote(CHAT("'stop':'abcdefgh'"));

    (void)state;
    parse(&parsed, text);
    api_parsed_fini(&parsed);
    gen_request_init(&parsed.request, 4, NULL);
    parsed.request.body = yyjson_read(text, strlen(text), 0);
    assert_err(dialect_openai_chat.parse(&parsed.request, yyjson_doc_get_root(parsed.request.body),
                                         &parsed.error),
               ERR_LIMIT);
    gen_request_fini(&parsed.request);
}

static void test_without_memory(void **state)
{
    (void)state;
    api_assert_parse_survives(&dialect_openai_chat,
                              CHAT("'stop':['a','b'],'logit_bias':{'1':2},"
                                   "'dry_sequence_breakers':['x'],"
                                   "'response_format':{'type':'json_object'}"));
}

TEST_SUITE(TEST(test_sampling), TEST(test_nothing_is_asked_for), TEST(test_seeds),
           TEST(test_limits), TEST(test_stops), TEST(test_biases_in_both_forms), TEST(test_formats),
           TEST(test_thinking), TEST(test_cache_and_stream), TEST(test_cache_options),
           TEST(test_cache_breakpoints), TEST(test_bad_fields_are_named),
           TEST(test_long_names_are_refused), TEST(test_predictions), TEST(test_full_arena),
           TEST(test_without_memory))
