/* places_test.c: the joints of texts, and that settled ones depend on nothing behind them. */
#include "sched/places.h"

#include <string.h>

#include "support/engine_fake.h"
#include "support/test.h"

enum { WINDOW = 16, TEXT = 600 };

static void find(const token_id *tokens, uint32_t count, const struct mark *marks,
                 size_t marks_count, struct places *places)
{
    struct engine *engine;

    assert_ok(engine_fake_create(&engine, &(struct engine_fake_options){0}, NULL));
    assert_ok(places_find(&(struct places_text){.engine = engine,
                                                .tokens = tokens,
                                                .count = count,
                                                .marks = marks,
                                                .marks_count = marks_count,
                                                .window = WINDOW},
                          places));
    engine_close(&engine);
}

static size_t tokens_of(const char *text, token_id *tokens)
{
    size_t count = 0;

    for (; *text != '\0'; text++) /* '{' begins a turn, '}' ends one */
        tokens[count++] = *text == '{'   ? ENGINE_FAKE_TURN_BEGIN
                          : *text == '}' ? ENGINE_FAKE_TURN_END
                                         : (unsigned char)*text;
    return count;
}

static const struct place *place_at(const struct places *places, const char *text, const char *at)
{
    uint32_t token = (uint32_t)(strstr(text, at) - text);

    for (size_t i = 0; i < places->count; i++)
        if (places->list[i].at == token)
            return &places->list[i];
    fail_msg("no place before %s", at);
    return NULL;
}

static void test_joints_of_a_text(void **state)
{
    static const char *const text =
        "{user\nUse these documents, please.\n\n## Document 1\n\nFire and ash.\n- an item of it\n"
        "10. another one\n\n```python\nprint(1) # and so on\n```\n<document id=2>some more text\n\n"
        "Question: what is it?}\n{assistant\n";
    static const struct {
        const char *at;
        enum place_kind kind;
    } expected[] = {{"## Doc", PLACE_HEADING}, {"Fire", PLACE_PARAGRAPH},  {"- an", PLACE_ITEM},
                    {"10.", PLACE_ITEM},       {"```python", PLACE_FENCE}, {"print", PLACE_LINE},
                    {"<doc", PLACE_TAG},       {"Question", PLACE_LABEL}};
    struct mark part = {.kind = MARK_PART};
    token_id tokens[TEXT];
    struct places places;

    (void)state;
    uint32_t count = (uint32_t)tokens_of(text, tokens);
    find(tokens, count, NULL, 0, &places);
    for (size_t i = 0; i < COUNT_OF(expected); i++)
        assert_int_equal(place_at(&places, text, expected[i].at)->kind, expected[i].kind);
    for (size_t i = 0; i < places.count; i++) { /* what the template wrote has none */
        assert_true(places.list[i].at > 6 && places.list[i].at < strstr(text, "}") - text);
        assert_true(i == 0 || places.list[i].at > places.list[i - 1].at);
    }
    places_fini(&places);
    part.at = (size_t)(strstr(text, "and ash") - text);
    find(tokens, count, &part, 1, &places);
    assert_int_equal(place_at(&places, text, "and ash")->kind, PLACE_PART);
    places_fini(&places);
}

/* Two texts that agree up to a token have the same settled places before it: exact runs are cut
 * there. */
static void test_settled_places_depend_on_the_text_before_them(void **state)
{
    static const char letters[] = "ab -#:\n\n\n{}1.";
    uint64_t seed = test_seed();
    size_t settled = 0;

    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        char one[TEXT + 1], other[TEXT + 1];
        token_id tokens[2][TEXT];
        struct places places[2];
        uint32_t fork = (uint32_t)test_random_below(&seed, TEXT), i;
        for (i = 0; i < TEXT; i++) {
            one[i] = letters[test_random_below(&seed, sizeof(letters) - 1)];
            other[i] = i < fork ? one[i] : letters[test_random_below(&seed, sizeof(letters) - 1)];
        }
        one[TEXT] = other[TEXT] = '\0';
        find(tokens[0], (uint32_t)tokens_of(one, tokens[0]), NULL, 0, &places[0]);
        find(tokens[1], (uint32_t)tokens_of(other, tokens[1]), NULL, 0, &places[1]);
        bool cuts[2][TEXT + 1] = {{false}};
        for (int k = 0; k < 2; k++)
            for (size_t j = 0; j < places[k].count; j++)
                cuts[k][places[k].list[j].at] = places[k].list[j].settled;
        for (i = 0; i <= fork && i <= TEXT; i++)
            assert_int_equal(cuts[0][i], cuts[1][i]);
        for (uint32_t window = 0; window < TEXT / WINDOW; window++) {
            size_t count = 0;
            for (i = 0; i < WINDOW; i++)
                count += cuts[0][window * WINDOW + i];
            assert_true(count <= 1);
            settled += count;
        }
        places_fini(&places[0]);
        places_fini(&places[1]);
    }
    assert_true(settled > 1000);
}

TEST_SUITE(TEST(test_joints_of_a_text), TEST(test_settled_places_depend_on_the_text_before_them))
